/* libev, whose loop caches the time for each round. `ev_timer_again` moves a timer by its repeat. */
#include "bench.h"
#include <ev.h>
#include <stdlib.h>

struct loop {
    struct ev_loop *loop;
    ev_timer *timers;
};

static void never(struct ev_loop *loop, ev_timer *timer, int events) {
    (void)loop;
    (void)timer;
    (void)events;
}

static void *begin(size_t timers) {
    struct loop *loop = zeroed(1, sizeof *loop);
    loop->timers = zeroed(timers, sizeof *loop->timers);
    loop->loop = ev_loop_new(EVFLAG_AUTO);
    require(loop->loop != NULL, "ev_loop_new");
    for (size_t i = 0; i < timers; i++) {
        /* Through a pointer of its own: the macro breaks strict aliasing otherwise. */
        ev_timer *timer = &loop->timers[i];
        ev_init(timer, never);
        timer->repeat = IDLE_MS / 1e3;
    }
    return loop;
}

static void end(void *system) {
    struct loop *loop = system;
    ev_loop_destroy(loop->loop);
    free(loop->timers);
    free(loop);
}

static void again(void *system, const uint32_t *which, size_t count) {
    struct loop *loop = system;
    ev_now_update(loop->loop);
    for (size_t i = 0; i < count; i++) {
        ev_timer_again(loop->loop, &loop->timers[which[i]]);
    }
}

static void schedule(void *system, const uint32_t *which, size_t count) {
    struct loop *loop = system;
    ev_now_update(loop->loop);
    for (size_t i = 0; i < count; i++) {
        ev_timer *timer = &loop->timers[which[i]];
        timer->at = IDLE_MS / 1e3; /* `ev_timer_set`, without the repeat, which stays */
        ev_timer_start(loop->loop, timer);
    }
}

static void cancel(void *system, const uint32_t *which, size_t count) {
    struct loop *loop = system;
    for (size_t i = 0; i < count; i++) {
        ev_timer_stop(loop->loop, &loop->timers[which[i]]);
    }
}

static void schedule_and_cancel(void *system, const uint32_t *which, size_t count) {
    struct loop *loop = system;
    ev_now_update(loop->loop);
    for (size_t i = 0; i < count; i++) {
        ev_timer *timer = &loop->timers[which[i]];
        timer->at = IDLE_MS / 1e3;
        ev_timer_start(loop->loop, timer);
        ev_timer_stop(loop->loop, timer);
    }
}

const struct bench_system libev = {"libev", begin, end, within_nothing, schedule, cancel, again, NULL, schedule_and_cancel};
