#define LIBEV
#include "bench.h"
#include "blocks.h"

const struct bench_system libev = {"libev", begin, end, within, schedule, cancel, reset, NULL, schedule_and_cancel};
