#include "library.h"
#include "libuv.h"
#include "loops.h"

const struct library libuv = {"libuv", version, within, prepare, work, pending};
