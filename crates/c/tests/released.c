/*
 * A use after release, from C. Against a library with checks it is an error, and the exit code is 0.
 * Without checks there is no defined answer, so the script runs this with checks alone.
 */
#include <stdio.h>
#include <tourbillon.h>

static void never(void *data) {
    (void)data;
}

int main(void) {
    tourbillon_timer *timer;
    tourbillon_timeout *timeout;
    if (tourbillon_timer_new(NULL, &timer) != TOURBILLON_STATUS_OK ||
        tourbillon_schedule(timer, TOURBILLON_NEVER, never, NULL, NULL, &timeout) != TOURBILLON_STATUS_OK ||
        tourbillon_release(timeout) != TOURBILLON_STATUS_OK) {
        return 2;
    }
    tourbillon_status status = tourbillon_cancel(timeout);
    tourbillon_timer_free(timer);
    return status == TOURBILLON_STATUS_RELEASED ? 0 : 1;
}
