/*
 * The rounds of a library's loop, the same for each. A file that includes this has defined the
 * library, and included bench.h.
 */

struct timers {
    struct owner owner;
    size_t count;
};

static void *begin_with(size_t count, bool have_one_delay) {
    struct timers *timers = zeroed(1, sizeof *timers);
    struct owner *owner = &timers->owner;
    owner->timers = zeroed(count, sizeof *owner->timers);
    make(owner, have_one_delay);
    timers->count = count;
    for (size_t i = 0; i < count; i++) {
        init(owner, &owner->timers[i]);
    }
    return timers;
}

static void *begin(size_t count) {
    return begin_with(count, true);
}

static void end(void *system) {
    struct timers *timers = system;
    unmake(&timers->owner, timers->count);
    free(timers->owner.timers);
    free(timers);
}

static void within(void *system, void (*body)(void *), void *argument) {
    call_within(&((struct timers *)system)->owner, body, argument);
}

static void schedule(void *system, const uint32_t *which, size_t count) {
    struct owner *owner = &((struct timers *)system)->owner;
    update(owner);
    for (size_t i = 0; i < count; i++) {
        start(owner, &owner->timers[which[i]]);
    }
}

static void cancel(void *system, const uint32_t *which, size_t count) {
    struct owner *owner = &((struct timers *)system)->owner;
    for (size_t i = 0; i < count; i++) {
        stop(owner, &owner->timers[which[i]]);
    }
}

static void reset(void *system, const uint32_t *which, size_t count) {
    struct owner *owner = &((struct timers *)system)->owner;
    update(owner);
    for (size_t i = 0; i < count; i++) {
        again(owner, &owner->timers[which[i]]);
    }
}

static void schedule_and_cancel(void *system, const uint32_t *which, size_t count) {
    struct owner *owner = &((struct timers *)system)->owner;
    update(owner);
    for (size_t i = 0; i < count; i++) {
        start(owner, &owner->timers[which[i]]);
        stop(owner, &owner->timers[which[i]]);
    }
}
