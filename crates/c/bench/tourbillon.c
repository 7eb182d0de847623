/*
 * Tourbillon, driven and with threads.
 *
 * The driven one reads the time once a round, and turns at the end of each: that links what was
 * scheduled into the wheel, and collects what was cancelled. The one with threads reads the time in
 * each call, as it has no rounds, and its worker links on another core.
 */
#include "bench.h"
#include <tourbillon.h>

#define DELAY_NS (DELAY_MS * (uint64_t)1000000)

struct engine {
    tourbillon_timer *timer;
    tourbillon_driver *driver;
    tourbillon_timeout **timeouts;
};

static void never(void *data) {
    (void)data;
}

static struct engine *begin(size_t timers, int is_driven) {
    struct engine *engine = zeroed(1, sizeof *engine);
    engine->timeouts = zeroed(timers, sizeof *engine->timeouts);
    tourbillon_options options = {.size = sizeof options, .capacity = timers};
    tourbillon_status status = is_driven ? tourbillon_timer_new_driven(&options, &engine->timer, &engine->driver)
                                         : tourbillon_timer_new(&options, &engine->timer);
    require(status == TOURBILLON_STATUS_OK, "a new engine");
    return engine;
}

/* The time is not cached anywhere. */
static void within_nothing(void *system, void (*body)(void *), void *argument) {
    (void)system;
    body(argument);
}

static void *begin_driven(size_t timers) {
    return begin(timers, 1);
}

static void *begin_threads(size_t timers) {
    return begin(timers, 0);
}

static void end(void *system) {
    struct engine *engine = system;
    tourbillon_shutdown(engine->timer, NULL, NULL);
    tourbillon_driver_free(engine->driver);
    tourbillon_timer_free(engine->timer);
    free(engine->timeouts);
    free(engine);
}

static void driven_schedule(void *system, const uint32_t *which, size_t count) {
    struct engine *engine = system;
    uint64_t deadline_ns = tourbillon_now_ns(engine->timer) + DELAY_NS;
    for (size_t i = 0; i < count; i++) {
        tourbillon_schedule_at(engine->timer, deadline_ns, never, engine, NULL, &engine->timeouts[which[i]]);
    }
    tourbillon_turn(engine->driver, NULL);
}

static void driven_cancel(void *system, const uint32_t *which, size_t count) {
    struct engine *engine = system;
    for (size_t i = 0; i < count; i++) {
        tourbillon_cancel_and_release(engine->timeouts[which[i]]);
    }
    tourbillon_turn(engine->driver, NULL);
}

static void driven_reset(void *system, const uint32_t *which, size_t count) {
    struct engine *engine = system;
    uint64_t deadline_ns = tourbillon_now_ns(engine->timer) + DELAY_NS;
    for (size_t i = 0; i < count; i++) {
        tourbillon_reset_at(engine->timer, engine->timeouts[which[i]], deadline_ns);
    }
    tourbillon_turn(engine->driver, NULL);
}

/* As a loop has the connections of a round at hand, and not their numbers, it copies handles. */
static void threads_reset_many(void *system, const uint32_t *which, size_t count) {
    struct engine *engine = system;
    tourbillon_timeout *timeouts[BLOCK];
    for (size_t i = 0; i < count; i++) {
        timeouts[i] = engine->timeouts[which[i]];
    }
    tourbillon_reset_many(engine->timer, timeouts, count, DELAY_NS, NULL);
}

static void driven_reset_many(void *system, const uint32_t *which, size_t count) {
    struct engine *engine = system;
    threads_reset_many(system, which, count);
    tourbillon_turn(engine->driver, NULL);
}

static void driven_schedule_and_cancel(void *system, const uint32_t *which, size_t count) {
    struct engine *engine = system;
    uint64_t deadline_ns = tourbillon_now_ns(engine->timer) + DELAY_NS;
    for (size_t i = 0; i < count; i++) {
        tourbillon_timeout **timeout = &engine->timeouts[which[i]];
        tourbillon_schedule_at(engine->timer, deadline_ns, never, engine, NULL, timeout);
        tourbillon_cancel_and_release(*timeout);
    }
    tourbillon_turn(engine->driver, NULL);
}

static void threads_schedule(void *system, const uint32_t *which, size_t count) {
    struct engine *engine = system;
    for (size_t i = 0; i < count; i++) {
        tourbillon_schedule(engine->timer, DELAY_NS, never, engine, NULL, &engine->timeouts[which[i]]);
    }
}

static void threads_cancel(void *system, const uint32_t *which, size_t count) {
    struct engine *engine = system;
    for (size_t i = 0; i < count; i++) {
        tourbillon_cancel_and_release(engine->timeouts[which[i]]);
    }
}

static void threads_reset(void *system, const uint32_t *which, size_t count) {
    struct engine *engine = system;
    for (size_t i = 0; i < count; i++) {
        tourbillon_reset(engine->timeouts[which[i]], DELAY_NS);
    }
}

static void threads_schedule_and_cancel(void *system, const uint32_t *which, size_t count) {
    struct engine *engine = system;
    for (size_t i = 0; i < count; i++) {
        tourbillon_timeout **timeout = &engine->timeouts[which[i]];
        tourbillon_schedule(engine->timer, DELAY_NS, never, engine, NULL, timeout);
        tourbillon_cancel_and_release(*timeout);
    }
}

const struct bench_system tourbillon_driven = {
    "tourbillon, driven", begin_driven, end, within_nothing, driven_schedule, driven_cancel, driven_reset,
    driven_reset_many, driven_schedule_and_cancel};
const struct bench_system tourbillon_threads = {
    "tourbillon, threads", begin_threads, end, within_nothing, threads_schedule, threads_cancel, threads_reset,
    threads_reset_many, threads_schedule_and_cancel};
