/* libev: `ev_timer_again` moves a timer by its repeat. Its loop caches the time. */
#include <ev.h>

struct owner {
    struct ev_loop *loop;
    ev_timer *timers;
    size_t fired;
};

static inline void fire(struct ev_loop *loop, ev_timer *timer, int events) {
    (void)loop;
    (void)events;
    ((struct owner *)timer->data)->fired++;
}

static inline struct owner *make(size_t timers, bool have_one_delay) {
    (void)have_one_delay;
    struct owner *owner = zeroed(1, sizeof *owner);
    owner->timers = zeroed(timers, sizeof *owner->timers);
    owner->loop = ev_loop_new(EVFLAG_AUTO);
    require(owner->loop != NULL, "ev_loop_new");
    return owner;
}

static inline void unmake(struct owner *owner, size_t timers) {
    (void)timers;
    ev_loop_destroy(owner->loop);
    free(owner->timers);
    free(owner);
}

static inline void call_within(struct owner *owner, void (*body)(void *), void *argument) {
    (void)owner;
    body(argument);
}

static inline void update(struct owner *owner) {
    ev_now_update(owner->loop);
}

static inline void init(struct owner *owner, ev_timer *timer) {
    ev_init(timer, fire);
    timer->repeat = DELAY_MS / 1e3;
    timer->data = owner;
}

/* As `ev_timer_set` does, except that the repeat stays. */
static inline void start_after(struct owner *owner, ev_timer *timer, uint32_t us) {
    timer->at = us / 1e6;
    ev_timer_start(owner->loop, timer);
}

static inline void start(struct owner *owner, ev_timer *timer) {
    timer->at = DELAY_MS / 1e3;
    ev_timer_start(owner->loop, timer);
}

static inline void stop(struct owner *owner, ev_timer *timer) {
    ev_timer_stop(owner->loop, timer);
}

static inline void again(struct owner *owner, ev_timer *timer) {
    ev_timer_again(owner->loop, timer);
}

static inline bool is_pending(ev_timer *timer) {
    return ev_is_active(timer);
}

static inline const char *version(void) {
    static char text[16];
    snprintf(text, sizeof text, "%d.%d", ev_version_major(), ev_version_minor());
    return text;
}
