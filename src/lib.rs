//! **Tourbillon**: a lock-free, multi-producer, sharded timer engine for servers. Link it in, arm a timeout for every
//! connection and every request, and forget about it.
//!
//! ```
//! use std::time::Duration;
//! use tourbillon::Timer;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let timer = Timer::new()?;
//! let timeout = timer.schedule(Duration::from_secs(5), || println!("5 s have passed"))?;
//! assert!(timeout.reset(Duration::from_secs(30))); // one compare-and-swap; false: it has fired
//! assert!(timeout.cancel()); // has not run and never will; the closure is dropped here
//! # Ok(())
//! # }
//! ```
//!
//! # The way of a timeout
//!
//! ```text
//! producer                         worker (one per shard, pinned)                       executor
//! ────────                         ──────────────────────────────                       ────────
//! schedule ─► entry from the       turn:                                                thread pool
//!             producer's free        1 unlink what the cancelled queue holds            (or inline, or
//!             list               ┌►  2 transfer ≤ 100,000 from the inbox                 the user's own)
//!          ─► shard's inbox ─────┘     into the wheel, slot = tick & mask
//!                                    3 expire the due slots ──► batch (one intrusive ─────► run, panics
//! reset  ─► CAS on the entry           list of entries, ≤ 256)                              isolated
//! cancel ─► CAS on the entry         4 find the next occupied slot (bitmap), and park
//!          ─► cancelled queue          until then, or until a producer brings
//!                                      something earlier
//! ```
//!
//! # Layers
//!
//! Each knows only those before it: `panics`, `events` (what an operator is told), `sync` (the one door to atomics), `memory` (zeroed
//! arrays), `time` (ticks, clocks), `entry` (one cache line per timeout, and the word that decides), `arena` (where entries live), `wheel`
//! (slots, levels, bitmaps: no thread, no clock), `shard` (inbox, cancelled queue, wheel, and a turn through them: no thread), `worker`
//! (the threads), `executor` (where tasks run), `timer` (what you touch), `future` (the same to be awaited), `adapters` (other crates).
//!
//! # Promises
//!
//! * Never early: no task runs before its deadline by the clock that [`std::time::Instant`] shows. (Futures that sleep when their engine is
//!   shut down are ready then, and say so.)
//! * Exactly one of fired, cancelled, handed back by shutdown happens to every timeout that was accepted. (Without a
//!   shutdown, what is pending when the last [`Timer`], and the last future of it, goes is dropped unrun.)
//! * `cancel` returned true: it has not run and never will. `reset` returned true: it won't fire before the new deadline.
//! * Runs of one series never overlap; after a `cancel` that returned true none begins.
//! * Nothing that is scheduled in a pause runs in it.
//! * A refused timeout's task comes back in the error.
//! * A panicking task takes no other with it, nor a thread.
//! * Not promised: the order of timeouts that are due in the same tick, or on different shards.
//!
//! # What else there is
//!
//! Futures ([`Timer::sleep`], [`Timer::timeout`], [`Timer::timeout_at`], [`Timer::interval`]), for any
//! runtime or none; series ([`Timer::schedule_at_fixed_rate`], [`Timer::schedule_with_fixed_delay`], [`Timer::schedule_repeating`]); a delay with some slack ([`Timer::schedule_between`]); groups that
//! are cancelled at once ([`Timer::group`]); shards by key ([`Timer::shard_for`]); [`Timer::pause`]; three ways to end ([`Shutdown`]);
//! [`Timer::health`] and [`Timer::stats`], with the lateness of runs; an engine for the whole process ([`Timer::global`]); engines that are
//! turned by hand ([`Driver`]), and a clock for tests ([`ManualClock`]), which also goes from deadline to deadline. In a child process that
//! was forked off after an engine was made, that engine refuses ([`Refusal::Forked`]); one that the child makes works.
//!
//! # Features
//!
//! All are off at first, and any can be had together.
//!
//! * `hyper`: a [`Timer`] is hyper 1's timer, for servers, clients and hyper-util's pools.
//! * `metrics`: the counters, gauges and lateness of [`Timer::stats`] through the `metrics` facade, for Prometheus and others.
//! * `quinn`: a runtime for QUIC connections whose timers are the engine's.
//! * `rayon`, `tokio`: a Rayon pool, or the handle of a Tokio runtime, is an [`Executor`].
//! * `stream`: an [`Interval`] is a `Stream`.
//! * `tower`: a time limit as a layer, for tower and axum.
//! * `tracing`: events for an operator: panics, too many engines; of workers also that one can't be started or does not get its
//!   core, long turns, overload.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod adapters;
mod arena;
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
mod timer;
mod wheel;
mod worker;

#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub use adapters::metrics;
#[cfg(feature = "quinn")]
#[cfg_attr(docsrs, doc(cfg(feature = "quinn")))]
pub use adapters::quinn;
#[cfg(feature = "tower")]
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub use adapters::tower;
pub use count::Lateness;
pub use entry::MissedTicks;
pub use executor::{Executor, Expired, Inline, ThreadPool};
pub use future::{Elapsed, Interval, Sleep, WithTimeout};

pub use time::{Clock, ManualClock};
pub use timer::{
    BuildError, Builder, Driver, Group, Health, LevelStats, Refusal, ScheduleError, Shard, ShardHealth, ShardStats,
    Shutdown, ShutdownError, Stats, Timeout, TimeoutGuard, Timer, Unfired, WorkerState,
};
pub use worker::{Pinning, Tick, WaitStrategy};

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// So are those of the guide for whoever comes from another timer.
#[cfg(doctest)]
#[doc = include_str!("../docs/COMING_FROM.md")]
struct ComingFrom;
