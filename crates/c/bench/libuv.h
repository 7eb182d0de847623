/*
 * libuv: `uv_timer_again` moves a timer by its repeat. Its loop caches the time, in milliseconds.
 */
#include <uv.h>

struct owner {
    uv_loop_t loop;
    uv_timer_t *timers;
    size_t fired;
};

static inline void fire(uv_timer_t *timer) {
    ((struct owner *)timer->data)->fired++;
}

static inline struct owner *make(size_t timers, bool have_one_delay) {
    (void)have_one_delay;
    struct owner *owner = zeroed(1, sizeof *owner);
    owner->timers = zeroed(timers, sizeof *owner->timers);
    require(uv_loop_init(&owner->loop) == 0, "uv_loop_init");
    return owner;
}

static inline void unmake(struct owner *owner, size_t timers) {
    for (size_t i = 0; i < timers; i++) {
        uv_close((uv_handle_t *)&owner->timers[i], NULL);
    }
    uv_run(&owner->loop, UV_RUN_DEFAULT);
    require(uv_loop_close(&owner->loop) == 0, "uv_loop_close");
    free(owner->timers);
    free(owner);
}

static inline void call_within(struct owner *owner, void (*body)(void *), void *argument) {
    (void)owner;
    body(argument);
}

static inline void update(struct owner *owner) {
    uv_update_time(&owner->loop);
}

static inline void init(struct owner *owner, uv_timer_t *timer) {
    uv_timer_init(&owner->loop, timer);
    timer->data = owner;
}

static inline void start_after(struct owner *owner, uv_timer_t *timer, uint32_t us) {
    (void)owner;
    uv_timer_start(timer, fire, us / 1000, DELAY_MS);
}

static inline void start(struct owner *owner, uv_timer_t *timer) {
    (void)owner;
    uv_timer_start(timer, fire, DELAY_MS, DELAY_MS);
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

static inline const char *version(void) {
    return uv_version_string();
}
