//! An engine's time: a clock, a scale, and the pauses in between.

use std::any::Any;
use std::fmt;
use std::time::{Duration, Instant};

use super::clock::Clock;
use super::manual::ManualClock;
use super::pause::Pauses;
use super::tick::{Moment, Scale, Tick, saturating_ns};
use super::upper_bound_clock;
use crate::panics::{self, CatchUnwind};

/// The engine's source of time: the system's monotonic clock unless the user gave another.
pub(crate) enum Source {
    Monotonic,
    /// It stands still until somebody moves it.
    Manual(ManualClock),
    /// Dropped by itself: whoever lets go of the engine's memory last may be in the midst of something else.
    Custom(CatchUnwind<Box<dyn Clock>>),
}

impl Source {
    pub(crate) fn custom(clock: impl Clock) -> Self {
        match (&clock as &dyn Any).downcast_ref::<ManualClock>() {
            Some(manual) => Source::Manual(manual.clone()),
            None => Source::Custom(CatchUnwind::new(Box::new(clock))),
        }
    }

    fn now(&self) -> Instant {
        match self {
            Source::Monotonic => Instant::now(),
            Source::Manual(clock) => clock.now(),
            Source::Custom(clock) => clock.now(),
        }
    }
}

/// An engine's time: its scale, the clock that it is read from, and the pauses in it.
#[derive(Debug)]
pub(crate) struct Timeline {
    scale: Scale,
    source: Source,
    base: upper_bound_clock::Base,
    pauses: Pauses,
}

impl Timeline {
    /// Begins now.
    pub(crate) fn new(source: Source, tick: Duration) -> Self {
        // Before the clock is looked at, so that the start does not lie before what all bases count from.
        upper_bound_clock::begin();
        let start = source.now();
        Self {
            scale: Scale::new(start, tick),
            source,
            base: upper_bound_clock::Base::at(start),
            pauses: Pauses::none_yet(),
        }
    }

    #[inline]
    pub(crate) fn scale(&self) -> &Scale {
        &self.scale
    }

    /// The clock, if it stands still until somebody moves it.
    pub(crate) fn as_manual(&self) -> Option<&ManualClock> {
        if let Source::Manual(clock) = &self.source { Some(clock) } else { None }
    }

    /// Whether the clock is the system's own, by which threads sleep.
    pub(crate) fn is_the_systems(&self) -> bool {
        matches!(self.source, Source::Monotonic)
    }

    /// What the clock says, also in a pause.
    pub(crate) fn now(&self) -> Instant {
        self.source.now()
    }

    /// The same in nanoseconds since the start.
    fn clock_ns(&self) -> u64 {
        self.scale.ns_at(self.now())
    }

    /// The exact time in nanoseconds since the start, pauses left out: for those who decide what is due.
    pub(crate) fn now_ns(&self) -> u64 {
        self.pauses.engine_ns(|| self.clock_ns())
    }

    /// The same for those who stand between a task and its run, which a clock of the user's that panics must not cost it: none then.
    pub(crate) fn try_now_ns(&self) -> Option<u64> {
        panics::catch(|| self.now_ns())
    }

    /// The exact time, or a few microseconds more, for those who turn delays into deadlines: cheaper, and never behind.
    #[inline]
    fn upper_bound_ns(&self) -> u64 {
        self.pauses.engine_upper_bound_ns(|| match &self.source {
            Source::Monotonic => upper_bound_clock::ns_since(self.base),
            Source::Manual(_) | Source::Custom(_) => self.clock_ns(),
        })
    }

    /// The last tick that has come.
    pub(crate) fn current_tick(&self) -> Tick {
        self.scale.tick_at(self.now_ns())
    }

    /// Whether a tick has come. Looks at the exact time only if it may have.
    #[inline]
    pub(crate) fn has_come(&self, tick: Tick) -> bool {
        tick <= self.scale.tick_at(self.upper_bound_ns()) && tick <= self.current_tick()
    }

    /// The tick of a deadline `delay` from now: see [`Scale::tick_after`].
    // Always inlined: most callers know something of the delay.
    #[inline(always)]
    pub(crate) fn tick_after(&self, delay: Duration) -> Tick {
        self.tick_from(self.ns_before(delay), delay)
    }

    /// The time that a delay counts from. By one that is ahead, no delay would now and then mean a tick that has yet to come.
    #[inline]
    fn ns_before(&self, delay: Duration) -> u64 {
        let upper_bound_ns = self.upper_bound_ns();
        if delay.is_zero() { self.now_ns() } else { upper_bound_ns }
    }

    /// The tick of a deadline `delay` after `now_ns`. In a pause no delay means the next tick: the current one has come already,
    /// and nothing that is scheduled in a pause runs in it.
    #[inline]
    fn tick_from(&self, now_ns: u64, delay: Duration) -> Tick {
        if delay.is_zero() { self.tick_at_once(now_ns) } else { self.scale.tick_after(now_ns, delay) }
    }

    #[cold]
    fn tick_at_once(&self, now_ns: u64) -> Tick {
        let tick = self.scale.tick_at(now_ns);
        if self.is_paused() { tick.next() } else { tick }
    }

    /// The same, with the exact time.
    pub(crate) fn moment_after(&self, delay: Duration) -> Moment {
        let now_ns = self.ns_before(delay);
        Moment { ns: now_ns.saturating_add(saturating_ns(delay)), tick: self.tick_from(now_ns, delay) }
    }

    /// A given deadline, exactly; its tick as by [`tick_at_or_now`](Self::tick_at_or_now).
    pub(crate) fn moment_at(&self, deadline: Instant) -> Moment {
        Moment { ns: self.ns_at(deadline), tick: self.tick_at_or_now(deadline) }
    }

    /// The first and the last tick between two delays from now; the first twice if there is none in between.
    pub(crate) fn ticks_between(&self, earliest: Duration, latest: Duration) -> (Tick, Tick) {
        // The earliest counts from a time that is never behind, the latest from one that is never ahead.
        let first = self.tick_after(earliest);
        (first, self.scale.tick_at(self.now_ns().saturating_add(saturating_ns(latest))).max(first))
    }

    /// The engine's time at a point in time, if no pause comes in between.
    #[inline]
    fn ns_at(&self, at: Instant) -> u64 {
        let ns = self.base.ns_to(at).unwrap_or_else(|| self.scale.ns_at(at));
        ns.saturating_sub(self.pauses.lost_ns(|| self.clock_ns()))
    }

    /// The tick of a given deadline, rounded up. Looks at the clock in a pause only: a deadline that has passed, but whose
    /// tick, rounded up, has not come yet, is due with that tick.
    #[inline]
    pub(crate) fn tick_of_deadline(&self, deadline: Instant) -> Tick {
        self.scale.tick_not_before(self.ns_at(deadline))
    }

    /// The tick of a given deadline: rounded up, or, if it has passed, the tick that has already come.
    pub(crate) fn tick_at_or_now(&self, deadline: Instant) -> Tick {
        let deadline_ns = self.ns_at(deadline);
        // What comes after a time that is never behind has not passed.
        if deadline_ns > self.upper_bound_ns() {
            return self.scale.tick_not_before(deadline_ns);
        }
        let now_ns = self.now_ns();
        self.tick_from(now_ns, Duration::from_nanos(deadline_ns.saturating_sub(now_ns)))
    }

    /// How long it is until a tick comes, if no pause comes in between.
    pub(crate) fn until(&self, tick: Tick) -> Duration {
        Duration::from_nanos(self.scale.ns_of(tick).saturating_sub(self.now_ns()))
    }

    /// When a tick comes, if no pause comes in between.
    pub(crate) fn instant_of(&self, tick: Tick) -> Instant {
        self.instant_at(self.scale.ns_of(tick))
    }

    /// When the engine's time is `ns`, if no pause comes in between.
    pub(crate) fn instant_at(&self, ns: u64) -> Instant {
        let lost_ns = self.pauses.lost_ns(|| self.clock_ns());
        self.scale.instant_after(ns.saturating_add(lost_ns))
    }

    /// Stops the engine's time. False if it stands already.
    pub(crate) fn pause(&self) -> bool {
        self.pauses.pause(|| self.clock_ns())
    }

    /// Lets it go on. False if it does not stand.
    pub(crate) fn resume(&self) -> bool {
        self.pauses.resume(|| self.clock_ns())
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.pauses.is_paused()
    }

    /// Whether time does not pass by itself now: somebody has to move the clock, or to end the pause.
    pub(crate) fn stands_still(&self) -> bool {
        self.as_manual().is_some() || self.is_paused()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Monotonic => "Monotonic",
            Source::Manual(_) => "Manual",
            Source::Custom(_) => "Custom",
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_delay_is_a_tick_that_has_come() {
        let timeline = Timeline::new(Source::Monotonic, Duration::from_nanos(1));
        for _ in 0..1_000 {
            let at_once = timeline.tick_after(Duration::ZERO);
            assert!(at_once <= timeline.current_tick());
            assert!(timeline.tick_after(Duration::from_nanos(1)) > at_once);
        }
    }

    #[test]
    fn a_tick_has_come_by_the_exact_clock_and_not_by_the_one_that_is_ahead() {
        let timeline = Timeline::new(Source::Monotonic, Duration::from_nanos(1));
        for _ in 0..1_000 {
            let ahead = timeline.scale.tick_at(timeline.upper_bound_ns());
            while !timeline.has_come(ahead) {}
            assert!(ahead <= timeline.current_tick());
        }
    }
}
