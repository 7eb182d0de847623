/*
 * libevent: a common timeout if all delays are the same, and its heap if not. Its time is cached
 * only within callbacks, so the body runs in one. Without locks: each loop has one thread.
 */
#include <event2/event.h>
#include <event2/event_struct.h>

struct owner {
    struct event_base *base;
    struct event *timers;
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

static inline struct owner *make(size_t timers, bool have_one_delay) {
    static const struct timeval delay = {.tv_sec = DELAY_MS / 1000, .tv_usec = DELAY_MS % 1000 * 1000};
    struct owner *owner = zeroed(1, sizeof *owner);
    owner->timers = zeroed(timers, sizeof *owner->timers);
    owner->base = event_base_new();
    require(owner->base != NULL, "event_base_new");
    owner->delay = have_one_delay ? event_base_init_common_timeout(owner->base, &delay) : &delay;
    return owner;
}

static inline void unmake(struct owner *owner, size_t timers) {
    (void)timers;
    event_base_free(owner->base);
    free(owner->timers);
    free(owner);
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

static inline void update(struct owner *owner) {
    event_base_update_cache_time(owner->base);
}

static inline void init(struct owner *owner, struct event *timer) {
    evtimer_assign(timer, owner->base, fire, owner);
}

static inline void start_after(struct owner *owner, struct event *timer, uint32_t us) {
    (void)owner;
    struct timeval delay = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};
    evtimer_add(timer, &delay);
}

static inline void start(struct owner *owner, struct event *timer) {
    evtimer_add(timer, owner->delay);
}

static inline void stop(struct owner *owner, struct event *timer) {
    (void)owner;
    evtimer_del(timer);
}

/* To add one that is pending moves it. */
static inline void again(struct owner *owner, struct event *timer) {
    evtimer_add(timer, owner->delay);
}

static inline bool is_pending(struct event *timer) {
    return evtimer_pending(timer, NULL);
}

static inline const char *version(void) {
    return event_get_version();
}
