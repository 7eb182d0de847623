/*
 * One case of the comparison, with a timer of C: the same workloads as in
 * perf/src/compare/workloads, and the same line of JSON on standard output.
 *
 *   timers_case --system libuv --case w3 --producers 2 --scale 1 --pace 1
 *
 * These loops belong to one thread, so each producer has its own.
 */
#include "library.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct producer {
    pthread_t thread;
    size_t number;
    struct run run;
    uint64_t since_ns, until_ns;
};

static const struct library *library;
/* All have prepared; all may begin; all have ended; the CPU has been read. */
static pthread_barrier_t ready, start, done, read_out;

static void produce(void *argument) {
    struct run *run = argument;
    struct producer *producer = (struct producer *)((char *)run - offsetof(struct producer, run));
    uint64_t state = 0x9e3779b97f4a7c15 ^ producer->number;
    if (run->work == SCHEDULE) {
        run->delays_us = zeroed(run->steps, sizeof *run->delays_us);
        for (size_t i = 0; i < run->steps; i++) {
            run->delays_us[i] = 30000000 + random_below(&state, 30000000);
        }
    } else if (run->work == RESET) {
        run->order = zeroed(ORDER_LENGTH, sizeof *run->order);
        for (size_t i = 0; i < ORDER_LENGTH; i++) {
            run->order[i] = random_below(&state, (uint32_t)run->timers);
        }
    }
    library->prepare(run);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&start);
    producer->since_ns = ns_of(CLOCK_MONOTONIC);
    library->work(run);
    producer->until_ns = ns_of(CLOCK_MONOTONIC);
    pthread_barrier_wait(&done);
    pthread_barrier_wait(&read_out);
    require(library->pending(run) == run->timers && run->fired == 0, "a timer, none of which was due,");
}

static void *thread(void *argument) {
    struct producer *producer = argument;
    library->within(&producer->run, produce);
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

/* A share of the full number, but a hundred at least. */
static size_t scaled(size_t full, double scale) {
    size_t share = (size_t)((double)full * scale), least = full < 100 ? full : 100;
    return share > least ? share : least;
}

int main(int argc, char **argv) {
    const char *system = option(argc, argv, "--system"), *name = option(argc, argv, "--case");
    size_t count = strtoul(option(argc, argv, "--producers"), NULL, 10);
    double scale = strtod(option(argc, argv, "--scale"), NULL);
    const struct library *const libraries[] = {&libevent, &libev, &libuv};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (strcmp(libraries[i]->name, system) == 0) {
            library = libraries[i];
        }
    }
    struct run run = {0};
    if (strcmp(name, "w1") == 0 || strcmp(name, "w1-cold") == 0) {
        run = (struct run){.work = SCHEDULE, .is_reserved = strcmp(name, "w1") == 0, .steps = scaled(1000000, scale)};
        run.timers = run.steps;
    } else if (strcmp(name, "w2") == 0) {
        run = (struct run){.work = RING, .timers = RING_LENGTH, .steps = scaled(1000000, scale)};
    } else if (strcmp(name, "w3") == 0) {
        run = (struct run){.work = RESET, .timers = scaled(100000, scale), .steps = scaled(4000000, scale)};
    } else {
        fprintf(stderr, "error: there is no case %s for a timer of C\n", name);
        return 2;
    }
    require(library != NULL && count > 0, "to find the system, or its producers,");
    unsigned all = (unsigned)count + 1;
    require(pthread_barrier_init(&ready, NULL, all) == 0 && pthread_barrier_init(&start, NULL, all) == 0 &&
                pthread_barrier_init(&done, NULL, all) == 0 && pthread_barrier_init(&read_out, NULL, all) == 0,
            "to make barriers");
    struct producer *producers = zeroed(count, sizeof *producers);
    for (size_t i = 0; i < count; i++) {
        producers[i].number = i;
        producers[i].run = run;
        require(pthread_create(&producers[i].thread, NULL, thread, &producers[i]) == 0, "to start a thread");
    }
    pthread_barrier_wait(&ready);
    uint64_t cpu_ns = ns_of(CLOCK_PROCESS_CPUTIME_ID);
    pthread_barrier_wait(&start);
    pthread_barrier_wait(&done);
    cpu_ns = ns_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    pthread_barrier_wait(&read_out);
    uint64_t sum_ns = 0, first_ns = UINT64_MAX, last_ns = 0;
    for (size_t i = 0; i < count; i++) {
        require(pthread_join(producers[i].thread, NULL) == 0, "to join a thread");
        sum_ns += producers[i].until_ns - producers[i].since_ns;
        first_ns = producers[i].since_ns < first_ns ? producers[i].since_ns : first_ns;
        last_ns = producers[i].until_ns > last_ns ? producers[i].until_ns : last_ns;
    }
    double operations = (double)(count * run.steps);
    printf("{\"system\":\"%s\",\"case\":\"%s\",\"producers\":%zu,\"metrics\":{\"ns\":%.4f,\"cpu_ns\":%.4f,\"mops\":%.4f},"
           "\"notes\":[\"%s %s\"]}\n",
           system, name, count, (double)sum_ns / operations, (double)cpu_ns / operations,
           operations * 1e3 / (double)(last_ns - first_ns), system, library->version());
    fflush(stdout);
    /* Without taking the timers apart. */
    _exit(0);
}
