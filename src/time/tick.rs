//! Ticks, and all rounding between ticks and instants. It lives here and nowhere else, and it rounds up.

use std::time::{Duration, Instant};

/// A point in time in ticks since the engine started. Saturates: [`Tick::NEVER`] is later than all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tick(u64);

impl Tick {
    /// A deadline that never comes. Ticks are 55 bits wide (the state word keeps 9 for itself): at 1 ns that is
    /// 1.1 years; from 512 ns on, the 584 years that 64 bits of nanoseconds hold come first.
    pub(crate) const NEVER: Tick = Tick(u64::MAX >> 9);
    pub(crate) const ZERO: Tick = Tick(0);

    /// `ticks`, or never if that is more than a tick can hold.
    #[inline]
    pub(crate) const fn new(ticks: u64) -> Self {
        if ticks < Self::NEVER.0 { Self(ticks) } else { Self::NEVER }
    }

    #[inline]
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn next(self) -> Self {
        Self::new(self.0 + 1)
    }
}

/// A point in time, exactly, and in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since the engine's start.
    pub(crate) ns: u64,
    /// The tick that it was rounded to.
    pub(crate) tick: Tick,
}

/// The engine's time scale: where tick zero is, and how long a tick is. Time is counted in nanoseconds since that start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    start: Instant,
    tick_ns: u64,
    /// Division by a multiplication, see [`ticks_in_soon`](Self::ticks_in_soon).
    reciprocal: u64,
    shift: u32,
}

impl Scale {
    /// `tick` is between 1 ns and 584 years: the builder has checked it.
    pub(crate) fn new(start: Instant, tick: Duration) -> Self {
        let tick_ns = saturating_ns(tick).max(1);
        let shift = u64::BITS - (tick_ns - 1).leading_zeros();
        let reciprocal = u64::try_from((1_u128 << (63 + shift)) / u128::from(tick_ns) + 1);
        match reciprocal {
            Ok(reciprocal) if shift < u64::BITS => Self { start, tick_ns, reciprocal, shift },
            // A tick of more than 2^63 ns: in the time that the multiplication is for, none comes.
            _ => Self { start, tick_ns, reciprocal: 0, shift: 0 },
        }
    }

    pub(crate) fn tick_duration(&self) -> Duration {
        Duration::from_nanos(self.tick_ns)
    }

    /// Nanoseconds since the start; none before it.
    #[inline]
    pub(crate) fn ns_at(&self, at: Instant) -> u64 {
        saturating_ns(at.saturating_duration_since(self.start))
    }

    /// `ns / tick_ns`.
    #[inline]
    fn ticks_in(&self, ns: u64) -> u64 {
        if ns >> 63 == 0 { self.ticks_in_soon(ns) } else { ns / self.tick_ns }
    }

    /// The same of less than 2^63 ns, which are 292 years, by Granlund and Montgomery ("Division by invariant integers using
    /// multiplication", theorem 4.2): with `shift` the binary logarithm of `tick_ns`, rounded up, and `reciprocal` the next whole number
    /// above 2^(63 + `shift`) / `tick_ns`, that is exact.
    #[inline]
    fn ticks_in_soon(&self, ns: u64) -> u64 {
        debug_assert_eq!(ns >> 63, 0);
        ((u128::from(2 * ns) * u128::from(self.reciprocal)) >> 64) as u64 >> self.shift
    }

    /// The last tick that has come by `now_ns`. Never does not come: time stops counting in the tick before.
    #[inline]
    pub(crate) fn tick_at(&self, now_ns: u64) -> Tick {
        Tick(self.ticks_in(now_ns).min(Tick::NEVER.0 - 1))
    }

    /// The tick of a deadline `delay` after `now_ns`: rounded up, so that it is never early; not pushed on if it lies on a
    /// tick; and, if there is no delay at all, the tick that has already come, so that it runs at once.
    #[inline]
    pub(crate) fn tick_after(&self, now_ns: u64, delay: Duration) -> Tick {
        if delay.is_zero() {
            return self.tick_at(now_ns);
        }
        self.tick_not_before(now_ns.saturating_add(saturating_ns(delay)))
    }

    /// The first tick that does not come before `ns`.
    #[inline]
    pub(crate) fn tick_not_before(&self, ns: u64) -> Tick {
        let up = ns.saturating_add(self.tick_ns - 1);
        if up >> 63 == 0 { Tick::new(self.ticks_in_soon(up)) } else { self.tick_after_centuries(ns) }
    }

    #[cold]
    fn tick_after_centuries(&self, ns: u64) -> Tick {
        // The last tick that 64 bits of nanoseconds can hold, or never, which is what all of them stand for.
        if ns == u64::MAX { Tick::NEVER } else { Tick::new(ns.div_ceil(self.tick_ns)) }
    }

    /// When a tick comes, in nanoseconds since the start.
    pub(crate) fn ns_of(&self, tick: Tick) -> u64 {
        tick.0.saturating_mul(self.tick_ns)
    }

    /// The instant so many nanoseconds after the start. What lies beyond what an `Instant` can hold, never included, is the
    /// farthest instant that can be had (centuries from now).
    pub(crate) fn instant_after(&self, ns: u64) -> Instant {
        let mut since_start = Duration::from_nanos(ns);
        loop {
            if let Some(instant) = self.start.checked_add(since_start) {
                return instant;
            }
            since_start /= 2;
        }
    }
}

/// What the upper bound clock adds to what the monotonic clock says.
pub(super) const MARGIN_NS: u64 = 1_000;

/// Nanoseconds in a duration; what does not fit in 64 bits (584 years) saturates.
#[inline]
pub(crate) fn saturating_ns(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_deadline_on_a_tick_is_not_pushed_on() {
        let start = Instant::now();
        let scale = Scale::new(start, MS);
        assert_eq!(scale.tick_after(0, 7 * MS), Tick::new(7));
        assert_eq!(scale.tick_after(3_000_000, 7 * MS), Tick::new(10));
        assert_eq!(scale.tick_after(0, 7 * MS + Duration::from_nanos(1)), Tick::new(8));
    }

    #[test]
    fn no_delay_and_past_deadlines_are_due_at_once() {
        let start = Instant::now();
        let scale = Scale::new(start, MS);
        assert_eq!(scale.tick_after(10_000_005, Duration::ZERO), Tick::new(10));
        assert_eq!(scale.tick_not_before(scale.ns_at(start)), Tick::ZERO);
        assert_eq!(scale.tick_not_before(scale.ns_at(start - MS)), Tick::ZERO);
    }

    #[test]
    fn far_deadlines_saturate_to_never_and_stay_an_instant() {
        let start = Instant::now();
        for tick in [Duration::from_nanos(1), Duration::from_micros(1), MS, Duration::from_secs(1 << 40)] {
            let scale = Scale::new(start, tick);
            assert_eq!(scale.tick_after(1_000_000, Duration::MAX), Tick::NEVER);
            assert!(scale.instant_after(scale.ns_of(Tick::NEVER)) > start);
        }
    }

    #[test]
    fn never_does_not_come() {
        let scale = Scale::new(Instant::now(), Duration::from_nanos(1));
        for now_ns in [1 << 55, u64::MAX] {
            assert!(scale.tick_at(now_ns) < Tick::NEVER);
            assert_eq!(scale.tick_after(now_ns, MS), Tick::NEVER);
        }
    }

    proptest! {
        #[test]
        fn division_by_the_reciprocal_is_division(ns in any::<u64>(), tick in any::<u64>(), shift in 0_u32..64) {
            let tick = (tick >> shift).max(1);
            let scale = Scale::new(Instant::now(), Duration::from_nanos(tick));
            for ns in [ns, ns >> shift, u64::MAX, u64::MAX / tick * tick, (u64::MAX / tick * tick).wrapping_sub(1), 0] {
                prop_assert_eq!(scale.ticks_in(ns), ns / tick);
            }
        }

        #[test]
        fn a_tick_never_comes_before_its_deadline_and_less_than_a_tick_after(
            tick_ns in 1_u64..10_000_000_000, now_ns in 0_u64..1 << 54, delay_ns in 1_u64..1 << 54,
        ) {
            let start = Instant::now();
            let scale = Scale::new(start, Duration::from_nanos(tick_ns));
            let now = start + Duration::from_nanos(now_ns);
            let deadline = now + Duration::from_nanos(delay_ns);
            let tick = scale.tick_after(now_ns, Duration::from_nanos(delay_ns));
            prop_assert_eq!(tick, scale.tick_not_before(scale.ns_at(deadline)));
            let comes = scale.instant_after(scale.ns_of(tick));
            prop_assert!(comes >= deadline);
            prop_assert!(comes - deadline < Duration::from_nanos(tick_ns));
            prop_assert_eq!(scale.tick_at(scale.ns_at(comes)), tick);
            prop_assert!(scale.tick_at(scale.ns_at(comes) - 1) < tick);
        }
    }
}
