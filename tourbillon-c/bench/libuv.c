/* libuv, whose loop caches the time for each round. `uv_timer_again` moves a timer by its repeat. */
#define _GNU_SOURCE
#include "bench.h"
#include <stdlib.h>
#include <uv.h>

struct loop {
    uv_loop_t loop;
    uv_timer_t *timers;
    size_t count;
};

static void never(uv_timer_t *timer) {
    (void)timer;
}

static void *begin(size_t timers) {
    struct loop *loop = zeroed(1, sizeof *loop);
    loop->timers = zeroed(timers, sizeof *loop->timers);
    loop->count = timers;
    require(uv_loop_init(&loop->loop) == 0, "uv_loop_init");
    for (size_t i = 0; i < timers; i++) {
        require(uv_timer_init(&loop->loop, &loop->timers[i]) == 0, "uv_timer_init");
    }
    return loop;
}

static void end(void *system) {
    struct loop *loop = system;
    for (size_t i = 0; i < loop->count; i++) {
        uv_close((uv_handle_t *)&loop->timers[i], NULL);
    }
    uv_run(&loop->loop, UV_RUN_DEFAULT);
    require(uv_loop_close(&loop->loop) == 0, "uv_loop_close");
    free(loop->timers);
    free(loop);
}

static void schedule(void *system, const uint32_t *which, size_t count) {
    struct loop *loop = system;
    uv_update_time(&loop->loop);
    for (size_t i = 0; i < count; i++) {
        uv_timer_start(&loop->timers[which[i]], never, IDLE_MS, IDLE_MS);
    }
}

static void cancel(void *system, const uint32_t *which, size_t count) {
    struct loop *loop = system;
    for (size_t i = 0; i < count; i++) {
        uv_timer_stop(&loop->timers[which[i]]);
    }
}

static void reset(void *system, const uint32_t *which, size_t count) {
    struct loop *loop = system;
    uv_update_time(&loop->loop);
    for (size_t i = 0; i < count; i++) {
        uv_timer_again(&loop->timers[which[i]]);
    }
}

static void schedule_and_cancel(void *system, const uint32_t *which, size_t count) {
    struct loop *loop = system;
    uv_update_time(&loop->loop);
    for (size_t i = 0; i < count; i++) {
        uv_timer_start(&loop->timers[which[i]], never, IDLE_MS, IDLE_MS);
        uv_timer_stop(&loop->timers[which[i]]);
    }
}

const struct bench_system libuv = {"libuv", begin, end, within_nothing, schedule, cancel, reset, NULL, schedule_and_cancel};
