/* libevent, with one common timeout and with its heap. */
#define LIBEVENT
#include "bench.h"
#include "blocks.h"

static void *begin_heap(size_t timers) {
    return begin_with(timers, false);
}

const struct bench_system libevent_common = {
    "libevent, common timeout", begin, end, within, schedule, cancel, reset, NULL, schedule_and_cancel};
const struct bench_system libevent_heap = {"libevent, heap", begin_heap, end,   within,
                                           schedule,         cancel,     reset, NULL, schedule_and_cancel};
