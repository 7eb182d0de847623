//! Events for operators, sent to the crate `tracing` with the target `tourbillon`: too many
//! engines; a task that panicked; a worker that can't be started; a turn that took long; a shard
//! that does not keep up; a pool whose threads are all stuck.
//!
//! Without the feature `tracing` nothing is sent, and a turn costs nothing. With it, a turn costs
//! one load while no subscriber listens, and one read of the clock while one does. The other events
//! are rare.
//!
//! A subscriber runs like a user's hook, and its panics are dropped. It may schedule, cancel and
//! reset. It must not shut an engine down, and must not call `Timer::global` when it receives the
//! event about too many engines. If a thread schedules in teardown, from the destructor of a
//! thread-local, the engine sends its event under a lock.

#![cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nothing is sent"))]

use std::any::Any;
use std::fmt::Display;
// Not through `sync`: only events depend on these, and no protocol does.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const MS: u64 = 1_000_000;
/// A turn that takes this many nanoseconds is long. All that is due on its shard is late by as
/// much. That is a hundred ticks by default, and more than the 10 ms or so of a turn that reaches
/// all its limits. So either a task or an executor holds the worker up, or the machine has no
/// processor for it.
const LONG: u64 = 100 * MS;
/// The shortest time between two events which say that a shard does not keep up, in nanoseconds.
const PAUSE: u64 = 1000 * MS;
/// So many engines at a time are no mistake. The number and the idea are Netty's.
const MANY: usize = 64;

/// Sends an event. A panic of the subscriber does not reach the calling thread.
macro_rules! tell {
    ($level:ident: $($event:tt)+) => {
        #[cfg(feature = "tracing")]
        crate::panics::catch(|| ::tracing::$level!(target: "tourbillon", $($event)+));
    };
}

/// Returns whether a subscriber may listen to warnings.
#[inline]
fn is_listened_to() -> bool {
    #[cfg(feature = "tracing")]
    {
        use ::tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
        LevelFilter::WARN <= STATIC_MAX_LEVEL && LevelFilter::WARN <= LevelFilter::current()
    }
    #[cfg(not(feature = "tracing"))]
    false
}

/// How many engines of the process have begun and not ended.
static LIVING: AtomicUsize = AtomicUsize::new(0);
static HAS_TOLD: AtomicBool = AtomicBool::new(false);

/// Counts an engine that begins. Tells, once, that there are more than [`MANY`]: a common and
/// costly mistake.
pub(crate) fn engine_begins() {
    let living = LIVING.fetch_add(1, Ordering::Relaxed) + 1;
    if living > MANY && !HAS_TOLD.swap(true, Ordering::Relaxed) {
        tell!(warn: living, "there are more than {MANY} timer engines, each with threads of its own: share one, by \
            cloning its Timer or by Timer::global");
    }
}

/// Counts it no more.
pub(crate) fn engine_ends() {
    LIVING.fetch_sub(1, Ordering::Relaxed);
}

/// A task or a user's hook has panicked.
#[cold]
pub(crate) fn task_panicked(panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tell!(error: panic = text.unwrap_or("not a string"), "a timer task panicked; the others run on");
}

/// All threads of a pool are in tasks that do not end, while others wait.
#[cold]
pub(crate) fn pool_is_stuck(threads: usize) {
    tell!(warn: threads, "all threads of a timer's pool have been in their tasks for a second while other tasks wait: \
        do what blocks elsewhere, or give the builder a ThreadPool with more threads");
}

/// Reports once that a worker can't be started. Each schedule tries to start it again.
#[derive(Debug, Default)]
pub(crate) struct NoThread(AtomicBool);

impl NoThread {
    #[cold]
    pub(crate) fn tell(&self, shard: usize, why: &impl Display) {
        // Set before the event is sent: if the subscriber schedules, that finds no thread either,
        // and calls this again.
        if !self.0.swap(true, Ordering::Relaxed) {
            tell!(error: shard, %why, "the system gives no thread for a timer's worker: what is scheduled waits, and \
                each schedule tries again");
        }
    }
}

/// A worker's record of its turns.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// How many turns in a row have left entries for the next one. `since_ns` is when the first of
    /// them began.
    left_over: u64,
    since_ns: u64,
    told_ns: Option<u64>,
}

impl Turns {
    /// Records the end of a turn that began at `began_ns`. `more` says whether it left entries for
    /// the next one. `now` returns `None` if the engine's time stands still.
    #[inline]
    pub(crate) fn end(&mut self, shard: usize, began_ns: u64, more: bool, now: impl FnOnce() -> Option<u64>) {
        if !is_listened_to() {
            return;
        }
        if self.left_over == 0 {
            self.since_ns = began_ns;
        }
        self.left_over = if more { self.left_over + 1 } else { 0 };
        let Some(now_ns) = now() else { return };
        let took_ns = now_ns.saturating_sub(began_ns);
        if took_ns >= LONG {
            let took_ms = took_ns / MS;
            tell!(warn: shard, took_ms, "a timer's turn took long: what was due meanwhile is late");
        }
        let behind = now_ns.saturating_sub(self.since_ns);
        let is_quiet = self.told_ns.is_none_or(|told| now_ns.saturating_sub(told) >= PAUSE);
        if self.left_over > 1 && behind >= LONG && is_quiet {
            self.told_ns = Some(now_ns);
            let (turns, for_ms) = (self.left_over, behind / MS);
            tell!(warn: shard, turns, for_ms, "a timer's shard does not keep up: each turn has reached transfer_limit \
                or expiry_limit and left something over");
        }
    }
}
