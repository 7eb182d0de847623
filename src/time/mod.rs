//! Monotonic time, ticks, and a clock that is moved by hand.

mod ahead;
mod manual;
mod tick;

use std::fmt;
use std::time::{Duration, Instant};

pub(crate) use manual::Follower;
pub use manual::ManualClock;
use tick::Scale;
pub(crate) use tick::Tick;

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

/// Nanoseconds in a duration; what does not fit in 64 bits (584 years) saturates.
#[inline]
fn saturating_ns(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}

/// The engine's source of time: the system's monotonic clock unless the user gave another.
pub(crate) enum Source {
    Monotonic,
    Custom(Box<dyn Clock>),
}

impl Source {
    fn now(&self) -> Instant {
        match self {
            Source::Monotonic => Instant::now(),
            Source::Custom(clock) => clock.now(),
        }
    }
}

/// An engine's time: its scale, and the clock that it is read from.
#[derive(Debug)]
pub(crate) struct Timeline {
    scale: Scale,
    source: Source,
    base: ahead::Base,
}

impl Timeline {
    /// Begins now.
    pub(crate) fn new(source: Source, tick: Duration) -> Self {
        let start = source.now();
        Self { scale: Scale::new(start, tick), source, base: ahead::Base::at(start) }
    }

    #[inline]
    pub(crate) fn scale(&self) -> &Scale {
        &self.scale
    }

    /// The clock, if it stands still until somebody moves it.
    pub(crate) fn as_manual(&self) -> Option<&ManualClock> {
        match &self.source {
            Source::Monotonic => None,
            Source::Custom(clock) => clock.as_manual(),
        }
    }

    /// The exact time in nanoseconds since the start, for those who decide what is due.
    pub(crate) fn now_ns(&self) -> u64 {
        self.scale.ns_at(self.source.now())
    }

    /// The same, or a few microseconds more, for those who turn delays into deadlines: cheaper, and never behind.
    #[inline]
    fn ahead_ns(&self) -> u64 {
        match &self.source {
            Source::Monotonic => ahead::ns_since(self.base),
            Source::Custom(_) => self.now_ns(),
        }
    }

    /// The last tick that has come.
    pub(crate) fn current_tick(&self) -> Tick {
        self.scale.tick_at(self.now_ns())
    }

    /// The tick of a deadline `delay` from now: see [`Scale::tick_after`].
    #[inline]
    pub(crate) fn tick_after(&self, delay: Duration) -> Tick {
        self.scale.tick_after(self.ahead_ns(), delay)
    }

    /// The tick of a given deadline: rounded up, or, if it has passed, the tick that has already come.
    pub(crate) fn tick_at_or_now(&self, deadline: Instant) -> Tick {
        let (now_ns, deadline_ns) = (self.now_ns(), self.scale.ns_at(deadline));
        self.scale.tick_after(now_ns, Duration::from_nanos(deadline_ns.saturating_sub(now_ns)))
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
