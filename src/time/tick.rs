//! Ticks, their parts, and all rounding between these and instants. No other module rounds.
//! Deadlines are rounded up.

use std::time::{Duration, Instant};

/// A point in time since the engine's start, in parts of a tick: see [`Scale`]. Saturates at
/// [`Subtick::NEVER`], which is later than all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Subtick(u64);

impl Subtick {
    /// A deadline that never comes. Subticks are 54 bits wide, because the state word needs 10 bits
    /// for itself. A subtick is at least 1 µs long, so there are fewer in [`MOST_NS`].
    pub(crate) const NEVER: Subtick = Subtick(u64::MAX >> 10);
    pub(crate) const ZERO: Subtick = Subtick(0);

    /// Returns the subtick with this number, or [`NEVER`](Self::NEVER) if the number is too large.
    #[inline]
    pub(crate) const fn new(subticks: u64) -> Self {
        if subticks < Self::NEVER.0 { Self(subticks) } else { Self::NEVER }
    }

    #[inline]
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn next(self) -> Self {
        Self::new(self.0 + 1)
    }

    pub(crate) fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// A point in time, exactly, and as a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Nanoseconds since the engine's start.
    pub(crate) ns: u64,
    /// The same time, rounded up.
    pub(crate) deadline: Subtick,
}

/// A tick has at most 16 subticks. More would be more slots to go through.
const MAX_BITS: u32 = 4;
/// A subtick is at least as long, unless the tick is shorter. A thread takes longer to wake up.
const FINEST_NS: u64 = 25_000;

/// Time is counted up to here after the engine's start, and stands still then: 292 years, as 63
/// bits count nanoseconds. A deadline that does not come before never does.
pub(crate) const MOST_NS: u64 = MOST_SECONDS * 1_000_000_000;
const MOST_SECONDS: u64 = (u64::MAX >> 1) / 1_000_000_000;

/// The engine's time scale: when tick zero was, how long a tick is, and how it is divided. Time is
/// counted in nanoseconds since that start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    start: Instant,
    tick_ns: u64,
    /// A tick is divided into 2^`bits` subticks, and has come with its last one. So tick `t` is
    /// made up of the subticks after (`t` - 1)·2^`bits`, up to and with `t`·2^`bits`.
    bits: u32,
    /// How long a subtick is: a whole number of nanoseconds, so that nothing has to be rounded.
    subtick_ns: u64,
    /// With `shift`, replaces a division by `subtick_ns` by a multiplication: see
    /// [`subticks_in`](Self::subticks_in).
    reciprocal: u64,
    shift: u32,
    /// The last subtick that comes before [`MOST_NS`].
    last: u64,
}

impl Scale {
    /// `tick` is at least 1 µs. The builder has checked that.
    pub(crate) fn new(start: Instant, tick: Duration) -> Self {
        let tick_ns = saturating_ns(tick).max(1_000);
        let most_bits = MAX_BITS.min(tick_ns.trailing_zeros());
        let bits = (tick_ns / FINEST_NS).checked_ilog2().unwrap_or(0).min(most_bits);
        let subtick_ns = tick_ns >> bits;
        let shift = (subtick_ns - 1).ilog2();
        #[expect(clippy::cast_possible_truncation, reason = "2^`shift` is less than a subtick")]
        let reciprocal = ((1_u128 << (64 + shift)) / u128::from(subtick_ns)) as u64 + 1;
        Self { start, tick_ns, bits, subtick_ns, reciprocal, shift, last: (MOST_NS - 1) / subtick_ns }
    }

    pub(crate) fn tick_duration(&self) -> Duration {
        Duration::from_nanos(self.tick_ns)
    }

    /// Returns how many subticks a tick has.
    pub(crate) fn subticks(&self) -> usize {
        1 << self.bits
    }

    /// Returns the tick that a subtick is a part of: the first one that does not come before it.
    #[inline]
    pub(crate) fn tick_of(&self, subtick: Subtick) -> u64 {
        // No overflow: a subtick has 54 bits.
        (subtick.0 + ((1 << self.bits) - 1)) >> self.bits
    }

    /// Returns the last tick that has come by then.
    #[inline]
    pub(crate) fn last_tick(&self, now: Subtick) -> u64 {
        now.0 >> self.bits
    }

    /// Returns the subtick with which a tick has come, its last one.
    #[inline]
    pub(crate) fn end(&self, tick: u64) -> Subtick {
        // No overflow: a tick is that of a subtick, which has 54 bits.
        Subtick::new(tick << self.bits)
    }

    /// Returns the end of the tick that a subtick is a part of.
    pub(crate) fn end_of_tick(&self, subtick: Subtick) -> Subtick {
        self.end(self.tick_of(subtick))
    }

    /// Nanoseconds since the start: 0 for an instant before it, and [`MOST_NS`] at most.
    #[inline]
    pub(crate) fn ns_at(&self, at: Instant) -> u64 {
        saturating_ns(at.saturating_duration_since(self.start))
    }

    /// Returns how many whole subticks there are in `ns`: exactly up to [`MOST_NS`], and then at
    /// least as many.
    /// The method is that of Granlund and Montgomery ("Division by invariant integers using
    /// multiplication", theorem 4.2). `shift` is one less than the binary logarithm of
    /// `subtick_ns`, rounded up, and `reciprocal` is the next whole number above 2^(64 + `shift`) /
    /// `subtick_ns`. With these the result is exact.
    #[inline]
    fn subticks_in(&self, ns: u64) -> u64 {
        ((u128::from(ns) * u128::from(self.reciprocal)) >> 64) as u64 >> self.shift
    }

    /// Returns the last subtick that has come by `now_ns`. [`Subtick::NEVER`] does not come.
    #[inline]
    pub(crate) fn subtick_at(&self, now_ns: u64) -> Subtick {
        Subtick(self.subticks_in(now_ns.min(MOST_NS)))
    }

    /// Returns the last subtick of the last tick that has come by `now_ns`. It is due at once, and
    /// before all that is due within the tick to come.
    #[inline]
    pub(crate) fn tick_at(&self, now_ns: u64) -> Subtick {
        self.end(self.last_tick(self.subtick_at(now_ns)))
    }

    /// Returns the first subtick that does not come before `ns`: a deadline is rounded up, so that
    /// it is never early, and one that lies on a subtick stays there.
    // Always inlined, for callers that know something about the time.
    #[inline(always)]
    pub(crate) fn subtick_not_before(&self, ns: u64) -> Subtick {
        // The first after the nanosecond before. The sum of `ns` and a subtick might be too large
        // to be divided exactly.
        let subtick = ns.checked_sub(1).map_or(0, |before| self.subticks_in(before) + 1);
        if subtick <= self.last { Subtick(subtick) } else { Subtick::NEVER }
    }

    /// Returns when a subtick comes, in nanoseconds since the start. [`Subtick::NEVER`] is
    /// centuries behind [`MOST_NS`].
    // Without the first case the loop over what is due is compiled to twelve instructions more.
    pub(crate) fn ns_of(&self, subtick: Subtick) -> u64 {
        if subtick == Subtick::NEVER { u64::MAX } else { subtick.0.saturating_mul(self.subtick_ns) }
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

/// The upper bound clock adds this to a reading of the monotonic clock.
pub(super) const MARGIN_NS: u64 = 1_000;

/// Returns a duration in nanoseconds, [`MOST_NS`] at most.
#[inline]
pub(crate) fn saturating_ns(duration: Duration) -> u64 {
    let seconds = duration.as_secs();
    if seconds < MOST_SECONDS { seconds * 1_000_000_000 + u64::from(duration.subsec_nanos()) } else { MOST_NS }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_deadline_on_a_tick_is_the_last_part_of_that_tick() {
        let scale = Scale::new(Instant::now(), MS);
        assert_eq!(scale.subticks(), 16);
        assert_eq!(scale.subtick_not_before(7_000_000), scale.end(7));
        assert_eq!(scale.subtick_not_before(10_000_000), scale.end(10));
        assert_eq!(scale.subtick_not_before(7_000_001), scale.end(7).next());
        assert_eq!(scale.ns_of(scale.end(7)), 7_000_000);
        assert_eq!(scale.ns_of(scale.end(7).next()), 7_062_500, "a 16th of a tick");
    }

    #[test]
    fn the_tick_that_has_come_and_past_deadlines_are_due_at_once() {
        let start = Instant::now();
        let scale = Scale::new(start, MS);
        assert_eq!(scale.tick_at(10_900_005), scale.end(10));
        assert_eq!(scale.subtick_not_before(scale.ns_at(start)), Subtick::ZERO);
        assert_eq!(scale.subtick_not_before(scale.ns_at(start - MS)), Subtick::ZERO);
    }

    #[test]
    fn a_subtick_is_not_finer_than_a_thread_can_wake_up() {
        let bits = |tick_ns| Scale::new(Instant::now(), Duration::from_nanos(tick_ns)).bits;
        assert_eq!([1_000, 25_000, 50_000, 399_992, 400_000, 1_000_000_000].map(bits), [0, 0, 1, 3, 4, 4]);
        assert_eq!([16_666_667, 16_666_668].map(bits), [0, 2], "a part is a whole number of nanoseconds");
    }

    #[test]
    fn far_deadlines_saturate_to_never_and_stay_an_instant() {
        let start = Instant::now();
        for tick in [Duration::from_micros(1), MS, Duration::from_secs(1 << 40), Duration::MAX] {
            let scale = Scale::new(start, tick);
            assert_eq!(scale.subtick_not_before(saturating_ns(Duration::MAX)), Subtick::NEVER);
            assert!(scale.instant_after(scale.ns_of(Subtick::NEVER)) > start);
        }
    }

    #[test]
    fn time_that_is_not_counted_any_more_is_later_than_all_deadlines() {
        let last = Duration::from_nanos(MOST_NS - 1);
        assert_eq!(saturating_ns(last), MOST_NS - 1);
        assert_eq!([1, 2].map(|ns| saturating_ns(last + Duration::from_nanos(ns))), [MOST_NS; 2]);
        for tick in [MS, Duration::from_nanos(1_100), Duration::from_nanos(MOST_NS / 2 + 1)] {
            let scale = Scale::new(Instant::now(), tick);
            let latest = Subtick(scale.last);
            assert!(latest <= scale.subtick_at(MOST_NS) && scale.ns_of(latest) < MOST_NS);
            assert_eq!([0, 1].map(|ns| scale.subtick_not_before(scale.ns_of(latest) + ns)), [latest, Subtick::NEVER]);
            assert!(scale.ns_of(Subtick::NEVER) > MOST_NS);
        }
    }

    #[test]
    fn never_does_not_come() {
        let scale = Scale::new(Instant::now(), Duration::from_micros(1));
        for now_ns in [MOST_NS, MOST_NS + 1, u64::MAX] {
            assert!(scale.subtick_at(now_ns) < Subtick::NEVER);
            assert_eq!(scale.subtick_not_before(now_ns), Subtick::NEVER);
        }
    }

    proptest! {
        #[test]
        fn division_by_the_reciprocal_is_division(ns in any::<u64>(), tick in any::<u64>(), shift in 0_u32..54) {
            let scale = Scale::new(Instant::now(), Duration::from_nanos(tick >> shift));
            let subtick = scale.subtick_ns;
            prop_assert_eq!(subtick << scale.bits, scale.tick_ns);
            let last = MOST_NS / subtick * subtick;
            let around_last = [last.saturating_sub(1), last, last + 1];
            for ns in [ns, ns >> shift, u64::MAX, MOST_NS, MOST_NS - subtick, 0].into_iter().chain(around_last) {
                prop_assert_eq!(scale.subtick_at(ns).get(), ns.min(MOST_NS) / subtick);
                let up = ns.div_ceil(subtick);
                let comes = u128::from(up) * u128::from(subtick) < u128::from(MOST_NS);
                let up = if comes { Subtick::new(up) } else { Subtick::NEVER };
                prop_assert_eq!(scale.subtick_not_before(ns), up);
            }
        }

        #[test]
        fn a_subtick_never_comes_before_its_deadline_and_less_than_a_subtick_after(
            tick_ns in 1_000_u64..10_000_000_000, now_ns in 0_u64..1 << 54, delay_ns in 1_u64..1 << 54,
        ) {
            let start = Instant::now();
            let scale = Scale::new(start, Duration::from_nanos(tick_ns));
            let now = start + Duration::from_nanos(now_ns);
            let deadline = now + Duration::from_nanos(delay_ns);
            let subtick = scale.subtick_not_before(now_ns + delay_ns);
            prop_assert_eq!(subtick, scale.subtick_not_before(scale.ns_at(deadline)));
            let comes = scale.instant_after(scale.ns_of(subtick));
            prop_assert!(comes >= deadline);
            prop_assert!(comes - deadline < Duration::from_nanos(scale.subtick_ns));
            prop_assert_eq!(scale.subtick_at(scale.ns_at(comes)), subtick);
            prop_assert!(scale.subtick_at(scale.ns_at(comes) - 1) < subtick);
        }

        #[test]
        fn a_subtick_lies_in_one_tick(subtick in 0_u64..1 << 54, bits in 0_u32..=MAX_BITS) {
            let subtick = Subtick::new(subtick);
            let scale = Scale::new(Instant::now(), Duration::from_nanos(FINEST_NS << bits));
            prop_assert_eq!(scale.bits, bits);
            let tick = scale.tick_of(subtick);
            prop_assert!(subtick <= scale.end(tick) && (tick == 0 || subtick > scale.end(tick - 1)));
            prop_assert_eq!(scale.last_tick(subtick), tick - u64::from(subtick < scale.end(tick)));
        }
    }
}
