//! Reads time, and tells of its jumps.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::upper_bound_clock::process_base;

/// The source of an engine's time.
///
/// A clock must be monotonic: `now` never returns less than it has returned before, on any thread.
/// If a clock breaks this, the engine keeps to the last tick that it has seen. Without a clock of
/// the user's, the engine uses [`Instant::now`].
///
/// Workers sleep by the real clock. So a clock that does not run at the speed of [`Instant`] keeps
/// the listeners that [`subscribe`](Self::subscribe) is given, and tells them when it has jumped,
/// has been set, or goes on after it stood. [`ManualClock`](crate::ManualClock) and
/// [`PausableClock`](crate::PausableClock) do that. For a clock whose speed differs all the time,
/// use [`Builder::build_driven`](crate::Builder::build_driven) or `WaitStrategy::Spin`.
///
/// A clock that goes on while the machine is suspended (`CLOCK_BOOTTIME` on Linux) is the example
/// `boot_clock` in the repository.
///
/// ```
/// use std::time::Instant;
/// use tourbillon::Clock;
///
/// struct Suspended(Instant);
/// impl Clock for Suspended {
///     fn now(&self) -> Instant {
///         self.0
///     }
/// }
/// ```
pub trait Clock: Send + Sync + 'static {
    /// Returns the time. Must not block.
    ///
    /// Each schedule and reset calls it. A worker or driver calls it for each turn and each sleep.
    /// A thread that runs tasks calls it for each batch, for each 64 tasks of a batch, and after
    /// each run of a periodic timeout. Queries such as `health` call it too.
    fn now(&self) -> Instant;

    /// Takes a listener, which is to be told when this clock has moved otherwise than the real one.
    /// Each engine on the clock calls it once, when it is built. By default nobody is told.
    fn subscribe(&self, listener: Weak<dyn ClockListener>) {
        _ = listener;
    }
}

/// The system's monotonic clock.
pub(super) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// An engine, as its clock sees it: somebody who sleeps by the real clock, and has to be told when
/// the engine's own has moved otherwise. [`Clock::subscribe`](crate::Clock::subscribe) hands it
/// out.
pub trait ClockListener: Send + Sync {
    /// Makes the engine look at the clock. It does not wait, runs no task, and may be called
    /// without need.
    ///
    /// Call it after the clock has moved, and under no lock that [`Clock::now`](crate::Clock::now)
    /// takes.
    fn stepped(&self);
}

/// An engine, as a manual clock sees it.
pub(crate) trait Follower: ClockListener {
    /// Returns when all that has become due has run. Returns `false` if it could not wait for that,
    /// because the calling thread runs a task.
    fn catch_up(&self) -> bool;
    /// A measure of the work done so far, which only grows.
    fn progress(&self) -> u64;
    /// How far the clock has to be moved until something is due. `None` if nothing ever will be.
    /// The caller is no task, as it may have to wait for the answer.
    fn until_next(&self) -> Option<Duration>;
}

/// The listeners of one clock. In plain std types, as no protocol of the engine depends on the
/// lock.
pub(super) struct Listeners<L: ?Sized>(Mutex<Vec<Weak<L>>>);

impl<L: ?Sized> Listeners<L> {
    pub(super) fn none() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    pub(super) fn add(&self, listener: Weak<L>) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|known| known.strong_count() > 0);
        listeners.push(listener);
    }

    /// Returns those that there are. So nobody is told under the lock: a task may build or drop
    /// another engine on this clock.
    pub(super) fn all(&self) -> Vec<Arc<L>> {
        let listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Reads the system's clock, whichever clock the engine has, for threads that wait for one another:
/// the time since a moment that is the same in the whole process.
pub(crate) fn real_time() -> Duration {
    process_base().elapsed()
}
