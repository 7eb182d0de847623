/*
 * One case of the comparison, with a timer of C. The command line says what to do, and how much of
 * it: perf/src/compare/cases.rs has the numbers. The result is a line of JSON on standard output.
 * It is compiled once for each library, with -DLIBEVENT, -DLIBEV or -DLIBUV.
 *
 * These loops belong to one thread, so each producer has its own.
 */
/* Of all timeouts of W2 and W3. */
#define DELAY_MS 60000

#include "../../crates/c/bench/libraries.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* A loop reads the time for every 16th operation, as one with much to do does. */
enum { ROUND = 16, ORDER_LENGTH = 1 << 18 };

enum work { SCHEDULE, RING, RESET };

/* The work of all producers. */
static enum work work;
static bool is_reserved; /* W1: the timers and the library's memory have been touched before */
static size_t timers, steps;
static uint32_t least_us, most_us;
/* All have prepared; all begin; all have ended; the CPU has been read. */
static pthread_barrier_t barrier;

struct producer {
    pthread_t thread;
    struct owner owner;
    uint64_t random; /* the same in every run */
    uint64_t since_ns, until_ns;
};

static void prepare(struct owner *owner) {
    update(owner);
    if (work == SCHEDULE && !is_reserved) {
        return;
    }
    for (size_t i = 0; i < timers; i++) {
        init(owner, &owner->timers[i]);
        start(owner, &owner->timers[i]);
    }
    for (size_t i = 0; work == SCHEDULE && i < timers; i++) {
        stop(owner, &owner->timers[i]);
    }
}

/* `numbers` are the delays of W1, and the order of W3. */
static void go(struct owner *owner, const uint32_t *numbers) {
    switch (work) {
    case SCHEDULE:
        for (size_t i = 0; i < steps; i++) {
            if (i % ROUND == 0) {
                update(owner);
            }
            if (!is_reserved) {
                init(owner, &owner->timers[i]);
            }
            start_after(owner, &owner->timers[i], numbers[i]);
        }
        break;
    case RING:
        for (size_t i = 0, place = 0; i < steps; i++) {
            if (i % ROUND == 0) {
                update(owner);
            }
            stop(owner, &owner->timers[place]);
            start(owner, &owner->timers[place]);
            place = place + 1 == timers ? 0 : place + 1;
        }
        break;
    case RESET:
        for (size_t i = 0; i < steps; i++) {
            if (i % ROUND == 0) {
                update(owner);
            }
            again(owner, &owner->timers[numbers[i % ORDER_LENGTH]]);
        }
        break;
    }
}

static void produce(void *argument) {
    struct producer *producer = argument;
    struct owner *owner = &producer->owner;
    size_t count = work == SCHEDULE ? steps : ORDER_LENGTH;
    uint32_t *numbers = zeroed(count, sizeof *numbers);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = work == SCHEDULE ? least_us + random_below(&producer->random, most_us - least_us)
                                      : random_below(&producer->random, timers);
    }
    prepare(owner);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    producer->since_ns = ns_of(CLOCK_MONOTONIC);
    go(owner, numbers);
    producer->until_ns = ns_of(CLOCK_MONOTONIC);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    size_t pending = 0;
    for (size_t i = 0; i < timers; i++) {
        pending += is_pending(&owner->timers[i]);
    }
    require(pending == timers && owner->fired == 0, "a timer, none of which was due,");
}

static void *thread(void *argument) {
    struct producer *producer = argument;
    producer->owner.timers = zeroed(timers, sizeof *producer->owner.timers);
    make(&producer->owner, work != SCHEDULE);
    call_within(&producer->owner, produce, producer);
    return NULL;
}

static const char *option(int argc, char **argv, const char *name) {
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return argv[i + 1];
        }
    }
    fprintf(stderr, "error: %s is missing\n", name);
    exit(2);
}

static size_t number(int argc, char **argv, const char *name) { return strtoul(option(argc, argv, name), NULL, 10); }

int main(int argc, char **argv) {
    const char *system = option(argc, argv, "--system"), *name = option(argc, argv, "--case");
    const char *what = option(argc, argv, "--work");
    size_t count = number(argc, argv, "--producers");
    timers = number(argc, argv, "--timeouts");
    steps = number(argc, argv, "--operations");
    least_us = (uint32_t)number(argc, argv, "--least-us");
    most_us = (uint32_t)number(argc, argv, "--most-us");
    work = strcmp(what, "ring") == 0 ? RING : strcmp(what, "reset") == 0 ? RESET : SCHEDULE;
    is_reserved = strcmp(what, "schedule-cold") != 0;
    require(work != SCHEDULE || strncmp(what, "schedule", 8) == 0, "to find a timer of C that does this");
    require(work == SCHEDULE || most_us == DELAY_MS * 1000, "to have a delay of a minute");
    require(count > 0 && pthread_barrier_init(&barrier, NULL, (unsigned)count + 1) == 0, "to make a barrier");
    struct producer *producers = zeroed(count, sizeof *producers);
    for (size_t i = 0; i < count; i++) {
        producers[i].random = 0x9e3779b97f4a7c15 ^ i;
        require(pthread_create(&producers[i].thread, NULL, thread, &producers[i]) == 0, "to start a thread");
    }
    pthread_barrier_wait(&barrier);
    uint64_t cpu_ns = ns_of(CLOCK_PROCESS_CPUTIME_ID);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    cpu_ns = ns_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    pthread_barrier_wait(&barrier);
    uint64_t sum_ns = 0, first_ns = UINT64_MAX, last_ns = 0;
    for (size_t i = 0; i < count; i++) {
        require(pthread_join(producers[i].thread, NULL) == 0, "to join a thread");
        sum_ns += producers[i].until_ns - producers[i].since_ns;
        first_ns = producers[i].since_ns < first_ns ? producers[i].since_ns : first_ns;
        last_ns = producers[i].until_ns > last_ns ? producers[i].until_ns : last_ns;
    }
    double operations = (double)(count * steps);
    printf("{\"system\":\"%s\",\"case\":\"%s\",\"producers\":%zu,\"metrics\":{\"ns\":%.4f,\"cpu_ns\":%.4f,\"mops\":%.4f},"
           "\"notes\":[\"%s %s\"]}\n",
           system, name, count, (double)sum_ns / operations, (double)cpu_ns / operations,
           operations * 1e3 / (double)(last_ns - first_ns), system, version());
    fflush(stdout);
    /* Without taking the timers apart. */
    _exit(0);
}
