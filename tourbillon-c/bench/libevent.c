/*
 * libevent, with one common timeout and with its heap.
 *
 * It caches the time only while it runs callbacks, so all rounds run in one callback. There is no
 * locking, because evthread_use_pthreads is not called.
 */
#include "bench.h"
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>

struct base {
    struct event_base *base;
    struct event *events;
    const struct timeval *delay;
    struct timeval plain;
    void (*body)(void *);
    void *argument;
};

static void never(evutil_socket_t fd, short what, void *argument) {
    (void)fd;
    (void)what;
    (void)argument;
}

static struct base *begin(size_t timers, int is_common) {
    struct base *base = zeroed(1, sizeof *base);
    base->events = zeroed(timers, sizeof *base->events);
    base->base = event_base_new();
    require(base->base != NULL, "event_base_new");
    base->plain.tv_sec = IDLE_MS / 1000;
    base->delay = is_common ? event_base_init_common_timeout(base->base, &base->plain) : &base->plain;
    for (size_t i = 0; i < timers; i++) {
        require(evtimer_assign(&base->events[i], base->base, never, base) == 0, "evtimer_assign");
    }
    return base;
}

static void *begin_common(size_t timers) {
    return begin(timers, 1);
}

static void *begin_heap(size_t timers) {
    return begin(timers, 0);
}

static void end(void *system) {
    struct base *base = system;
    event_base_free(base->base);
    free(base->events);
    free(base);
}

static void call_body(evutil_socket_t fd, short what, void *argument) {
    (void)fd;
    (void)what;
    struct base *base = argument;
    base->body(base->argument);
}

static void within(void *system, void (*body)(void *), void *argument) {
    struct base *base = system;
    struct event event;
    base->body = body;
    base->argument = argument;
    require(evtimer_assign(&event, base->base, call_body, base) == 0, "evtimer_assign");
    event_active(&event, EV_TIMEOUT, 1);
    event_base_loop(base->base, EVLOOP_NONBLOCK);
}

static void schedule(void *system, const uint32_t *which, size_t count) {
    struct base *base = system;
    event_base_update_cache_time(base->base);
    for (size_t i = 0; i < count; i++) {
        evtimer_add(&base->events[which[i]], base->delay);
    }
}

static void cancel(void *system, const uint32_t *which, size_t count) {
    struct base *base = system;
    for (size_t i = 0; i < count; i++) {
        evtimer_del(&base->events[which[i]]);
    }
}

static void schedule_and_cancel(void *system, const uint32_t *which, size_t count) {
    struct base *base = system;
    event_base_update_cache_time(base->base);
    for (size_t i = 0; i < count; i++) {
        evtimer_add(&base->events[which[i]], base->delay);
        evtimer_del(&base->events[which[i]]);
    }
}

/* To add a pending event moves it. */
const struct bench_system libevent_common = {"libevent, common timeout", begin_common, end,      within,
                                             schedule,                   cancel,       schedule, NULL, schedule_and_cancel};
const struct bench_system libevent_heap = {"libevent, heap", begin_heap, end,      within,
                                           schedule,         cancel,     schedule, NULL, schedule_and_cancel};
