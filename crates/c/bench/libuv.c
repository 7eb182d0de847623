#define LIBUV
#include "bench.h"
#include "blocks.h"

const struct bench_system libuv = {"libuv", begin, end, within, schedule, cancel, reset, NULL, schedule_and_cancel};
