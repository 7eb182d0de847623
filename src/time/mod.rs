//! Monotonic time, ticks, and a clock that is moved by hand.

mod manual;
mod tick;

use std::fmt;
use std::time::Instant;

pub(crate) use manual::Follower;
pub use manual::ManualClock;
pub(crate) use tick::{Scale, Tick};

/// Where an engine reads the time.
///
/// Must be monotonic: `now` never answers less than it has answered before, on any thread. An engine clamps a clock that
/// breaks this to the last tick it has seen. The default, without a clock, is [`Instant::now`].
///
/// A clock that does not run at the speed of [`Instant`] needs somebody to turn the engine when it moves, because
/// workers sleep by the real clock: [`ManualClock`] does that by itself; for any other use
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
    /// The time now. Called once for each schedule and reset, and once for each turn of a worker; must not block.
    fn now(&self) -> Instant;

    /// The manual clock that this is, if it is one.
    #[doc(hidden)]
    fn as_manual(&self) -> Option<&ManualClock> {
        None
    }
}

/// The engine's source of time: the system's monotonic clock unless the user gave another.
pub(crate) enum Source {
    Monotonic,
    Custom(Box<dyn Clock>),
}

impl Source {
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Source::Monotonic => Instant::now(),
            Source::Custom(clock) => clock.now(),
        }
    }

    pub(crate) fn as_manual(&self) -> Option<&ManualClock> {
        match self {
            Source::Monotonic => None,
            Source::Custom(clock) => clock.as_manual(),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Monotonic => "Monotonic",
            Source::Custom(_) => "Custom",
        })
    }
}
