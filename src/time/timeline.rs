//! An engine's time: a clock and a scale.

use std::any::Any;
use std::sync::Weak;
use std::time::{Duration, Instant};

use super::clock::{Clock, Follower};
use super::manual::ManualClock;
use super::pausable::PausableClock;
use super::tick::{Moment, Scale, Subtick, saturating_ns};
use super::upper_bound_clock::{self, UpperBound};
use crate::panics::{self, CatchUnwind};

/// A clock that the user gave.
#[derive(Debug)]
pub(crate) struct CustomClock {
    /// In a `CatchUnwind`: the thread that drops the engine's memory last may be doing something
    /// else, which a panic of the clock's destructor must not interrupt.
    clock: CatchUnwind<Box<dyn Clock>>,
    /// The same, if somebody moves it by hand, also below a clock that can be stopped.
    manual: Option<ManualClock>,
    /// The same, if it can be stopped.
    pausable: Option<PausableClock>,
}

impl CustomClock {
    pub(crate) fn new(clock: impl Clock) -> Self {
        let any: &dyn Any = &clock;
        let pausable = any.downcast_ref::<PausableClock>().cloned();
        let below = pausable.as_ref().and_then(PausableClock::manual);
        let manual = any.downcast_ref::<ManualClock>().or(below).cloned();
        Self { clock: CatchUnwind::new(Box::new(clock)), manual, pausable }
    }
}

/// An engine's time: its scale, and the clock that it is read from.
#[derive(Debug)]
pub(crate) struct Timeline {
    scale: Scale,
    /// By default the engine goes by the system's monotonic clock.
    custom: Option<CustomClock>,
    /// The start, for an [`UpperBound`]. Not used with a clock of the user's.
    start_ns: u64,
}

impl Timeline {
    /// The engine's time begins with this call.
    pub(crate) fn new(custom: Option<CustomClock>, tick: Duration) -> Self {
        // Must come before the first read of the clock, so that the start does not lie before the
        // process's base.
        upper_bound_clock::begin();
        let start = now(custom.as_ref());
        Self { scale: Scale::new(start, tick), custom, start_ns: upper_bound_clock::ns_at(start) }
    }

    #[inline]
    pub(crate) fn scale(&self) -> &Scale {
        &self.scale
    }

    /// Returns the clock if it is a manual one.
    pub(crate) fn as_manual(&self) -> Option<&ManualClock> {
        self.custom.as_ref()?.manual.as_ref()
    }

    /// Has the clock tell an engine when it has moved otherwise than the real one. A manual clock
    /// does not tell a driven engine: the caller that moves the clock turns the driver, too.
    pub(crate) fn tell<E: Follower + 'static>(&self, engine: Weak<E>, is_driven: bool) {
        let Some(CustomClock { clock, manual, pausable }) = &self.custom else { return };
        if let Some(manual) = manual.as_ref().filter(|_| !is_driven) {
            manual.follow(Weak::<E>::clone(&engine));
        }
        if manual.is_none() || pausable.is_some() {
            clock.subscribe(engine);
        }
    }

    /// Returns whether the clock is the system's own, by which threads sleep.
    pub(crate) fn is_the_systems(&self) -> bool {
        self.custom.is_none()
    }

    /// Returns the clock's time.
    pub(crate) fn now(&self) -> Instant {
        now(self.custom.as_ref())
    }

    /// Returns the exact time in nanoseconds since the start. Used to decide what is due.
    pub(crate) fn now_ns(&self) -> u64 {
        self.scale.ns_at(self.now())
    }

    /// Like [`now_ns`](Self::now_ns), but returns `None` if a user's clock panics. For threads that
    /// still have a task to run, which such a panic must not lose.
    pub(crate) fn try_now_ns(&self) -> Option<u64> {
        panics::catch(|| self.now_ns())
    }

    /// Returns the engine's time, or up to a few microseconds more. Used to turn delays into
    /// deadlines: it is cheaper than the exact time, and never behind it. `look` looks at the
    /// system's clock; another clock is read exactly.
    #[inline(always)]
    fn upper_bound_ns(&self, look: impl FnOnce() -> UpperBound) -> u64 {
        if self.is_the_systems() { look().ns_since(self.start_ns) } else { self.ns_by_clock() }
    }

    #[cold]
    #[inline(never)]
    fn ns_by_clock(&self) -> u64 {
        self.now_ns()
    }

    /// Returns what has come by now: the last subtick.
    // Not inlined into the poll of a sleep, which seldom asks.
    #[inline(never)]
    pub(crate) fn current(&self) -> Subtick {
        self.scale.subtick_at(self.now_ns())
    }

    /// Like [`current`](Self::current), but returns the start if the clock is moved by hand, or
    /// panics.
    pub(crate) fn current_by_itself(&self) -> Subtick {
        let now_ns = if self.as_manual().is_some() { None } else { self.try_now_ns() };
        now_ns.map_or(Subtick::ZERO, |now_ns| self.scale.subtick_at(now_ns))
    }

    /// Returns whether a deadline has come. Reads the exact time only if the upper bound says so.
    #[inline]
    pub(crate) fn has_come(&self, deadline: Subtick) -> bool {
        deadline <= self.scale.subtick_at(self.upper_bound_ns(UpperBound::look)) && deadline <= self.current()
    }

    /// Returns whether a timeout must not wait until `wake_at`, which is later than its deadline.
    /// It may if both are in one tick, and the deadline is not now. (A time that has just passed is
    /// rounded up to the next subtick.) Never is in no tick: a sleep until then has no end. Reads
    /// no clock of the user's: the caller may be about to return to the user, and such a clock may
    /// panic.
    #[cold]
    #[inline(never)]
    pub(crate) fn must_run_before(&self, wake_at: Subtick, deadline: Subtick) -> bool {
        let shares_its_tick = wake_at < Subtick::NEVER && self.scale.tick_of(deadline) == self.scale.tick_of(wake_at);
        !shares_its_tick || !self.is_the_systems() || self.has_come(deadline.before())
    }

    /// Returns the deadline `delay` from now, rounded up. A delay of zero means the tick that has
    /// come.
    // Always inlined, because most callers know something about the delay.
    #[inline(always)]
    pub(crate) fn deadline_after(&self, delay: Duration) -> Subtick {
        self.moment_after(delay).deadline
    }

    /// Like [`deadline_after`](Self::deadline_after), but also returns the exact time of the
    /// deadline.
    #[inline(always)]
    pub(crate) fn moment_after(&self, delay: Duration) -> Moment {
        self.moment_by(UpperBound::look, delay)
    }

    /// Like [`moment_after`](Self::moment_after), with a look at the clock of the caller's choice.
    /// It does for the system's clock. By another this looks by itself.
    #[inline(always)]
    pub(crate) fn moment_by(&self, look: impl FnOnce() -> UpperBound, delay: Duration) -> Moment {
        match saturating_ns(delay) {
            0 => self.moment_at_once(),
            delay_ns => {
                let ns = self.upper_bound_ns(look) + delay_ns;
                Moment { ns, deadline: self.scale.subtick_not_before(ns) }
            }
        }
    }

    /// By the exact time: with a time that is ahead, the deadline would sometimes be one that has
    /// yet to come.
    #[cold]
    #[inline(never)]
    fn moment_at_once(&self) -> Moment {
        let ns = self.now_ns();
        Moment { ns, deadline: self.scale.tick_at(ns) }
    }

    /// Returns a given time exactly, and as a deadline as by [`deadline_at`](Self::deadline_at).
    pub(crate) fn moment_at(&self, at: Instant) -> Moment {
        Moment { ns: self.scale.ns_at(at), deadline: self.deadline_at(at) }
    }

    /// Returns a given time as a deadline, rounded up. Reads a clock of the user's only.
    ///
    /// A time that has passed becomes a deadline that has passed, or one that comes within a
    /// subtick. By a clock that stands still that subtick might never come. So there, a time that
    /// has passed becomes the tick that has already come.
    #[inline(always)]
    pub(crate) fn deadline_at(&self, at: Instant) -> Subtick {
        let scale = &self.scale;
        if self.is_the_systems() { scale.subtick_not_before(scale.ns_at(at)) } else { self.deadline_by_clock(at) }
    }

    #[cold]
    #[inline(never)]
    fn deadline_by_clock(&self, at: Instant) -> Subtick {
        // Not by nanoseconds: these stand still in the end, and a time to come would be one of now.
        let (scale, now) = (&self.scale, self.now());
        if at > now { scale.subtick_not_before(scale.ns_at(at)) } else { scale.tick_at(scale.ns_at(now)) }
    }

    /// Returns how long it is until a deadline.
    pub(crate) fn until(&self, deadline: Subtick) -> Duration {
        Duration::from_nanos(self.scale.ns_of(deadline).saturating_sub(self.now_ns()))
    }

    /// Returns when a deadline comes. Reads no clock.
    pub(crate) fn instant_of(&self, deadline: Subtick) -> Instant {
        self.scale.instant_after(self.scale.ns_of(deadline))
    }

    pub(crate) fn is_paused(&self) -> bool {
        let pausable = self.custom.as_ref().and_then(|custom| custom.pausable.as_ref());
        pausable.is_some_and(PausableClock::is_paused)
    }

    /// Returns whether time does not pass by itself now. Then somebody has to move the clock or end
    /// the pause.
    pub(crate) fn stands_still(&self) -> bool {
        self.as_manual().is_some() || self.is_paused()
    }
}

fn now(custom: Option<&CustomClock>) -> Instant {
    custom.map_or_else(Instant::now, |custom| custom.clock.now())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::time::MOST_NS;

    #[test]
    fn no_delay_is_a_tick_that_has_come() {
        let timeline = Timeline::new(None, Duration::from_micros(3));
        for _ in 0..1_000 {
            let at_once = timeline.deadline_after(Duration::ZERO);
            assert!(at_once <= timeline.current());
            assert!(timeline.deadline_after(Duration::from_nanos(1)) > at_once);
        }
    }

    #[test]
    fn has_come_goes_by_the_exact_clock_and_not_by_the_upper_bound() {
        let timeline = Timeline::new(None, Duration::from_nanos(1));
        for _ in 0..1_000 {
            let ahead = timeline.scale.subtick_at(timeline.upper_bound_ns(UpperBound::look));
            while !timeline.has_come(ahead) {}
            assert!(ahead <= timeline.current());
        }
    }

    #[test]
    fn a_timeout_waits_for_others_of_its_tick_only_if_it_is_to_come_and_they_ever_come() {
        let timeline = Timeline::new(None, Duration::from_secs(1 << 25));
        let at = |tick: u64, place| Subtick::new(16 * (tick - 1) + place);
        assert!(!timeline.must_run_before(at(1, 3), at(1, 2)));
        assert!(timeline.must_run_before(at(2, 1), at(1, 16)), "they are in the next tick");
        assert!(timeline.must_run_before(at(1, 3), at(1, 1)), "a time of now");
        assert!(timeline.must_run_before(Subtick::NEVER, Subtick::NEVER.before()), "a sleep without end");
    }

    #[test]
    fn a_time_that_has_passed_is_due_at_once_by_a_clock_that_stands_still() {
        let clock = ManualClock::new();
        let timeline = Timeline::new(Some(CustomClock::new(clock.clone())), Duration::from_millis(1));
        clock.advance(Duration::from_nanos(1_500_100));
        for at in [clock.now(), clock.now() - Duration::from_nanos(1)] {
            assert!(timeline.deadline_at(at) <= timeline.current());
        }
        assert!(timeline.deadline_at(clock.now() + Duration::from_nanos(1)) > timeline.current());
    }

    #[test]
    fn a_manual_clock_ends_with_the_last_time_that_is_counted() {
        let clock = ManualClock::new();
        let timeline = Timeline::new(Some(CustomClock::new(clock.clone())), Duration::from_millis(1));
        clock.advance(Duration::MAX);
        assert_eq!((timeline.now_ns(), clock.now()), (MOST_NS - 1, timeline.scale.instant_after(MOST_NS - 1)));
        assert!(timeline.deadline_at(clock.now()) <= timeline.current(), "it has passed");
        assert_eq!(timeline.deadline_at(clock.now() + Duration::from_nanos(1)), Subtick::NEVER);
    }
}
