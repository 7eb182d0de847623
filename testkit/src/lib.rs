//! The tools that the tests, the fuzzers and `perf` share: to account for timeouts, and to start a
//! test again in a process of its own.
//!
//! - [`again`]: the command for that, on this platform and through an emulator.
//! - [`counters`]: the counts of callers and tasks, against an engine's own counters. The
//!   integration tests, the oracle, the soak and the main job of `perf` use it.
//! - [`record`]: the rule for one timeout: which event may follow which, never early, and once.
//!   `tests/threads.rs` and the slots of the main job keep a [`Fate`](record::Fate), in an atomic
//!   word of their own.
//! - [`ledger`]: a [`Record`](record::Record) for each timeout of an engine, under a lock, and the
//!   sum of them. The soak keeps one for each of its engines.
//! - [`oracle`]: an engine beside a model that is a `BTreeMap`. `tests/model` and the fuzz target
//!   `driven` make programs for it.
//!
//! Counters and records are plain values: each checker chooses the atomics or the lock. These stay
//! where they are:
//!
//! - The words of the main job's slots (`perf/src/connections/slots.rs`). A record is some
//!   hundred bytes under a lock, and a slot is 16 bytes that one compare-and-exchange changes:
//!   records would be what that job measures.
//! - The ledger of `tests/miri` and `Runs` of `tests/common`. They count by relaxed atomics, which
//!   order nothing. A lock for each timeout would order the threads, and hide the races that Miri
//!   and ThreadSanitizer look for. `tests/threads.rs` keeps its atomics for the same reason.
//! - The ledger of the loom models. It counts outside of loom, and asks loom whether the end of a
//!   task is visible to the thread that looks at it. Its task can't run twice, because a call
//!   consumes it, so it has no rule to share. This crate depends on the engine, and would bring a
//!   second copy of the engine into the models.
//! - The driven engine and its `BTreeMap` in `tests/miri/sequences.rs`: under Miri the oracle would
//!   take far too long.
//! - The oracle of the wheel (`src/wheel/oracle.rs`), which tests what is private to the engine.

pub mod again;
pub mod counters;
pub mod ledger;
pub mod oracle;
pub mod record;

use std::time::Duration;

/// A millisecond: the default tick.
pub const MS: Duration = Duration::from_millis(1);
/// An hour.
pub const HOUR: Duration = Duration::from_secs(3600);
/// A day.
pub const DAY: Duration = Duration::from_secs(24 * 3600);
