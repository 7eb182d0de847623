/*
 * The loops of W1 to W3, the same for each library. A file that includes this has included the
 * library's header before, which has `struct owner`, with `timers` in it, and how many have
 * `fired`, and these, which the compiler can inline into the loops:
 *
 *   make(timers, have_one_delay)   an owner with so many timers, and its loop; unmake(owner, timers)
 *   call_within(owner, body, argument)   from where the loop's cached time is valid
 *   update(owner)                the cached time is the time now
 *   init(owner, timer)           once, before anything else
 *   start_after(owner, timer, us)
 *   start(owner, timer)          after DELAY_MS, which is defined before the header is included
 *   stop(owner, timer)
 *   again(owner, timer)          moves one that is pending to DELAY_MS from now
 *   is_pending(timer)
 *   version()
 */

static void prepare(struct run *run) {
    struct owner *owner = run->owner;
    update(owner);
    if (run->work == SCHEDULE && !run->is_reserved) {
        return;
    }
    for (size_t i = 0; i < run->timers; i++) {
        init(owner, &owner->timers[i]);
        start(owner, &owner->timers[i]);
    }
    if (run->work == SCHEDULE) {
        for (size_t i = 0; i < run->timers; i++) {
            stop(owner, &owner->timers[i]);
        }
    }
}

static void work(struct run *run) {
    struct owner *owner = run->owner;
    switch (run->work) {
    case SCHEDULE:
        for (size_t i = 0; i < run->steps; i++) {
            if (i % ROUND == 0) {
                update(owner);
            }
            if (!run->is_reserved) {
                init(owner, &owner->timers[i]);
            }
            start_after(owner, &owner->timers[i], run->delays_us[i]);
        }
        break;
    case RING:
        for (size_t i = 0, place = 0; i < run->steps; i++) {
            if (i % ROUND == 0) {
                update(owner);
            }
            stop(owner, &owner->timers[place]);
            start(owner, &owner->timers[place]);
            place = place + 1 == RING_LENGTH ? 0 : place + 1;
        }
        break;
    case RESET:
        for (size_t i = 0; i < run->steps; i++) {
            if (i % ROUND == 0) {
                update(owner);
            }
            again(owner, &owner->timers[run->order[i % ORDER_LENGTH]]);
        }
        break;
    }
}

static void within(struct run *run, void (*body)(void *)) {
    run->owner = make(run->timers, run->work != SCHEDULE);
    call_within(run->owner, body, run);
}

static size_t pending(struct run *run) {
    struct owner *owner = run->owner;
    size_t count = 0;
    for (size_t i = 0; i < run->timers; i++) {
        count += is_pending(&owner->timers[i]);
    }
    run->fired = owner->fired;
    return count;
}
