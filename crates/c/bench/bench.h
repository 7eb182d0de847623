/* The interface that the systems of this benchmark have in common. */
#ifndef BENCH_H
#define BENCH_H

/* All timeouts have one delay, as the idle timeouts of a server do. None fires. */
#define DELAY_MS 30000

#include "libraries.h"

/* The operations of one round, after which a loop turns. */
enum { BLOCK = 64 };

/*
 * A library's timers. There are `timers` of them, none of which is pending at the beginning. Each
 * function below takes BLOCK timers by their numbers, and begins or ends as a round of the library's
 * loop would: what the library does once a round is part of the time.
 */
struct bench_system {
    const char *name;
    void *(*begin)(size_t timers);
    void (*end)(void *system);
    /* Calls the body from where the library's cached time is valid. */
    void (*within)(void *system, void (*body)(void *), void *argument);
    void (*schedule)(void *system, const uint32_t *which, size_t count);
    void (*cancel)(void *system, const uint32_t *which, size_t count);
    void (*reset)(void *system, const uint32_t *which, size_t count);
    /* All at once. Null if the library has no such call. */
    void (*reset_many)(void *system, const uint32_t *which, size_t count);
    /* Each timer is cancelled before the next is scheduled. */
    void (*schedule_and_cancel)(void *system, const uint32_t *which, size_t count);
};

extern const struct bench_system tourbillon_driven, tourbillon_threads, libevent_common, libevent_heap, libev, libuv;

#endif
