/*
 * The code that the programs which measure timers of C share, and the library that is defined, if
 * one is: LIBEVENT, LIBEV or LIBUV. To be included before all others. perf/c includes it, too.
 */
#ifndef LIBRARIES_H
#define LIBRARIES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Ends the program if something failed. */
static inline void require(bool is_so, const char *what) {
    if (!is_so) {
        fprintf(stderr, "error: %s failed\n", what);
        exit(1);
    }
}

/* Memory for `count` values of `size` bytes, all zero. */
static inline void *zeroed(size_t count, size_t size) {
    void *memory = calloc(count, size);
    require(memory != NULL, "to get memory");
    return memory;
}

static inline uint64_t ns_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint32_t random_below(uint64_t *state, size_t below) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)((*state >> 32) * below >> 32);
}

/*
 * The interface of a library to the loops: `struct owner`, a loop with its `timers` and how many
 * have `fired`, and these functions, which the compiler can inline. DELAY_MS is defined before.
 *
 *   make(owner, have_one_delay)          makes the loop, and not the timers
 *   unmake(owner, timers)                ends it; there are so many timers, and none is pending
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

static inline void fire(evutil_socket_t fd, short what, void *owner) {
    (void)fd;
    (void)what;
    ((struct owner *)owner)->fired++;
}

static inline void make(struct owner *owner, bool have_one_delay) {
    static const struct timeval delay = {.tv_sec = DELAY_MS / 1000, .tv_usec = DELAY_MS % 1000 * 1000};
    owner->base = event_base_new();
    require(owner->base != NULL, "event_base_new");
    owner->delay = have_one_delay ? event_base_init_common_timeout(owner->base, &delay) : &delay;
}

static inline void unmake(struct owner *owner, size_t timers) {
    (void)timers;
    event_base_free(owner->base);
}

static inline void call_body(evutil_socket_t fd, short what, void *argument) {
    (void)fd;
    (void)what;
    struct owner *owner = argument;
    owner->body(owner->argument);
}

static inline void call_within(struct owner *owner, void (*body)(void *), void *argument) {
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

static inline bool is_pending(timer_type *timer) { return evtimer_pending(timer, NULL); }

static inline const char *version(void) { return event_get_version(); }

#elif defined(LIBEV)
/* `ev_timer_again` moves a timer by its repeat. The loop caches the time. */
#include <ev.h>

typedef ev_timer timer_type;

struct owner {
    struct ev_loop *loop;
    timer_type *timers;
    size_t fired;
};

static inline void fire(struct ev_loop *loop, ev_timer *timer, int events) {
    (void)loop;
    (void)events;
    ((struct owner *)timer->data)->fired++;
}

static inline void make(struct owner *owner, bool have_one_delay) {
    (void)have_one_delay;
    owner->loop = ev_loop_new(EVFLAG_AUTO);
    require(owner->loop != NULL, "ev_loop_new");
}

static inline void unmake(struct owner *owner, size_t timers) {
    (void)timers;
    ev_loop_destroy(owner->loop);
}

static inline void call_within(struct owner *owner, void (*body)(void *), void *argument) {
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

static inline bool is_pending(timer_type *timer) { return ev_is_active(timer); }

static inline const char *version(void) {
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

static inline void fire(uv_timer_t *timer) { ((struct owner *)timer->data)->fired++; }

static inline void make(struct owner *owner, bool have_one_delay) {
    (void)have_one_delay;
    require(uv_loop_init(&owner->loop) == 0, "uv_loop_init");
}

static inline void unmake(struct owner *owner, size_t timers) {
    for (size_t i = 0; i < timers; i++) {
        uv_close((uv_handle_t *)&owner->timers[i], NULL);
    }
    uv_run(&owner->loop, UV_RUN_DEFAULT);
    require(uv_loop_close(&owner->loop) == 0, "uv_loop_close");
}

static inline void call_within(struct owner *owner, void (*body)(void *), void *argument) {
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

static inline bool is_pending(timer_type *timer) { return uv_is_active((uv_handle_t *)timer); }

static inline const char *version(void) { return uv_version_string(); }
#endif

#endif
