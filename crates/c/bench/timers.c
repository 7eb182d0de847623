/*
 * Measures what it costs to schedule, reset and cancel a timeout, in nanoseconds.
 *
 *   timers [--rounds N] [--ms N]    N rounds (default 7), N ms for each figure (default 100)
 *
 * With 1 timeout pending, and with 100,000. The systems take turns, so that each meets the same
 * machine, and each begins anew in each round. A figure is the median of the rounds. The work that
 * a library does once a round of its loop is shared by 64 operations. The times are those of the
 * thread that calls; the worker of "tourbillon, threads" does its part on another core.
 */
#include "bench.h"
#include <math.h>
#include <string.h>

enum { SYSTEMS = 6, OPERATIONS = 5, SIZES = 2, MAX_ROUNDS = 101 };

/* So that one interruption by another process does not make a whole figure. */
enum { LEAST_BLOCKS = 1000 };

static const struct bench_system *const systems[SYSTEMS] = {&tourbillon_driven, &tourbillon_threads, &libevent_common,
                                                            &libevent_heap,     &libev,              &libuv};
static const char *const operations[OPERATIONS] = {"schedule", "cancel", "schedule and cancel", "reset", "reset many"};
static const size_t sizes[SIZES] = {1, 100000};

/* One turn of one system with so many pending. */
struct turn {
    const struct bench_system *system;
    void *timers;
    size_t pending;
    uint64_t ns_per_figure;
    double ns[OPERATIONS];
};

static double measure_reset(struct turn *turn, void (*reset)(void *, const uint32_t *, size_t)) {
    uint32_t which[BLOCK];
    uint64_t state = 0x9e3779b97f4a7c15, reset_ns = 0, blocks = 0;
    for (; reset_ns < turn->ns_per_figure || blocks < LEAST_BLOCKS; blocks++) {
        for (size_t i = 0; i < BLOCK; i++) {
            which[i] = random_below(&state, turn->pending);
        }
        uint64_t begin = ns_of(CLOCK_MONOTONIC);
        reset(turn->timers, which, BLOCK);
        reset_ns += ns_of(CLOCK_MONOTONIC) - begin;
    }
    return (double)reset_ns / (double)(blocks * BLOCK);
}

static void measure(void *argument) {
    struct turn *turn = argument;
    const struct bench_system *system = turn->system;
    uint32_t which[BLOCK], others[BLOCK];
    for (size_t at = 0; at < turn->pending; at += BLOCK) {
        size_t count = turn->pending - at < BLOCK ? turn->pending - at : BLOCK;
        for (size_t i = 0; i < count; i++) {
            which[i] = (uint32_t)(at + i);
        }
        system->schedule(turn->timers, which, count);
    }
    for (size_t i = 0; i < BLOCK; i++) {
        others[i] = (uint32_t)(turn->pending + i);
    }
    /* Blocks of timeouts that come and go on top of what is pending. The first are for warmth. */
    uint64_t schedule_ns = 0, cancel_ns = 0, both_ns = 0, blocks = 0;
    for (int is_warm = 0; is_warm < 2; is_warm++) {
        uint64_t limit_ns = is_warm ? 2 * turn->ns_per_figure : turn->ns_per_figure / 4;
        for (schedule_ns = cancel_ns = blocks = 0; schedule_ns + cancel_ns < limit_ns || blocks < LEAST_BLOCKS; blocks++) {
            uint64_t begin = ns_of(CLOCK_MONOTONIC);
            system->schedule(turn->timers, others, BLOCK);
            uint64_t middle = ns_of(CLOCK_MONOTONIC);
            system->cancel(turn->timers, others, BLOCK);
            cancel_ns += ns_of(CLOCK_MONOTONIC) - middle;
            schedule_ns += middle - begin;
        }
    }
    turn->ns[0] = (double)schedule_ns / (double)(blocks * BLOCK);
    turn->ns[1] = (double)cancel_ns / (double)(blocks * BLOCK);
    for (blocks = 0; both_ns < turn->ns_per_figure || blocks < LEAST_BLOCKS; blocks++) {
        uint64_t begin = ns_of(CLOCK_MONOTONIC);
        system->schedule_and_cancel(turn->timers, others, BLOCK);
        both_ns += ns_of(CLOCK_MONOTONIC) - begin;
    }
    turn->ns[2] = (double)both_ns / (double)(blocks * BLOCK);
    turn->ns[3] = measure_reset(turn, system->reset);
    turn->ns[4] = system->reset_many == NULL ? NAN : measure_reset(turn, system->reset_many);
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(const double *values, size_t count) {
    double sorted[MAX_ROUNDS];
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, compare);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static size_t option(int argc, char **argv, const char *name, size_t otherwise) {
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return strtoul(argv[i + 1], NULL, 10);
        }
    }
    return otherwise;
}

int main(int argc, char **argv) {
    size_t rounds = option(argc, argv, "--rounds", 7), ms = option(argc, argv, "--ms", 100);
    require(rounds >= 1 && rounds <= MAX_ROUNDS && ms >= 1, "an option");
    static double ns[SIZES][SYSTEMS][OPERATIONS][MAX_ROUNDS];
    for (size_t round = 0; round < rounds; round++) {
        for (size_t size = 0; size < SIZES; size++) {
            for (size_t i = 0; i < SYSTEMS; i++) {
                struct turn turn = {.system = systems[i], .pending = sizes[size], .ns_per_figure = ms * 1000000};
                turn.timers = turn.system->begin(turn.pending + BLOCK);
                turn.system->within(turn.timers, measure, &turn);
                turn.system->end(turn.timers);
                for (size_t operation = 0; operation < OPERATIONS; operation++) {
                    ns[size][i][operation][round] = turn.ns[operation];
                }
            }
        }
    }
    for (size_t size = 0; size < SIZES; size++) {
        printf("%s%zu pending, ns%*s", size ? "\n" : "", sizes[size], size ? 5 : 10, "");
        for (size_t operation = 0; operation < OPERATIONS; operation++) {
            printf("  %19s", operations[operation]);
        }
        for (size_t i = 0; i < SYSTEMS; i++) {
            printf("\n%-24s", systems[i]->name);
            for (size_t operation = 0; operation < OPERATIONS; operation++) {
                double figure = median(ns[size][i][operation], rounds);
                if (isnan(figure)) {
                    printf("  %19s", "-");
                } else {
                    printf("  %19.1f", figure);
                }
            }
        }
        printf("\n");
    }
    for (size_t size = 0; size < SIZES; size++) {
        for (size_t i = 0; i < SYSTEMS; i++) {
            for (size_t operation = 0; operation < OPERATIONS; operation++) {
                const double *values = ns[size][i][operation];
                if (isnan(values[0])) {
                    continue;
                }
                printf("{\"system\": \"%s\", \"pending\": %zu, \"operation\": \"%s\", \"median_ns\": %.2f, \"ns\": [",
                       systems[i]->name, sizes[size], operations[operation], median(values, rounds));
                for (size_t round = 0; round < rounds; round++) {
                    printf("%s%.2f", round ? ", " : "", values[round]);
                }
                printf("]}\n");
            }
        }
    }
    return 0;
}
