/*
 * libevent: the heap for W1, whose delays differ, and a common timeout for W2 and W3. Its time is
 * cached only within callbacks, so a producer runs in one. Without locks: each loop has one thread.
 */
#include "library.h"
#include <event2/event.h>
#include <event2/event_struct.h>

struct owner {
    struct event_base *base;
    struct event *timers;
    const struct timeval *minute;
    struct run *run;
    void (*body)(struct run *);
};

static void fire(evutil_socket_t fd, short what, void *run) {
    (void)fd;
    (void)what;
    ((struct run *)run)->fired++;
}

static struct owner *begin(struct run *run) {
    static const struct timeval minute = {.tv_sec = MINUTE_S};
    struct owner *owner = zeroed(1, sizeof *owner);
    owner->run = run;
    owner->timers = zeroed(run->timers, sizeof *owner->timers);
    owner->base = event_base_new();
    require(owner->base != NULL, "event_base_new");
    owner->minute = run->work == SCHEDULE ? &minute : event_base_init_common_timeout(owner->base, &minute);
    return owner;
}

static void call_body(evutil_socket_t fd, short what, void *argument) {
    (void)fd;
    (void)what;
    struct owner *owner = argument;
    owner->body(owner->run);
}

static void call_within(struct owner *owner, void (*body)(struct run *), struct run *run) {
    struct event event;
    owner->run = run;
    owner->body = body;
    require(evtimer_assign(&event, owner->base, call_body, owner) == 0, "evtimer_assign");
    event_active(&event, EV_TIMEOUT, 1);
    event_base_loop(owner->base, EVLOOP_NONBLOCK);
}

static inline void update(struct owner *owner) {
    event_base_update_cache_time(owner->base);
}

static inline void init(struct owner *owner, struct event *timer) {
    evtimer_assign(timer, owner->base, fire, owner->run);
}

static inline void start_after(struct owner *owner, struct event *timer, uint32_t us) {
    (void)owner;
    struct timeval delay = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};
    evtimer_add(timer, &delay);
}

static inline void start_minute(struct owner *owner, struct event *timer) {
    evtimer_add(timer, owner->minute);
}

static inline void stop(struct owner *owner, struct event *timer) {
    (void)owner;
    evtimer_del(timer);
}

static inline void again(struct owner *owner, struct event *timer) {
    evtimer_add(timer, owner->minute);
}

static inline bool is_pending(struct event *timer) {
    return evtimer_pending(timer, NULL);
}

#include "loops.h"

const struct library libevent = {"libevent", event_get_version, within, prepare, work, pending};
