/* What the C program of the comparison knows of a library: see timers_case.c. */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "common.h"

enum work { SCHEDULE, RING, RESET };

/* A loop reads the time for every 16th operation, as one with much to do does. */
enum { ROUND = 16, RING_LENGTH = 1000, ORDER_LENGTH = 1 << 18 };

/* Of all timeouts of W2 and W3. */
#define DELAY_MS 60000

/* What one producer does. It has a loop of its own, as these libraries want. */
struct run {
    enum work work;
    bool is_reserved; /* W1: the timers and the library's memory have been touched before */
    size_t timers, steps;
    uint32_t *delays_us; /* W1 */
    uint32_t *order;     /* W3 */
    void *owner;         /* the library's */
    size_t fired;        /* none is due */
};

struct library {
    const char *name;
    const char *(*version)(void);
    /* Makes the loop, and calls the body from where its cached time is valid. */
    void (*within)(struct run *run, void (*body)(void *));
    void (*prepare)(struct run *run);
    void (*work)(struct run *run);
    /* How many timers are pending. */
    size_t (*pending)(struct run *run);
};

extern const struct library libevent, libev, libuv;

#endif
