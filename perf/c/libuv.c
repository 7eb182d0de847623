/* libuv: `uv_timer_again` moves a timer by its repeat. Its loop caches the time, in milliseconds. */
#define _GNU_SOURCE
#include "library.h"
#include <uv.h>

struct owner {
    uv_loop_t loop;
    uv_timer_t *timers;
    struct run *run;
};

static void fire(uv_timer_t *timer) {
    ((struct run *)timer->data)->fired++;
}

static struct owner *begin(struct run *run) {
    struct owner *owner = zeroed(1, sizeof *owner);
    owner->run = run;
    owner->timers = zeroed(run->timers, sizeof *owner->timers);
    require(uv_loop_init(&owner->loop) == 0, "uv_loop_init");
    return owner;
}

static void call_within(struct owner *owner, void (*body)(struct run *), struct run *run) {
    owner->run = run;
    body(run);
}

static inline void update(struct owner *owner) {
    uv_update_time(&owner->loop);
}

static inline void init(struct owner *owner, uv_timer_t *timer) {
    uv_timer_init(&owner->loop, timer);
    timer->data = owner->run;
}

static inline void start_after(struct owner *owner, uv_timer_t *timer, uint32_t us) {
    (void)owner;
    uv_timer_start(timer, fire, us / 1000, MINUTE_S * 1000);
}

static inline void start_minute(struct owner *owner, uv_timer_t *timer) {
    (void)owner;
    uv_timer_start(timer, fire, MINUTE_S * 1000, MINUTE_S * 1000);
}

static inline void stop(struct owner *owner, uv_timer_t *timer) {
    (void)owner;
    uv_timer_stop(timer);
}

static inline void again(struct owner *owner, uv_timer_t *timer) {
    (void)owner;
    uv_timer_again(timer);
}

static inline bool is_pending(uv_timer_t *timer) {
    return uv_is_active((uv_handle_t *)timer);
}

#include "loops.h"

const struct library libuv = {"libuv", uv_version_string, within, prepare, work, pending};
