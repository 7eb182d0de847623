#include "library.h"
#include "libevent.h"
#include "loops.h"

const struct library libevent = {"libevent", version, within, prepare, work, pending};
