/* What the programs that measure timers of C have in common. To be included before all others. */
#ifndef COMMON_H
#define COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Ends the program if something failed. */
static inline void require(bool is_so, const char *what) {
    if (!is_so) {
        fprintf(stderr, "error: %s failed\n", what);
        exit(1);
    }
}

/* Memory for `count` values of `size` bytes, all zero. */
static inline void *zeroed(size_t count, size_t size) {
    void *memory = calloc(count, size);
    require(memory != NULL, "to get memory");
    return memory;
}

static inline uint64_t ns_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Random numbers, the same in every run. */
static inline uint32_t random_below(uint64_t *state, size_t below) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)((*state >> 32) * below >> 32);
}

#endif
