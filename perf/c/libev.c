/* libev: `ev_timer_again` moves a timer by its repeat. Its loop caches the time. */
#include "library.h"
#include <ev.h>
#include <stdio.h>

struct owner {
    struct ev_loop *loop;
    struct ev_timer *timers;
    struct run *run;
};

static void fire(struct ev_loop *loop, struct ev_timer *timer, int events) {
    (void)loop;
    (void)events;
    ((struct run *)timer->data)->fired++;
}

static struct owner *begin(struct run *run) {
    struct owner *owner = zeroed(1, sizeof *owner);
    owner->run = run;
    owner->timers = zeroed(run->timers, sizeof *owner->timers);
    owner->loop = ev_loop_new(EVFLAG_AUTO);
    require(owner->loop != NULL, "ev_loop_new");
    return owner;
}

static void call_within(struct owner *owner, void (*body)(struct run *), struct run *run) {
    owner->run = run;
    body(run);
}

static inline void update(struct owner *owner) {
    ev_now_update(owner->loop);
}

static inline void init(struct owner *owner, struct ev_timer *timer) {
    ev_init(timer, fire);
    timer->repeat = MINUTE_S;
    timer->data = owner->run;
}

/* As `ev_timer_set` does, except that the repeat stays. */
static inline void start_after(struct owner *owner, struct ev_timer *timer, uint32_t us) {
    timer->at = us / 1e6;
    ev_timer_start(owner->loop, timer);
}

static inline void start_minute(struct owner *owner, struct ev_timer *timer) {
    timer->at = MINUTE_S;
    ev_timer_start(owner->loop, timer);
}

static inline void stop(struct owner *owner, struct ev_timer *timer) {
    ev_timer_stop(owner->loop, timer);
}

static inline void again(struct owner *owner, struct ev_timer *timer) {
    ev_timer_again(owner->loop, timer);
}

static inline bool is_pending(struct ev_timer *timer) {
    return ev_is_active(timer);
}

static const char *version(void) {
    static char text[16];
    snprintf(text, sizeof text, "%d.%d", ev_version_major(), ev_version_minor());
    return text;
}

#include "loops.h"

const struct library libev = {"libev", version, within, prepare, work, pending};
