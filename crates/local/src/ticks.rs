//! Ticks of the wheel, and the clock that they go by.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tourbillon::Clock;
use tourbillon_wheel::NEVER;

/// A tick of the builder's has up to 2^4 of the wheel's, so that a timeout that is alone in it is
/// not late by the rest of it.
const MOST_BITS: u32 = 4;
const FINEST: Duration = Duration::from_micros(1);
/// Time is counted up to here after the engine's start: 292 years, as 63 bits count nanoseconds. A
/// deadline that does not come before never does.
pub(crate) const MOST_NS: u64 = MOST_SECONDS * 1_000_000_000;
const MOST_SECONDS: u64 = (u64::MAX >> 1) / 1_000_000_000;

/// How the wheel counts time: in ticks since the engine's start. Deadlines are rounded up, and the
/// clock is rounded down, so that nothing is early.
pub(crate) struct Ticks {
    /// `None` for the system's.
    clock: Option<Box<dyn Clock>>,
    start: Instant,
    /// The instant that was asked for last, and how long after the start it is. A loop that reads
    /// the time once a round, or that has a coarse clock, asks for the same over and over.
    last: Cell<(Instant, u64)>,
    tick_ns: u64,
    /// 2^(64 + `shift`) / `tick_ns`, rounded down, and one more: a product is several times faster
    /// than a quotient.
    inverse: u64,
    /// The largest with 2^`shift` < `tick_ns`.
    shift: u32,
    /// The last tick that comes before [`MOST_NS`].
    latest: u64,
    /// log2 of how many of the wheel's ticks one of the builder's has.
    bits: u32,
}

impl Ticks {
    /// `tick` is the builder's, of which the wheel's is a part.
    pub(crate) fn new(clock: Option<Box<dyn Clock>>, tick: Duration) -> Self {
        let bits = (0..=MOST_BITS).rev().find(|bits| tick / (1 << bits) >= FINEST).unwrap_or(0);
        let tick = tick / (1 << bits);
        let tick_ns = nanoseconds(tick).max(2);
        let start = clock.as_ref().map_or_else(Instant::now, |clock| clock.now());
        let shift = (tick_ns - 1).ilog2();
        #[expect(clippy::cast_possible_truncation, reason = "2^`shift` is less than a tick")]
        let inverse = ((1_u128 << (64 + shift)) / u128::from(tick_ns)) as u64 + 1;
        let latest = (MOST_NS - 1) / tick_ns;
        Self { clock, start, last: Cell::new((start, 0)), tick_ns, inverse, shift, latest, bits }
    }

    /// Returns how many of the wheel's ticks one of the builder's has.
    pub(crate) fn parts(&self) -> usize {
        1 << self.bits
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match &self.clock {
            None => Instant::now(),
            Some(clock) => clock.now(),
        }
    }

    /// Returns the last tick that has come.
    #[inline]
    pub(crate) fn current(&self) -> u64 {
        self.whole(self.ns_at(self.now()))
    }

    /// Returns the tick of a deadline that is so long after now. Without a delay it is the current
    /// one.
    #[inline]
    pub(crate) fn after(&self, delay: Duration) -> u64 {
        let now = self.ns_at(self.now());
        if delay.is_zero() { self.whole(now) } else { self.up(now + nanoseconds(delay)) }
    }

    /// Returns the tick of a deadline. One before the engine's start counts as that.
    #[inline]
    pub(crate) fn at(&self, deadline: Instant) -> u64 {
        self.up(self.ns_at(deadline))
    }

    /// Returns how many bits a tick has that is so far away.
    pub(crate) fn bits(&self, far: Duration) -> u32 {
        u64::BITS - self.up(nanoseconds(far)).leading_zeros()
    }

    pub(crate) fn instant(&self, tick: u64) -> Instant {
        let ns = tick.saturating_mul(self.tick_ns);
        // A clock may not reach so far.
        let reaches = |shift: u32| self.start.checked_add(Duration::from_nanos(ns >> shift));
        (0..64).find_map(reaches).unwrap_or(self.start)
    }

    #[inline]
    fn ns_at(&self, at: Instant) -> u64 {
        let (last, ns) = self.last.get();
        if at == last { ns } else { self.ns_at_another(at) }
    }

    fn ns_at_another(&self, at: Instant) -> u64 {
        let ns = nanoseconds(at.saturating_duration_since(self.start));
        self.last.set((at, ns));
        ns
    }

    /// Rounds up to a tick.
    #[inline]
    fn up(&self, ns: u64) -> u64 {
        // The first after the nanosecond before. The sum of `ns` and a tick might be too large to
        // be divided exactly.
        let tick = ns.checked_sub(1).map_or(0, |before| self.whole(before) + 1);
        if tick <= self.latest { tick } else { NEVER }
    }

    /// Returns how many whole ticks there are in `ns`: exactly up to [`MOST_NS`], and then at least
    /// as many.
    #[inline]
    fn whole(&self, ns: u64) -> u64 {
        // Granlund and Montgomery, "Division by Invariant Integers using Multiplication", 1994. The
        // product is too large, by less than 2^(64 + shift) / `tick_ns`, as that is less than 2^63.
        // So the quotient is too large by less than the part of a tick that a nanosecond is.
        (((u128::from(ns) * u128::from(self.inverse)) >> 64) as u64) >> self.shift
    }
}

/// [`MOST_NS`] at most.
#[inline]
fn nanoseconds(duration: Duration) -> u64 {
    let seconds = duration.as_secs();
    if seconds < MOST_SECONDS { seconds * 1_000_000_000 + u64::from(duration.subsec_nanos()) } else { MOST_NS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_divides_as_a_quotient_does() {
        for tick in [1_000, 1_024, 1_025, 62_500, 65_536, 999_983, 3_600_000_000_000, u64::MAX] {
            let ticks = Ticks::new(None, Duration::from_nanos(tick));
            let tick = ticks.tick_ns;
            let near = |n: u64| [n.saturating_sub(1), n, n.saturating_add(1)];
            let multiples = (0..64)
                .flat_map(|bits| near((1 << bits) / tick * tick))
                .chain((0..64).flat_map(|bits| near(1 << bits)))
                .chain((1..64).flat_map(|nth| near(MOST_NS / tick / nth * tick)));
            for ns in multiples.filter(|ns| *ns <= MOST_NS) {
                assert_eq!(ticks.whole(ns), ns / tick, "{ns} ns in ticks of {tick} ns");
                let up = ns.div_ceil(tick);
                let up = if u128::from(up) * u128::from(tick) < u128::from(MOST_NS) { up } else { NEVER };
                assert_eq!(ticks.up(ns), up, "{ns} ns in ticks of {tick} ns, rounded up");
            }
        }
    }

    #[test]
    fn a_tick_has_up_to_sixteen_fine_ones_of_a_microsecond_at_least() {
        let fine = |tick| Ticks::new(None, tick).tick_ns;
        assert_eq!(fine(Duration::from_millis(1)), 62_500);
        assert_eq!(fine(Duration::from_micros(10)), 1_250);
        assert_eq!(fine(Duration::from_micros(1)), 1_000);
    }

    #[test]
    fn time_that_is_not_counted_any_more_is_later_than_all_deadlines() {
        let last = Duration::from_nanos(MOST_NS - 1);
        assert_eq!(nanoseconds(last), MOST_NS - 1);
        assert_eq!(nanoseconds(last + Duration::from_nanos(1)), MOST_NS);
        for tick in [1_000_000, 999_983, MOST_NS / 2 + 1].map(Duration::from_nanos) {
            let ticks = Ticks::new(None, tick);
            let latest_ns = ticks.latest * ticks.tick_ns;
            assert!(latest_ns < MOST_NS && ticks.latest <= ticks.whole(MOST_NS));
            assert_eq!([0, 1].map(|ns| ticks.up(latest_ns + ns)), [ticks.latest, NEVER]);
        }
    }

    #[test]
    fn a_time_that_no_clock_reaches_is_never_and_still_an_instant() {
        let ticks = Ticks::new(None, Duration::from_millis(1));
        assert_eq!(ticks.after(Duration::MAX), NEVER);
        assert!(ticks.instant(NEVER) > Instant::now() + Duration::from_secs(1 << 30));
    }
}
