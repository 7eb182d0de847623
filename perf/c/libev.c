#include "library.h"
#include "libev.h"
#include "loops.h"

const struct library libev = {"libev", version, within, prepare, work, pending};
