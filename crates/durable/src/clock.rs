//! Wall time, which is on disk, and its distance from the engine's clock, which arms the wheel.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

/// The source of wall time. By default [`SystemTime::now`].
///
/// ```
/// use std::time::SystemTime;
/// use tourbillon_durable::WallClock;
///
/// struct Fixed(SystemTime);
/// impl WallClock for Fixed {
///     fn now(&self) -> SystemTime {
///         self.0
///     }
/// }
/// ```
pub trait WallClock: Send + Sync + 'static {
    /// Returns the time. Must neither block nor panic. It may go back: timeouts are then late, and
    /// never early.
    fn now(&self) -> SystemTime;
}

/// [`SystemTime::now`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemClock;

impl WallClock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// Microseconds since 1970 in UTC, as on disk.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Micros(pub(crate) i64);

impl Micros {
    /// The last deadline that is stored: in the year 200,000 or so.
    pub(crate) const LAST: i64 = 6_250_000_000_000_000_000;

    /// Rounds up, so that nothing is early by less than a microsecond. `None` beyond the last.
    pub(crate) fn round_up(time: SystemTime) -> Option<Self> {
        let Ok(since) = time.duration_since(SystemTime::UNIX_EPOCH) else {
            return Some(Self(0)); // long gone, whenever it was
        };
        let micros = i64::try_from(since.as_nanos().div_ceil(1_000)).ok()?;
        (micros <= Self::LAST).then_some(Self(micros))
    }

    /// Rounds down: for the time that it is, and so for nothing early.
    pub(crate) fn round_down(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    pub(crate) fn to_system_time(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(self.0).unwrap_or(0))
    }

    /// The time from `earlier` until this, or zero.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    pub(crate) fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(whole_micros(by)).min(Self::LAST))
    }

    pub(crate) fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(whole_micros(by)))
    }
}

impl fmt::Debug for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

/// A length of time as the stores take it.
pub(crate) fn whole_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Compares the two clocks. A move of one alone is a jump: a step of the wall clock, or a suspend
/// of the machine.
#[derive(Debug)]
pub(crate) struct Offset {
    wall: Micros,
    engine: Instant,
}

impl Offset {
    /// Clocks that are slewed drift apart by 0.5 ms a second. That is no jump.
    const TOLERANCE: i64 = 5_000;

    pub(crate) fn new(wall: Micros, engine: Instant) -> Self {
        Self { wall, engine }
    }

    /// Returns by how many microseconds the wall clock has jumped since the last call, if it has.
    pub(crate) fn jump(&mut self, wall: Micros, engine: Instant) -> Option<i64> {
        let passed = engine.saturating_duration_since(self.engine);
        let jump = wall.0.saturating_sub(self.wall.plus(passed).0);
        *self = Self { wall, engine };
        (jump.abs() > Self::TOLERANCE).then_some(jump)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_rounded_up_and_the_time_down() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_500);
        assert_eq!(Micros::round_up(time), Some(Micros(2)));
        assert_eq!(Micros::round_down(time), Micros(1));
    }

    #[test]
    fn a_deadline_before_1970_has_gone_and_one_beyond_the_last_is_refused() {
        assert_eq!(Micros::round_up(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), Some(Micros(0)));
        assert_eq!(Micros::round_up(SystemTime::UNIX_EPOCH + Duration::from_secs(6_300_000_000_000)), None);
    }

    #[test]
    fn only_what_moves_one_clock_alone_is_a_jump() {
        let start = Instant::now();
        let mut offset = Offset::new(Micros(1_000_000), start);
        assert_eq!(offset.jump(Micros(2_000_400), start + Duration::from_secs(1)), None);
        assert_eq!(offset.jump(Micros(9_000_400), start + Duration::from_secs(2)), Some(6_000_000));
        assert_eq!(offset.jump(Micros(10_000_400), start + Duration::from_secs(3)), None);
        assert_eq!(offset.jump(Micros(1_000_400), start + Duration::from_secs(4)), Some(-10_000_000));
    }
}
