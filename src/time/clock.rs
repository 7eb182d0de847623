//! Reads time.

use std::time::{Duration, Instant};

use super::tick::saturating_ns;
use super::upper_bound_clock::process_base;

/// The source of an engine's time.
///
/// A clock must be monotonic: `now` never returns less than it has returned before, on any thread.
/// If a clock breaks this, the engine keeps to the last tick that it has seen. Without a clock of
/// the user's, the engine uses [`Instant::now`].
///
/// Workers sleep by the real clock. So if a clock does not run at the speed of [`Instant`], the
/// engine must be turned when the clock moves. [`ManualClock`](crate::ManualClock) does that by
/// itself, and so does [`BootClock`](crate::BootClock), which steps. For any other such clock, and
/// for one with one of these inside, use [`Builder::build_driven`](crate::Builder::build_driven) or
/// `WaitStrategy::Spin`.
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
}

/// A reading of the system's clock, whichever clock the engine has. For threads that wait for one
/// another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RealTime(Instant);

impl RealTime {
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Returns the time since a moment that is the same in the whole process.
    pub(crate) fn ns(self) -> u64 {
        saturating_ns(self.0.saturating_duration_since(process_base()))
    }
}
