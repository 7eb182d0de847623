//! Where time is read.

use std::time::{Duration, Instant};

/// Where an engine reads the time.
///
/// Must be monotonic: `now` never answers less than it has answered before, on any thread. An engine clamps a clock that
/// breaks this to the last tick it has seen. The default, without a clock, is [`Instant::now`].
///
/// A clock that does not run at the speed of [`Instant`] needs somebody to turn the engine when it moves, because
/// workers sleep by the real clock: [`ManualClock`](crate::ManualClock) does that by itself; for any other use
/// [`Builder::build_driven`](crate::Builder::build_driven) or `WaitStrategy::Spin`.
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
    /// The time now. Called for each schedule and reset; by those who turn shards, for each turn and each sleep; by those who run
    /// tasks, for each batch, each 64 tasks of one, and each end of a series' run; and for questions such as `health`. Must not
    /// block.
    fn now(&self) -> Instant;
}

/// A look at the system's clock, whatever the engine's is: for threads that wait for one another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RealTime(Instant);

impl RealTime {
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
