// A C++ exception that leaves a callback ends the process, by SIGABRT. It does not unwind through
// the engine.
#include <cstdio>
#include <stdexcept>
#include <tourbillon.h>

static void throws(void *) { throw std::runtime_error("out of a callback"); }

int main() {
    tourbillon_timer *timer = nullptr;
    tourbillon_driver *driver = nullptr;
    if (tourbillon_timer_new_driven(nullptr, &timer, &driver) != TOURBILLON_STATUS_OK) {
        return 2;
    }
    if (tourbillon_schedule(timer, 0, throws, nullptr, nullptr, nullptr) != TOURBILLON_STATUS_OK) {
        return 2;
    }
    try {
        tourbillon_turn(driver, nullptr);
    } catch (const std::exception &exception) {
        std::printf("came through: %s\n", exception.what());
        return 3;
    }
    return 4;
}
