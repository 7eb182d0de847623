//! Ticks, and all rounding between ticks and instants. No other module rounds. Deadlines are
//! rounded up.

use std::time::{Duration, Instant};

/// A point in time, in ticks since the engine's start. Saturates at [`Tick::NEVER`], which is later
/// than all other ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tick(u64);

impl Tick {
    /// A deadline that never comes. Ticks are 53 bits wide, because the state word needs 11 bits
    /// for itself. With the smallest tick, 1 µs, that is 285 years. From 65 µs on, the limit is the
    /// 584 years that 64 bits of nanoseconds hold.
    pub(crate) const NEVER: Tick = Tick(u64::MAX >> 11);
    pub(crate) const ZERO: Tick = Tick(0);

    /// Returns the tick with this number, or [`NEVER`](Self::NEVER) if the number is too large.
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
    /// Nanoseconds since the engine's start.
    pub(crate) ns: u64,
    /// The tick that the time was rounded to.
    pub(crate) tick: Tick,
}

/// The engine's time scale: when tick zero was, and how long a tick is. Time is counted in
/// nanoseconds since that start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    start: Instant,
    tick_ns: u64,
    /// With `shift`, replaces a division by a multiplication: see
    /// [`ticks_in_soon`](Self::ticks_in_soon).
    reciprocal: u64,
    shift: u32,
}

impl Scale {
    /// `tick` is between 1 µs and 584 years. The builder has checked that.
    pub(crate) fn new(start: Instant, tick: Duration) -> Self {
        let tick_ns = saturating_ns(tick).max(1);
        let shift = u64::BITS - (tick_ns - 1).leading_zeros();
        let reciprocal = u64::try_from((1_u128 << (63 + shift)) / u128::from(tick_ns) + 1);
        match reciprocal {
            Ok(reciprocal) if shift < u64::BITS => Self { start, tick_ns, reciprocal, shift },
            // A tick of more than 2^63 ns. No such tick comes in the time that the multiplication
            // is used for.
            _ => Self { start, tick_ns, reciprocal: 0, shift: 0 },
        }
    }

    pub(crate) fn tick_duration(&self) -> Duration {
        Duration::from_nanos(self.tick_ns)
    }

    /// Nanoseconds since the start; 0 for an instant before it.
    #[inline]
    pub(crate) fn ns_at(&self, at: Instant) -> u64 {
        saturating_ns(at.saturating_duration_since(self.start))
    }

    /// Returns `ns / tick_ns`.
    #[inline]
    fn ticks_in(&self, ns: u64) -> u64 {
        if ns >> 63 == 0 { self.ticks_in_soon(ns) } else { ns / self.tick_ns }
    }

    /// Returns `ns / tick_ns` for `ns` below 2^63, which is 292 years. The method is that of
    /// Granlund and Montgomery ("Division by invariant integers using multiplication", theorem
    /// 4.2). `shift` is the binary logarithm of `tick_ns`, rounded up, and `reciprocal` is the next
    /// whole number above 2^(63 + `shift`) / `tick_ns`. With these the result is exact.
    #[inline]
    fn ticks_in_soon(&self, ns: u64) -> u64 {
        debug_assert_eq!(ns >> 63, 0);
        ((u128::from(2 * ns) * u128::from(self.reciprocal)) >> 64) as u64 >> self.shift
    }

    /// Returns the last tick that has come by `now_ns`. [`Tick::NEVER`] does not come: time stops
    /// counting at the tick before it.
    #[inline]
    pub(crate) fn tick_at(&self, now_ns: u64) -> Tick {
        Tick(self.ticks_in(now_ns).min(Tick::NEVER.0 - 1))
    }

    /// Returns the tick of a deadline `delay` after `now_ns`. It is rounded up, so that it is never
    /// early, and a deadline that lies on a tick stays there. A delay of zero gives the tick that
    /// has already come, so that the timeout runs at once.
    #[inline]
    pub(crate) fn tick_after(&self, now_ns: u64, delay: Duration) -> Tick {
        if delay.is_zero() {
            return self.tick_at(now_ns);
        }
        self.tick_not_before(now_ns.saturating_add(saturating_ns(delay)))
    }

    /// Returns the first tick that does not come before `ns`.
    #[inline]
    pub(crate) fn tick_not_before(&self, ns: u64) -> Tick {
        let up = ns.saturating_add(self.tick_ns - 1);
        if up >> 63 == 0 { Tick::new(self.ticks_in_soon(up)) } else { self.tick_after_centuries(ns) }
    }

    #[cold]
    fn tick_after_centuries(&self, ns: u64) -> Tick {
        // `u64::MAX` stands for all times that 64 bits of nanoseconds can't hold, so its tick is
        // never.
        if ns == u64::MAX { Tick::NEVER } else { Tick::new(ns.div_ceil(self.tick_ns)) }
    }

    /// Returns when a tick comes, in nanoseconds since the start.
    pub(crate) fn ns_of(&self, tick: Tick) -> u64 {
        tick.0.saturating_mul(self.tick_ns)
    }

    /// Returns the instant `ns` nanoseconds after the start. If an `Instant` can't hold that, which
    /// includes never, halves the time until it can: the result is centuries from now.
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

/// What the upper bound clock adds to a reading of the monotonic clock.
pub(super) const MARGIN_NS: u64 = 1_000;

/// Returns a duration in nanoseconds. Saturates at what 64 bits hold, which is 584 years.
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
    fn a_deadline_on_a_tick_keeps_that_tick() {
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
            tick_ns in 1_000_u64..10_000_000_000, now_ns in 0_u64..1 << 54, delay_ns in 1_u64..1 << 54,
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
