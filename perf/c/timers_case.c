/*
 * One case of the comparison, with a timer of C. What to do, and how much of it, comes from the
 * command line: perf/src/compare/cases.rs has the numbers. The result is a line of JSON on standard
 * output. It is compiled once for each library, with -DLIBEVENT, -DLIBEV or -DLIBUV.
 *
 * These loops belong to one thread, so each producer has its own.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A loop reads the time for every 16th operation, as one with much to do does. */
enum { ROUND = 16, ORDER_LENGTH = 1 << 18 };

/* Of all timeouts of W2 and W3. */
#define DELAY_MS 60000

/* Ends the program if something failed. */
static void require(bool is_so, const char *what) {
    if (!is_so) {
        fprintf(stderr, "error: %s failed\n", what);
        exit(1);
    }
}

/* Memory for `count` values of `size` bytes, all zero. */
static void *zeroed(size_t count, size_t size) {
    void *memory = calloc(count, size);
    require(memory != NULL, "to get memory");
    return memory;
}

/*
 * What the loops below know of a library: `struct owner`, a loop with its `timers` and how many have
 * `fired`, and these functions, which the compiler can inline.
 *
 *   make(owner, have_one_delay)          makes the loop
 *   call_within(owner, body, argument)   from where the loop's cached time is valid
 *   update(owner)                        the cached time is the time now
 *   init(owner, timer)                   once, before anything else
 *   start_after(owner, timer, us), start(owner, timer) after DELAY_MS, stop(owner, timer)
 *   again(owner, timer)                  moves one that is pending to DELAY_MS from now
 *   is_pending(timer), version()
 */
#if defined(LIBEVENT)
/*
 * A common timeout if all delays are the same, and the heap if not. The time is cached only within
 * callbacks, so the body runs in one. Without locks: each loop has one thread.
 */
#include <event2/event.h>
#include <event2/event_struct.h>

typedef struct event timer_type;

struct owner {
    struct event_base *base;
    timer_type *timers;
    const struct timeval *delay;
    void (*body)(void *);
    void *argument;
    size_t fired;
};

static void fire(evutil_socket_t fd, short what, void *owner) {
    (void)fd;
    (void)what;
    ((struct owner *)owner)->fired++;
}

static void make(struct owner *owner, bool have_one_delay) {
    static const struct timeval delay = {.tv_sec = DELAY_MS / 1000, .tv_usec = DELAY_MS % 1000 * 1000};
    owner->base = event_base_new();
    require(owner->base != NULL, "event_base_new");
    owner->delay = have_one_delay ? event_base_init_common_timeout(owner->base, &delay) : &delay;
}

static void call_body(evutil_socket_t fd, short what, void *argument) {
    (void)fd;
    (void)what;
    struct owner *owner = argument;
    owner->body(owner->argument);
}

static void call_within(struct owner *owner, void (*body)(void *), void *argument) {
    struct event event;
    owner->body = body;
    owner->argument = argument;
    require(evtimer_assign(&event, owner->base, call_body, owner) == 0, "evtimer_assign");
    event_active(&event, EV_TIMEOUT, 1);
    event_base_loop(owner->base, EVLOOP_NONBLOCK);
}

static inline void update(struct owner *owner) { event_base_update_cache_time(owner->base); }

static inline void init(struct owner *owner, timer_type *timer) { evtimer_assign(timer, owner->base, fire, owner); }

static inline void start_after(struct owner *owner, timer_type *timer, uint32_t us) {
    (void)owner;
    struct timeval delay = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};
    evtimer_add(timer, &delay);
}

static inline void start(struct owner *owner, timer_type *timer) { evtimer_add(timer, owner->delay); }

static inline void stop(struct owner *owner, timer_type *timer) {
    (void)owner;
    evtimer_del(timer);
}

/* To add one that is pending moves it. */
static inline void again(struct owner *owner, timer_type *timer) { evtimer_add(timer, owner->delay); }

static bool is_pending(timer_type *timer) { return evtimer_pending(timer, NULL); }

static const char *version(void) { return event_get_version(); }

#elif defined(LIBEV)
/* `ev_timer_again` moves a timer by its repeat. The loop caches the time. */
#include <ev.h>

typedef ev_timer timer_type;

struct owner {
    struct ev_loop *loop;
    timer_type *timers;
    size_t fired;
};

static void fire(struct ev_loop *loop, ev_timer *timer, int events) {
    (void)loop;
    (void)events;
    ((struct owner *)timer->data)->fired++;
}

static void make(struct owner *owner, bool have_one_delay) {
    (void)have_one_delay;
    owner->loop = ev_loop_new(EVFLAG_AUTO);
    require(owner->loop != NULL, "ev_loop_new");
}

static void call_within(struct owner *owner, void (*body)(void *), void *argument) {
    (void)owner;
    body(argument);
}

static inline void update(struct owner *owner) { ev_now_update(owner->loop); }

static inline void init(struct owner *owner, timer_type *timer) {
    ev_init(timer, fire);
    timer->repeat = DELAY_MS / 1e3;
    timer->data = owner;
}

/* As `ev_timer_set` does, except that the repeat stays. */
static inline void start_after(struct owner *owner, timer_type *timer, uint32_t us) {
    timer->at = us / 1e6;
    ev_timer_start(owner->loop, timer);
}

static inline void start(struct owner *owner, timer_type *timer) { start_after(owner, timer, DELAY_MS * 1000); }

static inline void stop(struct owner *owner, timer_type *timer) { ev_timer_stop(owner->loop, timer); }

static inline void again(struct owner *owner, timer_type *timer) { ev_timer_again(owner->loop, timer); }

static bool is_pending(timer_type *timer) { return ev_is_active(timer); }

static const char *version(void) {
    static char text[16];
    snprintf(text, sizeof text, "%d.%d", ev_version_major(), ev_version_minor());
    return text;
}

#elif defined(LIBUV)
/* `uv_timer_again` moves a timer by its repeat. The loop caches the time, in milliseconds. */
#include <uv.h>

typedef uv_timer_t timer_type;

struct owner {
    uv_loop_t loop;
    timer_type *timers;
    size_t fired;
};

static void fire(uv_timer_t *timer) { ((struct owner *)timer->data)->fired++; }

static void make(struct owner *owner, bool have_one_delay) {
    (void)have_one_delay;
    require(uv_loop_init(&owner->loop) == 0, "uv_loop_init");
}

static void call_within(struct owner *owner, void (*body)(void *), void *argument) {
    (void)owner;
    body(argument);
}

static inline void update(struct owner *owner) { uv_update_time(&owner->loop); }

static inline void init(struct owner *owner, timer_type *timer) {
    uv_timer_init(&owner->loop, timer);
    timer->data = owner;
}

static inline void start_after(struct owner *owner, timer_type *timer, uint32_t us) {
    (void)owner;
    uv_timer_start(timer, fire, us / 1000, DELAY_MS);
}

static inline void start(struct owner *owner, timer_type *timer) { start_after(owner, timer, DELAY_MS * 1000); }

static inline void stop(struct owner *owner, timer_type *timer) {
    (void)owner;
    uv_timer_stop(timer);
}

static inline void again(struct owner *owner, timer_type *timer) {
    (void)owner;
    uv_timer_again(timer);
}

static bool is_pending(timer_type *timer) { return uv_is_active((uv_handle_t *)timer); }

static const char *version(void) { return uv_version_string(); }
#endif

enum work { SCHEDULE, RING, RESET };

/* What all producers do. */
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

static uint64_t ns_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint32_t random_below(uint64_t *state, size_t below) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)((*state >> 32) * below >> 32);
}

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
