//! Times as numbers of nanoseconds.

use std::time::{Duration, Instant};

/// A delay, a deadline or a wait that never ends.
pub const TOURBILLON_NEVER: u64 = 0xffff_ffff_ffff_ffff;

/// Where an engine's times count from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch(Instant);

impl Epoch {
    pub(crate) fn of(timer: &tourbillon::Timer) -> Self {
        Self(timer.now())
    }

    /// Returns a point in time, or `None` for never.
    #[inline]
    pub(crate) fn instant(self, ns: u64) -> Option<Instant> {
        if ns == TOURBILLON_NEVER { None } else { self.0.checked_add(Duration::from_nanos(ns)) }
    }

    pub(crate) fn ns_until(self, at: Instant) -> u64 {
        ns(at.saturating_duration_since(self.0))
    }
}

/// Returns a delay, which may be never.
#[inline]
pub(crate) fn delay(ns: u64) -> Duration {
    if ns == TOURBILLON_NEVER { Duration::MAX } else { Duration::from_nanos(ns) }
}

/// Returns the nanoseconds of a duration, or never if they don't fit.
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(TOURBILLON_NEVER)
}
