/*
 * Tourbillon: a lock-free, multi-producer, sharded timer engine for servers.
 *
 * This file is generated from the Rust code; a test compares the two. README.md says how to use it.
 */

#ifndef TOURBILLON_H
#define TOURBILLON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Callbacks run on the worker, and not on a pool of threads. They must not block.
#define TOURBILLON_INLINE 1

// No worker is pinned to a core.
#define TOURBILLON_UNPINNED 4

// Workers never sleep. Each takes a whole core, and gives the least lateness.
#define TOURBILLON_SPIN 8

// No call waits for a worker that has fallen behind. The engine takes more memory instead.
#define TOURBILLON_NO_WAIT 16

// A delay, a deadline or a wait that never ends.
#define TOURBILLON_NEVER 18446744073709551615ull

// The answer of a call. `tourbillon_error_message` has a text for each.
typedef enum tourbillon_status {
  // The call did what it says.
  TOURBILLON_STATUS_OK = 0,
  // The timeout is no longer pending, so nothing was changed: it has fired, is about to, or was
  // cancelled.
  TOURBILLON_STATUS_NOT_PENDING = 1,
  // An argument is null that must not be, or a structure has no size.
  TOURBILLON_STATUS_INVALID_ARGUMENT = 2,
  // An option makes no sense, or this system can't provide it. The `message` of the options says
  // which one.
  TOURBILLON_STATUS_INVALID_OPTION = 3,
  // More timeouts would be pending than `max_pending` allows.
  TOURBILLON_STATUS_FULL = 4,
  // The engine was shut down, or its driver is gone.
  TOURBILLON_STATUS_SHUTDOWN = 5,
  // This process was forked off after the engine was made.
  TOURBILLON_STATUS_FORKED = 6,
  // There is no memory.
  TOURBILLON_STATUS_OUT_OF_MEMORY = 7,
  // The period of a periodic timeout is zero.
  TOURBILLON_STATUS_ZERO_PERIOD = 8,
  // A callback of the engine asked for its engine's shutdown, which would wait for that
  // callback.
  TOURBILLON_STATUS_FROM_CALLBACK = 9,
  // The driver is in use: by a callback of the same turn, or by another thread.
  TOURBILLON_STATUS_BUSY = 10,
  // The handle was released before. Only a build with checks finds that out.
  TOURBILLON_STATUS_RELEASED = 11,
  // Rust code panicked inside the call: a destructor of your data, or the engine by a bug.
  TOURBILLON_STATUS_PANICKED = 12,
} tourbillon_status;

// Turns an engine that has no threads. One thread at a time may use it.
typedef struct tourbillon_driver tourbillon_driver;

// The handle of one timeout.
//
// It may be used by several threads at a time, and after its engine is gone. Give each handle back
// once, by `tourbillon_release` or `tourbillon_cancel_and_release`, also if its timeout has fired.
// It must not be used after that. A build with debug assertions, or with the cargo feature
// `checked`, answers such a use with `TOURBILLON_STATUS_RELEASED`, and names the call on the
// standard error output. In another build such a use is undefined.
typedef struct tourbillon_timeout tourbillon_timeout;

// An engine. Any thread may use it.
typedef struct tourbillon_timer tourbillon_timer;

// The options of an engine. Set `size`, and leave the rest zero for the defaults:
// `tourbillon_options options = { .size = sizeof options };`
typedef struct tourbillon_options {
  // `sizeof(tourbillon_options)`. A newer library takes the options of an older header.
  size_t size;
  // The length of a tick, in nanoseconds, at least 1,000. Timeouts of one tick run together.
  // Default: 1 ms.
  uint64_t tick_ns;
  // How many shards there are, each with a wheel, and a worker thread unless the engine is
  // driven. Default: one for every four cores; driven: one.
  size_t shards;
  // How many threads run the callbacks. A driven engine runs them itself. Default: one for each
  // core, and at least two.
  size_t pool_threads;
  // How many ticks one wheel spans, rounded up to a power of two. Default: 512.
  size_t ticks_per_wheel;
  // For how many timeouts to reserve memory, at 64 bytes each. Default: none; the engine takes
  // memory when it needs it.
  size_t capacity;
  // How many timeouts may be pending. Default: no bound. A bound costs a shared counter.
  size_t max_pending;
  // How many timeouts a turn takes in at most, and how many it runs at most. Default: 100,000.
  size_t turn_limit;
  // How long a call may wait for a worker that has fallen behind. Default: 20 ms. The flag
  // `TOURBILLON_NO_WAIT` makes it none.
  uint64_t max_wait_ns;
  // The threads' name. Linux shows 15 bytes. Default (null): "tourbillon".
  const char *thread_name;
  // Where a call that refuses an option writes what is wrong with it, ended by a zero byte. May
  // be null.
  char *message;
  // How many bytes `message` has room for.
  size_t message_size;
  // `TOURBILLON_INLINE` and the others, combined by `|`.
  uint32_t flags;
  // For later; leave it zero.
  uint32_t reserved;
} tourbillon_options;

// A function of yours that the engine calls with your pointer.
//
// It must return normally. A C++ exception that leaves it ends the process, and so does a
// `longjmp` out of it, or worse. A panic of a callback written in Rust (`extern "C-unwind"`) is
// caught and counted, if the callback shares the library's copy of Rust's standard library.
typedef void (*tourbillon_callback)(void *data);

// The counters of an engine since its start. Set `size`, and let `tourbillon_stats_get` fill the
// rest.
//
// On an engine at rest `scheduled + repeated == fired + cancelled + returned + pending`.
typedef struct tourbillon_stats {
  // `sizeof(tourbillon_stats)`. A newer library fills as many fields as an older header has, and
  // an older one writes here how many bytes it knows.
  size_t size;
  // Timeouts that were accepted. A periodic timeout counts as one.
  uint64_t scheduled;
  // Callbacks that have begun.
  uint64_t fired;
  // Callbacks that have returned or panicked.
  uint64_t completed;
  // Runs of periodic timeouts that were not their last.
  uint64_t repeated;
  // Timeouts that were cancelled in time.
  uint64_t cancelled;
  // Timeouts that a shutdown handed back, or that were dropped unrun with their engine.
  uint64_t returned;
  // Timeouts that were refused.
  uint64_t rejected;
  // Panics of callbacks.
  uint64_t panicked;
  // Resets that found their timeout pending.
  uint64_t reset;
  // Calls that have waited for a worker that had fallen behind.
  uint64_t waits;
  // How often a worker woke up.
  uint64_t wakeups;
  // Turns of all shards.
  uint64_t turns;
  // Timeouts that are pending now.
  uint64_t pending;
  // How many timeouts the reserved memory holds, at 64 bytes each.
  uint64_t capacity;
  // By how much half of all callbacks began after their deadline at most, in nanoseconds.
  uint64_t lateness_p50_ns;
  // The same for 99 of 100.
  uint64_t lateness_p99_ns;
  // The same for 999 of 1,000.
  uint64_t lateness_p999_ns;
  // The same for all.
  uint64_t lateness_max_ns;
} tourbillon_stats;

// Takes a timeout that a shutdown hands back unfired: your `context`, and the timeout's `callback`
// and `data`, which is yours again. `deadline_ns` is when it would have fired, as
// `tourbillon_now_ns` counts. For one that never fires it is far away, and need not be
// `TOURBILLON_NEVER`. It must not use the engine.
typedef void (*tourbillon_on_unfired)(void *context,
                                      tourbillon_callback callback,
                                      void *data,
                                      uint64_t deadline_ns);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns a text for a status. It lives for ever, and says what to do. For a number that is no
// status the text says so. Any thread may call this at any time.
const char *tourbillon_error_message(int status);

// Returns the version of the library, such as "0.1.0". The text lives for ever.
const char *tourbillon_version(void);

// Makes an engine with threads, and writes it to `timer`.
//
// The threads start with the first timeout. Callbacks run on them. `options` may be null for the
// defaults. The call allocates, and does not block.
//
// Returns `TOURBILLON_STATUS_INVALID_OPTION` if an option makes no sense, and
// `TOURBILLON_STATUS_OUT_OF_MEMORY` if there is no memory for the wheels or the capacity.
//
// # Safety
// `options` is null, or its `size` is set and its pointers are null or valid. `timer` may be
// written to.
enum tourbillon_status tourbillon_timer_new(const struct tourbillon_options *options,
                                            struct tourbillon_timer **timer);

// Frees an engine. Does nothing if `timer` is null.
//
// Pending timeouts are dropped unrun, which calls their destructors, on this thread or on a
// worker's. The call does not wait for callbacks that run: call `tourbillon_shutdown` before to
// wait for them. Handles of its timeouts stay valid until they are released. A callback may call
// this for its own engine. Destructors that this calls must not use `timer`.
//
// # Safety
// `timer` is null or comes from this library. Nothing uses it from then on.
void tourbillon_timer_free(struct tourbillon_timer *timer);

// Returns the time now in nanoseconds, for `tourbillon_schedule_at` and `tourbillon_reset_at`.
// Times count from when the engine was made, so they mean nothing to another engine.
//
// An event loop that reads the time once a round gives all timeouts of that round one deadline,
// which is also cheaper. Returns 0 if `timer` is null. Any thread may call this.
//
// # Safety
// `timer` is null or comes from this library, and is not freed.
uint64_t tourbillon_now_ns(const struct tourbillon_timer *timer);

// Calls `callback` once with `data`, in `delay_ns` nanoseconds, and never before that.
//
// A delay of zero calls it at once, and `TOURBILLON_NEVER` never. In an engine with threads it
// runs on one of them, perhaps before this call returns. In a driven engine it runs in
// `tourbillon_turn`.
//
// When the callback runs, `data` is its own. If the timeout ends otherwise, by a cancel or with
// its engine, the engine calls `destructor` with `data`; `destructor` may be null. If this call
// fails, `data` stays the caller's, and neither is called.
//
// The handle is written to `timeout`. If that is null the timeout has no handle, which costs less:
// nobody can reset or cancel it. In an engine with threads the callback may run before the handle
// is written, so a callback that uses its own handle has to wait for that.
//
// The call takes no lock. It may allocate, and may wait for a worker that has fallen far behind,
// for `max_wait_ns` at most. Any thread may call it, and callbacks may.
//
// Returns `TOURBILLON_STATUS_FULL`, `TOURBILLON_STATUS_SHUTDOWN`, `TOURBILLON_STATUS_FORKED`,
// `TOURBILLON_STATUS_OUT_OF_MEMORY`, or `TOURBILLON_STATUS_INVALID_ARGUMENT` if `timer` or
// `callback` is null.
//
// # Safety
// `timer` is null or comes from this library, and is not freed. `timeout` is null or may be
// written to. Any thread may call `callback` or `destructor` with `data`; in a driven engine, only
// the threads that turn, cancel, free and shut down.
enum tourbillon_status tourbillon_schedule(const struct tourbillon_timer *timer,
                                           uint64_t delay_ns,
                                           tourbillon_callback callback,
                                           void *data,
                                           tourbillon_callback destructor,
                                           struct tourbillon_timeout **timeout);

// Calls `callback` once with `data`, at the time `deadline_ns` of `tourbillon_now_ns`.
//
// If that time has passed, it runs at once. Otherwise this is `tourbillon_schedule`.
//
// # Safety
// As for `tourbillon_schedule`.
enum tourbillon_status tourbillon_schedule_at(const struct tourbillon_timer *timer,
                                              uint64_t deadline_ns,
                                              tourbillon_callback callback,
                                              void *data,
                                              tourbillon_callback destructor,
                                              struct tourbillon_timeout **timeout);

// Calls `callback` with `data` again and again: first in `initial_ns` nanoseconds, and then each
// `period_ns`.
//
// Runs never overlap. The rate does not drift, and runs that are missed are skipped. A callback
// may cancel its own timeout. A panic of a callback ends it. `data` stays the engine's until the
// timeout has ended, in whatever way; then it calls `destructor`. Otherwise this is
// `tourbillon_schedule`.
//
// Returns also `TOURBILLON_STATUS_ZERO_PERIOD`.
//
// # Safety
// As for `tourbillon_schedule`.
enum tourbillon_status tourbillon_schedule_every(const struct tourbillon_timer *timer,
                                                 uint64_t initial_ns,
                                                 uint64_t period_ns,
                                                 tourbillon_callback callback,
                                                 void *data,
                                                 tourbillon_callback destructor,
                                                 struct tourbillon_timeout **timeout);

// Moves a timeout to `delay_ns` nanoseconds from now, later or earlier.
//
// Returns `TOURBILLON_STATUS_OK` if it is still pending: it does not fire before the new time.
// Returns `TOURBILLON_STATUS_NOT_PENDING` if it has fired, is about to, or was cancelled; nothing
// was changed then. So a server that resets an idle timeout has to look at the answer: the
// callback is closing the connection, or is about to.
//
// A reset takes no lock, does not wait, and does not allocate. One to a later time tells nobody.
// One to an earlier time tells the worker. Any thread may call it, and callbacks may. The handle
// stays valid. Among others of its new deadline the timeout runs anywhere.
//
// # Safety
// `timeout` is null, or a handle that was not released and is not released meanwhile.
enum tourbillon_status tourbillon_reset(const struct tourbillon_timeout *timeout,
                                        uint64_t delay_ns);

// Moves a timeout to the time `deadline_ns` of `tourbillon_now_ns`.
//
// If that time has passed, it fires at once. Otherwise this is `tourbillon_reset`. An event loop
// that has read the time once for this round saves the reading.
//
// # Safety
// `timer` is the engine that the timeout was scheduled on, or null, and is not freed. Otherwise as
// for `tourbillon_reset`.
enum tourbillon_status tourbillon_reset_at(const struct tourbillon_timer *timer,
                                           const struct tourbillon_timeout *timeout,
                                           uint64_t deadline_ns);

// Moves `count` timeouts to `delay_ns` nanoseconds from now, and writes to `pending` how many were
// still pending, if it is not null. Each is reset as by `tourbillon_reset`.
//
// For an event loop that has read from many connections in one round. The clock is read once for
// each 64 of them, and the memory of the next ones is fetched while one is reset, which makes this
// several times faster than single resets if there are too many timeouts for the cache. If
// `pending` is less than `count`, `tourbillon_is_pending` says which of them have ended.
//
// Returns `TOURBILLON_STATUS_INVALID_ARGUMENT` if `timer` or a handle is null. Timeouts before
// that handle may be reset by then.
//
// # Safety
// `timer` is the engine of the timeouts, or null, and is not freed. `timeouts` points to `count`
// handles, each as for `tourbillon_reset`. `pending` is null or may be written to.
enum tourbillon_status tourbillon_reset_many(const struct tourbillon_timer *timer,
                                             struct tourbillon_timeout *const *timeouts,
                                             size_t count,
                                             uint64_t delay_ns,
                                             size_t *pending);

// Cancels a timeout. The handle stays valid, and has to be released all the same.
//
// Returns `TOURBILLON_STATUS_OK` if it was pending: its callback has not run and never will, and
// this call has called its destructor. Returns `TOURBILLON_STATUS_NOT_PENDING` if the callback has
// begun or has run, or the timeout has ended otherwise. The call does not wait for a callback that
// runs. For a periodic timeout, no run begins after it; a run that is under way goes on, and its
// end calls the destructor.
//
// Returns `TOURBILLON_STATUS_PANICKED` if the destructor panics. The timeout is cancelled all the
// same. Any thread may call it, and callbacks may.
//
// # Safety
// As for `tourbillon_reset`.
enum tourbillon_status tourbillon_cancel(const struct tourbillon_timeout *timeout);

// Cancels a timeout as `tourbillon_cancel` does, and releases its handle, whatever it returns.
//
// This is the cheapest way to end a timeout soon after it was scheduled: one compare-and-swap, as
// a rule.
//
// # Safety
// As for `tourbillon_release`.
enum tourbillon_status tourbillon_cancel_and_release(struct tourbillon_timeout *timeout);

// Releases a handle. The timeout goes on: if it is pending it still fires. Does nothing if
// `timeout` is null.
//
// A callback may release the handle of its own timeout. Any thread may call this.
//
// # Safety
// `timeout` is null, or a handle that was not released. Nothing uses it from then on.
enum tourbillon_status tourbillon_release(struct tourbillon_timeout *timeout);

// Returns whether a timeout is pending: it has neither fired for good nor ended otherwise. Returns
// false if `timeout` is null. Any thread may call this; it does not block.
//
// # Safety
// As for `tourbillon_reset`.
bool tourbillon_is_pending(const struct tourbillon_timeout *timeout);

// Returns in how many nanoseconds a timeout is due: 0 if it is due, not pending, or null, and
// `TOURBILLON_NEVER` if never. It may be more than the delay that was asked for, by up to a part
// of a tick and some 20 us, because a deadline is rounded up. Any thread may call this; it reads
// the clock.
//
// # Safety
// As for `tourbillon_reset`.
uint64_t tourbillon_remaining_ns(const struct tourbillon_timeout *timeout);

// Fills `stats` with the counters of an engine. Set `stats->size` before.
//
// The counters are read one after the other while the engine runs. The call allocates, and costs
// the threads that schedule nothing. Any thread may call it, and callbacks may.
//
// Returns `TOURBILLON_STATUS_INVALID_ARGUMENT` if an argument is null or the size is not set.
//
// # Safety
// `timer` is null or comes from this library, and is not freed. `stats` is null, or has as many
// bytes as its `size` says.
enum tourbillon_status tourbillon_stats_get(const struct tourbillon_timer *timer,
                                            struct tourbillon_stats *stats);

// Returns how many timeouts are pending, or 0 if `timer` is null. Any thread may call this; it
// neither blocks nor allocates.
//
// # Safety
// `timer` is null or comes from this library, and is not freed.
size_t tourbillon_pending(const struct tourbillon_timer *timer);

// Shuts an engine down, and calls `on_unfired` on this thread for each timeout that was pending.
//
// From then on the engine refuses timeouts. The call waits for the callbacks that run; no other
// callback of the engine runs after it, unless a callback of another engine has called it: then
// those that were due and waited for a thread may still run. If `on_unfired` is null, the
// destructors of the timeouts are called instead. Handles stay valid until they are released, and
// the engine has to be freed all the same.
//
// Returns `TOURBILLON_STATUS_SHUTDOWN` if the engine was shut down before,
// `TOURBILLON_STATUS_FROM_CALLBACK` if one of its callbacks calls this,
// `TOURBILLON_STATUS_FORKED` in a forked child, and `TOURBILLON_STATUS_OUT_OF_MEMORY` if there is
// no memory for the list of timeouts: then call it again.
//
// # Safety
// `timer` is null or comes from this library, and is not freed. `on_unfired` is null or may be
// called with `context`.
enum tourbillon_status tourbillon_shutdown(const struct tourbillon_timer *timer,
                                           tourbillon_on_unfired on_unfired,
                                           void *context);

// Shuts an engine down as `tourbillon_shutdown` does, but runs the pending timeouts now, whatever
// their deadlines.
//
// # Safety
// As for `tourbillon_shutdown`.
enum tourbillon_status tourbillon_shutdown_fire_now(const struct tourbillon_timer *timer);

// Shuts an engine down as `tourbillon_shutdown` does, but goes on for `at_most_ns` before that, as
// long as something is pending that will be due. A driven engine does not wait.
//
// # Safety
// As for `tourbillon_shutdown`.
enum tourbillon_status tourbillon_shutdown_drain(const struct tourbillon_timer *timer,
                                                 uint64_t at_most_ns,
                                                 tourbillon_on_unfired on_unfired,
                                                 void *context);

// Makes an engine without threads, and writes it to `timer`, and its driver to `driver`.
//
// Nothing happens by itself: timeouts fire only in `tourbillon_turn`, on the thread that calls it.
// Free both in any order: when one is freed, the engine has ended, and pending timeouts are
// dropped unrun. The errors are those of `tourbillon_timer_new`.
//
// # Safety
// `options` is null, or its `size` is set and its pointers are null or valid. `timer` and `driver`
// may be written to.
enum tourbillon_status tourbillon_timer_new_driven(const struct tourbillon_options *options,
                                                   struct tourbillon_timer **timer,
                                                   struct tourbillon_driver **driver);

// Runs all due timeouts on this thread, and writes how many to `fired`, which may be null.
//
// A timeout that a callback schedules with no delay waits for the next turn. Returns
// `TOURBILLON_STATUS_BUSY` if a callback calls this for its own driver.
//
// # Safety
// `driver` is null or comes from this library, and is not freed. `fired` is null or may be written
// to.
enum tourbillon_status tourbillon_turn(struct tourbillon_driver *driver, size_t *fired);

// Returns in how many nanoseconds to call `tourbillon_turn` next: 0 if at once, and
// `TOURBILLON_NEVER` if nothing is pending or `driver` is null. For `timerfd_settime`, `ppoll`,
// `kevent` and the like.
//
// The timeouts of a tick share a turn: the loop comes back when the last of them is due.
//
// A cancel, or a reset to later, does not wake the loop: it wakes at the time that was returned,
// and finds nothing to do.
//
// Within a turn the answer is 0. Call it after each turn, before the loop sleeps: from then on the
// callback of `tourbillon_on_earlier` tells of timeouts that are due before that.
//
// # Safety
// `driver` is null or comes from this library, and is not freed.
uint64_t tourbillon_next_wakeup_ns(const struct tourbillon_driver *driver);

// Returns in how many milliseconds to call `tourbillon_turn` next, rounded up: the timeout of
// `epoll_wait` and `poll`. It is -1, for ever, if nothing is pending or `driver` is null.
//
// Otherwise it is `tourbillon_next_wakeup_ns`. It is rounded up so that the loop does not wake
// before the time, find nothing to do, and spin.
//
// # Safety
// `driver` is null or comes from this library, and is not freed.
int tourbillon_next_wakeup_ms(const struct tourbillon_driver *driver);

// Sets a callback that wakes the loop: the engine calls it when another thread schedules a
// timeout, or resets one, that is due before the time that `tourbillon_next_wakeup_ns` last
// returned.
//
// It runs on the thread that schedules, perhaps on several at a time, and perhaps without need. It
// must not block, nor use the engine: let it write to an eventfd or a pipe. It replaces the
// callback before. `destructor` may be null; it is called with `data` when the callback was
// replaced, or the driver freed. Until then the callback may still run on another thread, also
// after the call that replaces it or frees the driver has returned. If the call fails, `data`
// stays the caller's.
//
// Returns `TOURBILLON_STATUS_BUSY` if a callback calls this for its own driver.
//
// # Safety
// `driver` is null or comes from this library, and is not freed. Any thread, and several at a
// time, may call `callback` with `data`, and any thread `destructor`.
enum tourbillon_status tourbillon_on_earlier(const struct tourbillon_driver *driver,
                                             tourbillon_callback callback,
                                             void *data,
                                             tourbillon_callback destructor);

// Frees a driver, which ends its engine. Does nothing if `driver` is null.
//
// Pending timeouts are dropped unrun, which calls their destructors on this thread. New timeouts
// are refused. Returns `TOURBILLON_STATUS_BUSY`, and frees nothing, if a callback, or a destructor
// that this very call calls, calls it for its own driver.
//
// # Safety
// `driver` is null or comes from this library. If the call succeeds, nothing uses it from then on.
enum tourbillon_status tourbillon_driver_free(struct tourbillon_driver *driver);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TOURBILLON_H */
