//! **Tourbillon**: a lock-free, multi-producer, sharded timer engine for servers. Schedule a
//! timeout for every connection and every request, reset it at every packet, and cancel it from any
//! thread.
//!
//! ```
//! use std::time::Duration;
//! use tourbillon::Timer;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let timer = Timer::new()?;
//! let timeout = timer.schedule(Duration::from_secs(5), || println!("5 s have passed"))?;
//! if !timeout.reset(Duration::from_secs(30)) {
//!     return Ok(()); // it has fired: its task runs, or is about to
//! }
//! assert!(timeout.cancel()); // it has not run and never will; the closure is dropped here
//! # Ok(())
//! # }
//! ```
//!
//! [`Timer`] has the ways to schedule, [`Timeout`] is the handle of one timeout, and [`Builder`]
//! has the options. In a server each connection has a timeout, which every packet pushes out:
//!
//! ```no_run
//! use std::io::{Read, Write};
//! use std::net::{Shutdown, TcpListener};
//! use std::thread;
//! use std::time::Duration;
//! use tourbillon::Timer;
//!
//! const IDLE: Duration = Duration::from_secs(30);
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let timer = Timer::new()?;
//!     for connection in TcpListener::bind("127.0.0.1:7000")?.incoming() {
//!         let mut connection = connection?;
//!         let closing = connection.try_clone()?;
//!         let idle = timer.schedule(IDLE, move || _ = closing.shutdown(Shutdown::Both))?;
//!         thread::spawn(move || {
//!             let mut packet = [0; 1024];
//!             while let Ok(len @ 1..) = connection.read(&mut packet) {
//!                 if !idle.reset(IDLE) || connection.write_all(&packet[..len]).is_err() {
//!                     break; // it has just been closed, by us or by the client
//!                 }
//!             }
//!             idle.cancel();
//!         });
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # When not to use it
//!
//! * A program on Tokio has a few timers, or one in the task of each connection: `tokio::time` is
//!   there already.
//! * Lateness below a tick matters more than processor time, for crowds of timeouts.
//! * One thread owns all timeouts and reads the clock rarely. A wheel that shares nothing is
//!   faster.
//! * You need wall-clock time or real-time bounds.
//!
//! # How it works
//!
//! ```text
//! producer                        worker (one per shard, pinned)                executor
//! ────────                        ──────────────────────────────                ────────
//! schedule ─► entry from the      a turn:                                       thread pool
//!             thread's cache        1 moved queue, inbox into the wheel,        (or inline, or
//!          ─► inbox ─────────────┐    slot = tick & mask                        the user's own)
//!                                └► 2 the due slots ─► batch of ≤ 256 ────────► claim each, run
//! reset ──► CAS on the entry        3 cancelled queue, and what is left of     it, catch panics
//!       ─► moved queue, if earlier    1, a part at a time; in between 2 again
//! cancel ─► CAS on the entry        4 cascade to the level below
//!        ─► cancelled queue       then park until the next occupied slot
//!                                 (bitmap), or until a producer wakes it
//! ```
//!
//! An entry is one cache line: the state word, the links, and the closure, which lies inline if its
//! captures take up to 32 bytes. Each thread recycles entries through an entry cache of its own. A
//! batch is an intrusive list of entries. The state word is one `AtomicU64`, which decides whether
//! a timeout fires or is cancelled, until its own task begins. The head of the shard's inbox is the
//! second such word: one compare-and-swap on it is the enqueue, the wake-up decision and the
//! shutdown check. A schedule may revive a tombstone: an entry whose timeout its thread has
//! cancelled and dropped, and which still lies in the inbox or in its slot. Then it pushes nothing.
//!
//! `ARCHITECTURE.md` in the repository has the layers and the invariants.
//!
//! # Costs
//!
//! | operation | what it takes |
//! |---|---|
//! | `reset` to a later deadline | one compare-and-swap: no lock, no message, no wake-up |
//! | `schedule`, `cancel` | no allocation, no lock, no shared counter; a wake-up only for an earlier deadline or a full queue (8,192 entries) |
//! | a tick with nothing due | nothing: an idle engine makes no system call |
//! | expiry | batches of up to 256 to the executor |
//!
//! [`Timer::schedule`] and [`Timeout`] list the rare cases that take more.
//!
//! # Guarantees
//!
//! 1. **Never early.** No task runs before its deadline, by the engine's clock. That is
//!    [`std::time::Instant`]'s, unless [`Builder::clock`] sets another. A shutdown ends the futures
//!    that sleep, and they say so ([`Sleep::ended_by_shutdown`], [`Elapsed::is_shutdown`]).
//! 2. **One end, once.** Every timeout that the engine accepted ends in one way, once: it fires, it
//!    is cancelled, or a shutdown hands it back. Or its engine goes first: the last [`Timer`] and
//!    its last future, or the [`Driver`]. Then it is dropped unrun, and reads as cancelled.
//! 3. **A true [`cancel`](Timeout::cancel) is final.** The task has not run and never will. The
//!    call has dropped the closure, on the calling thread.
//! 4. **A true [`reset`](Timeout::reset) holds.** The timeout does not fire before the new
//!    deadline.
//! 5. **Runs of one periodic timeout never overlap.** A fixed rate does not drift, unless
//!    [`MissedTicks::Delay`] moves it. After a true `cancel` no run begins. A run that is under way
//!    goes on, and its end drops the closure. A `reset` moves the next run, also during a run. A
//!    panic ends the periodic timeout.
//! 6. **A refused task comes back** in the [`ScheduleError`], whatever the [`Refusal`].
//! 7. **A panic takes nothing with it.** The engine catches and counts the panic of a task. The
//!    rest of its batch runs, and no thread is lost. A [`Clock`] that panics loses no timeout: the
//!    worker goes on when it can. If the clock panics at the end of a run of a periodic timeout,
//!    the timeout ends as if the run had panicked. In a program that is built with
//!    `panic = "abort"` a panic ends the process, as everywhere.
//! 8. **A handle stays valid.** A [`Timeout`] is 8 bytes, may outlive its [`Timer`], and never
//!    reaches another timeout. Dropping it detaches the timeout;
//!    [`cancel_on_drop`](Timeout::cancel_on_drop) makes a guard of it;
//!    [`cancel_owned`](Timeout::cancel_owned) cancels and drops it in one step.
//! 9. **Cancelled timeouts hold a bounded amount of memory**, whatever their delays: see
//!    [Memory](#memory).
//! 10. **First in, first out.** Timeouts that run once, and that one thread has scheduled on one
//!     shard, run in the order of their deadlines; those of one deadline, to a part of a tick, in
//!     the order in which they were scheduled. This holds with [`Inline`] and in a driven engine;
//!     the threads of a pool take them in that order. A timeout that was reset, or that took over
//!     the entry of one that the same thread had just cancelled, runs anywhere among the others of
//!     its deadline.
//!
//! The engine does not promise an order among timeouts of different shards or threads, or on a pool
//! of threads, nor a bound on lateness.
//!
//! # Lateness
//!
//! [`Lateness`](Lateness#what-lateness-is) defines it, and says what is recorded. A timeout is late
//! by the time that the system takes to wake a thread, and by the tasks that run before it in the
//! executor. A worker runs those of one tick together, when the last of them is due. So a timeout
//! that shares its tick with others is late by up to one tick more, and one that is alone in its
//! tick by up to a [part](Builder::tick_duration) of it.
//! The engine counts a delay from a cheap clock, which may be some 20 µs ahead. So a timeout may be
//! as much later, and is never earlier.
//!
//! A deadline that lies on a tick is not moved to the next one; such deadlines come from
//! [`Timer::schedule_at`], or from a clock that is moved by hand. A task whose delay is zero runs
//! at once, and so does one whose deadline has passed by more than a part of a tick.
//! [`Duration::MAX`](std::time::Duration::MAX) means never.
//!
//! # Memory
//!
//! A cancel drops the closure. The 64 bytes of the entry wait until the worker collects them. Their
//! number is bounded:
//!
//! * Each thread keeps up to 64 entries that it has cancelled and dropped, for its next timeouts.
//!   For such an entry the worker may wake once, when its slot comes up.
//! * At most 8,191 entries wait in each queue of a shard whose worker sleeps.
//! * While more than 16,384 entries wait for a worker that runs, a producer without free entries
//!   waits before it takes 64 more, so that the worker catches up. It waits for
//!   [`Builder::max_wait`] at most. Once calls have waited for a second for a worker that did not
//!   move, none waits for it until it moves.
//! * A driven engine collects when it is turned. Its producers do not wait.
//!
//! [`Timer::shrink`] gives memory back to the system after a spike.
//!
//! # Operations
//!
//! | | |
//! |---|---|
//! | [`Timer::schedule`], [`schedule_at`](Timer::schedule_at), [`schedule_detached`](Timer::schedule_detached) | a task, once |
//! | [`Timer::schedule_many`] | many tasks with one delay: all or none |
//! | [`Timer::schedule_at_fixed_rate`], [`schedule_at_fixed_rate_with`](Timer::schedule_at_fixed_rate_with), [`schedule_with_fixed_delay`](Timer::schedule_with_fixed_delay) | periodic timeouts; [`MissedTicks`] decides what happens to missed runs |
//! | [`Timer::reusable`] | a timeout that is armed and disarmed again and again: [`Reusable`] |
//! | [`Timer::schedule_repeating`] | a periodic timeout whose task returns when to run next |
//! | [`Timer::sleep`], [`timeout`](Timer::timeout), [`timeout_at`](Timer::timeout_at), [`interval`](Timer::interval) | futures, for any runtime or none |
//! | [`sleep`], [`sleep_until`], [`timeout()`], [`timeout_at`], [`interval`], [`interval_at`] | the same on the global engine, under the names that they have in `tokio::time` |
//! | [`Timer::shard_for`] | all timeouts of a key on one shard |
//! | [`Timer::shutdown_with`] | [`Shutdown::Cancel`] hands back the pending timeouts, [`FireNow`](Shutdown::FireNow) runs them, [`Drain`](Shutdown::Drain) goes on for a given time at most, and then waits for tasks that run |
//! | [`Timer::shutdown_async`] | the same, for async code: it does not block |
//! | [`Timer::health`] | whether each worker runs and is on time, and which shard has a task that is stuck |
//! | [`Timer::stats`] | counters of the engine and of each shard, a histogram of lateness |
//! | [`Timer::global`] | the global engine of the process, which cannot be shut down |
//! | [`Timer::shrink`] | gives memory that no timeout uses back to the system |
//! | [`Builder::build_driven`], [`Driver`] | an engine without threads, which an event loop turns; a second one for [timeouts that wake no loop](Driver#timeouts-that-wake-no-loop) |
//! | [`ManualClock`] | a clock for tests, moved by a length or to the next deadline |
//! | [`PausableClock`] | a clock that can be stopped; all pending timeouts are delayed by the pause |
//!
//! The repository has examples, which run with `cargo run --all-features --example NAME`:
//! `quick_start`; `session_table`, sessions by key; `retries`, with a deadline for all attempts;
//! `tests_by_a_clock`; `idle_connections`, a TCP server that closes idle connections; `driven`, an
//! event loop on mio that turns its timer itself; `tokio_executor`, `rayon_executor` and
//! `interval_stream`. `integrations/examples` has servers.
//!
//! # Features
//!
//! All are off by default, and any may be combined.
//!
//! * `hyper`: a [`Timer`] is hyper's timer (1.8 or later), for servers, clients and the pools of
//!   hyper-util.
//! * `metrics`: the counters, gauges and lateness of [`Timer::stats`], and [`Timer::health`],
//!   through the `metrics` facade (0.24), for Prometheus and others.
//! * `quinn`: a runtime for QUIC connections (quinn 0.11) whose timers and clock are the engine's.
//! * `rayon`: a Rayon pool is an [`Executor`].
//! * `stream`: an [`Interval`] is a `Stream`, and so is a `compat::delay_queue::DelayQueue`.
//! * `test-util`: a test that stops Tokio's clock stops `compat::tokio` with it. For
//!   `dev-dependencies`.
//! * `tokio`: `compat::tokio`, the surface of `tokio::time` on this engine, and
//!   `compat::delay_queue`, that of tokio-util's `DelayQueue`. The handle of a Tokio runtime is an
//!   [`Executor`]. A closure that calls `tokio::spawn` needs it, because the default pool has no
//!   runtime. `Timer::spawn_after` spawns a future when its time has come.
//! * `tower`: a time limit as a layer, for tower and axum. A request that takes too long ends with
//!   an error, as in tower, or is answered with a status, as in tower-http, or by a closure.
//! * `tracing`: events for an operator: panics, too many engines, workers that cannot be started or
//!   do not get their core, long turns, overload, a pool whose threads are all stuck.
//!
//! Other crates of the repository stand on this one: `tourbillon-hyper` gives the connections of a
//! hyper server limits for the header, for being idle, and for a request; `tourbillon-durable` has
//! timeouts that survive the process; `tourbillon-local` has timers of one thread, for tasks that
//! are not `Send`, in event loops and inside monoio, compio and glommio; `tourbillon-wheel` is a
//! timing wheel alone; `tourbillon-c` is for C and C++.
//!
//! # Platforms
//!
//! Tourbillon needs a 64-bit target. It is tested on Linux. Elsewhere there is no timer slack to
//! set, and pinning is only as good as the system provides. From Linux 6.12 on, workers ask for
//! short slices. Time does not pass while the machine is suspended (`CLOCK_MONOTONIC`), unless the
//! engine is on a [`Clock`] of your own: the example `boot_clock` has one.
//!
//! On Windows the resolution of a worker's waits is unknown: it has not been measured there. It is
//! part of the lateness. Whether time passes there in a suspend has not been tried either.
//!
//! # Signals and sandboxes
//!
//! On Linux and macOS the engine's own threads block all signals but `SIGPROF` and those of faults
//! (`SIGSEGV`, `SIGABRT` and the like). So a handler or a `sigwait` of yours gets the rest. A task
//! on the worker or on a [`ThreadPool`] has that mask, too; one on your runtime has your runtime's.
//! A program that such a task starts inherits the mask, and a plain `kill` would not end it. So
//! empty the mask first (`CommandExt::pre_exec`), or start programs from a thread of yours.
//!
//! Once each shard has fired a timeout the engine opens no file, and a sandbox may forbid that. The
//! pool may still start threads.
//!
//! # After a fork
//!
//! On Linux and macOS an engine notices that its process was forked off after it was made. From
//! Linux 4.14 on this includes a raw `clone`. In the child that engine fires nothing:
//!
//! * A schedule gives the task back with [`Refusal::Forked`].
//! * [`Timer::shutdown`] is an error, and [`Timeout::reset`] returns false.
//! * [`Timeout::cancel`] works on the child's own copy.
//! * A future is ready at its own deadline: once the child has polled it, the child's
//!   [global](Timer::global) engine wakes it.
//!
//! Make a new engine in the child. It works. On a [`ThreadPool`] from before the fork its tasks run
//! on the worker, because the pool's threads are in the parent. The handle of a Tokio runtime from
//! before the fork runs nothing in the child: give the engine that of a runtime which the child has
//! made. [`Timer::global`] that is called in the child is the child's, with the defaults unless the
//! child has called [`Builder::build_global`] before. A reference from before the fork stays the
//! parent's.
//!
//! A thread of the parent may hold a lock at the fork, which nobody in the child gives back. std
//! holds one while a thread starts or ends: then no thread starts in the child, and a new engine
//! there stays silent. A [`ManualClock`] and a [`PausableClock`] have locks, too.
//! A task or a hook that forks must not return in the child. The thread that runs it is the child's
//! only one, and would go on as a thread of the engine.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("Tourbillon needs a target with 64-bit pointers: its queues pack a count above a 48-bit address");

// The first, because rustdoc shows the methods of `Timer` in the order of their modules.
mod timer;

mod adapters;
mod arena;
/// The surfaces of other timers on this engine: what a program imports there has the same name
/// here, takes the same arguments and means the same.
#[cfg(feature = "tokio")]
pub mod compat {
    pub mod delay_queue;
    pub mod tokio;
}
mod count;
mod engine;
mod entry;
mod events;
mod executor;
mod future;
mod panics;
mod shard;
mod sync;
mod sys;
mod thread;
mod time;
mod wheel;
mod worker;

#[cfg(feature = "metrics")]
pub use adapters::metrics;
#[cfg(feature = "quinn")]
pub use adapters::quinn;
#[cfg(feature = "tower")]
pub use adapters::tower;
pub use count::Lateness;
pub use entry::MissedTicks;
pub use executor::{Executor, Expired, Inline, ThreadPool};
pub use future::{Elapsed, Interval, Sleep, TimeoutFuture};
pub use future::{interval, interval_at, sleep, sleep_until, timeout, timeout_at};
#[cfg(count_accesses)]
#[doc(hidden)]
pub use sync::accesses;
pub use time::{Clock, ClockListener, ManualClock, PausableClock};
pub use timer::{
    BuildError, Builder, Driver, Health, Refusal, Reusable, ScheduleError, Shard, ShardHealth, ShardStats, Shutdown,
    ShutdownError, ShutdownFuture, Stats, Timeout, TimeoutGuard, Timer, Unfired, WorkerState,
};
pub use worker::{Pinning, Turn, WaitStrategy};

// The examples of the README, and of the pages for users of other timers, are tests.
#[cfg(doctest)]
#[cfg_attr(feature = "tokio", doc = include_str!("../README.md"))]
#[doc = include_str!("../docs/coming-from/agrona.md")]
#[doc = include_str!("../docs/coming-from/csharp.md")]
#[doc = include_str!("../docs/coming-from/dubbo.md")]
#[doc = include_str!("../docs/coming-from/go.md")]
#[doc = include_str!("../docs/coming-from/go-timingwheel.md")]
#[doc = include_str!("../docs/coming-from/jdk.md")]
#[doc = include_str!("../docs/coming-from/kafka.md")]
#[doc = include_str!("../docs/coming-from/netty.md")]
#[doc = include_str!("../docs/coming-from/tokio.md")]
struct Documents;
