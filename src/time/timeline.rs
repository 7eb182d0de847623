//! An engine's time: a clock, a scale, and the pauses.

use std::any::Any;
use std::fmt;
use std::time::{Duration, Instant};

use super::clock::Clock;
use super::manual::ManualClock;
use super::pause::Pauses;
use super::tick::{Moment, Scale, Tick, saturating_ns};
use super::upper_bound_clock;
use crate::panics::{self, CatchUnwind};

/// The source of the engine's time: the system's monotonic clock, unless the user gave another.
pub(crate) enum Source {
    Monotonic,
    /// Stands still until somebody moves it.
    Manual(ManualClock),
    /// In a `CatchUnwind`: the thread that drops the engine's memory last may be doing something
    /// else, which a panic of the clock's destructor must not interrupt.
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

/// An engine's time: its scale, the clock that it is read from, and its pauses.
#[derive(Debug)]
pub(crate) struct Timeline {
    scale: Scale,
    source: Source,
    base: upper_bound_clock::Base,
    pauses: Pauses,
}

impl Timeline {
    /// The engine's time begins with this call.
    pub(crate) fn new(source: Source, tick: Duration) -> Self {
        // Must come before the first read of the clock, so that the start does not lie before the
        // process's base.
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

    /// Returns the clock if it is a manual one.
    pub(crate) fn as_manual(&self) -> Option<&ManualClock> {
        if let Source::Manual(clock) = &self.source { Some(clock) } else { None }
    }

    /// Returns whether the clock is the system's own, by which threads sleep.
    pub(crate) fn is_the_systems(&self) -> bool {
        matches!(self.source, Source::Monotonic)
    }

    /// Returns the clock's time, also in a pause.
    pub(crate) fn now(&self) -> Instant {
        self.source.now()
    }

    /// Returns the clock's time in nanoseconds since the start.
    fn clock_ns(&self) -> u64 {
        self.scale.ns_at(self.now())
    }

    /// Returns the exact engine time in nanoseconds since the start, without pauses. Used to decide
    /// what is due.
    pub(crate) fn now_ns(&self) -> u64 {
        self.pauses.engine_ns(|| self.clock_ns())
    }

    /// Like [`now_ns`](Self::now_ns), but returns `None` if a user's clock panics. For threads that
    /// still have a task to run, which such a panic must not lose.
    pub(crate) fn try_now_ns(&self) -> Option<u64> {
        panics::catch(|| self.now_ns())
    }

    /// Returns the engine's time, or up to a few microseconds more. Used to turn delays into
    /// deadlines: it is cheaper than the exact time, and never behind it.
    #[inline]
    fn upper_bound_ns(&self) -> u64 {
        self.pauses.engine_upper_bound_ns(|| match &self.source {
            Source::Monotonic => upper_bound_clock::ns_since(self.base),
            Source::Manual(_) | Source::Custom(_) => self.clock_ns(),
        })
    }

    /// Returns the last tick that has come.
    pub(crate) fn current_tick(&self) -> Tick {
        self.scale.tick_at(self.now_ns())
    }

    /// Returns whether a tick has come. Reads the exact time only if the upper bound says so.
    #[inline]
    pub(crate) fn has_come(&self, tick: Tick) -> bool {
        tick <= self.scale.tick_at(self.upper_bound_ns()) && tick <= self.current_tick()
    }

    /// Returns the tick of a deadline `delay` from now: see [`Scale::tick_after`].
    // Always inlined, because most callers know something about the delay.
    #[inline(always)]
    pub(crate) fn tick_after(&self, delay: Duration) -> Tick {
        self.tick_from(self.ns_before(delay), delay)
    }

    /// Returns the time that a delay counts from. For a delay of zero this is the exact time: with
    /// a time that is ahead, the tick would sometimes be one that has yet to come.
    #[inline]
    fn ns_before(&self, delay: Duration) -> u64 {
        let upper_bound_ns = self.upper_bound_ns();
        if delay.is_zero() { self.now_ns() } else { upper_bound_ns }
    }

    /// Returns the tick of a deadline `delay` after `now_ns`. In a pause, a delay of zero means the
    /// next tick: the current one has already come, and nothing that is scheduled in a pause runs
    /// in it.
    #[inline]
    fn tick_from(&self, now_ns: u64, delay: Duration) -> Tick {
        if delay.is_zero() { self.tick_at_once(now_ns) } else { self.scale.tick_after(now_ns, delay) }
    }

    #[cold]
    fn tick_at_once(&self, now_ns: u64) -> Tick {
        let tick = self.scale.tick_at(now_ns);
        if self.is_paused() { tick.next() } else { tick }
    }

    /// Like [`tick_after`](Self::tick_after), but also returns the exact time of the deadline.
    pub(crate) fn moment_after(&self, delay: Duration) -> Moment {
        let now_ns = self.ns_before(delay);
        Moment { ns: now_ns.saturating_add(saturating_ns(delay)), tick: self.tick_from(now_ns, delay) }
    }

    /// Returns a given deadline exactly, and its tick as by
    /// [`tick_at_or_now`](Self::tick_at_or_now).
    pub(crate) fn moment_at(&self, deadline: Instant) -> Moment {
        Moment { ns: self.ns_at(deadline), tick: self.tick_at_or_now(deadline) }
    }

    /// Returns the first and the last tick between two delays from now. If there is no tick between
    /// them, returns the first tick after `earliest` twice.
    pub(crate) fn ticks_between(&self, earliest: Duration, latest: Duration) -> (Tick, Tick) {
        // `earliest` counts from a time that is never behind, and `latest` from one that is never
        // ahead.
        let first = self.tick_after(earliest);
        (first, self.scale.tick_at(self.now_ns().saturating_add(saturating_ns(latest))).max(first))
    }

    /// Returns the engine's time at an instant, if no pause comes in between.
    #[inline]
    fn ns_at(&self, at: Instant) -> u64 {
        let ns = self.base.ns_to(at).unwrap_or_else(|| self.scale.ns_at(at));
        ns.saturating_sub(self.pauses.lost_ns(|| self.clock_ns()))
    }

    /// Returns the tick of a given deadline, rounded up. Reads the clock only in a pause. A
    /// deadline that has passed, and whose rounded tick has not come yet, is due with that tick.
    #[inline]
    pub(crate) fn tick_of_deadline(&self, deadline: Instant) -> Tick {
        self.scale.tick_not_before(self.ns_at(deadline))
    }

    /// Returns the tick of a given deadline, rounded up. If the deadline has passed, returns the
    /// tick that has already come.
    pub(crate) fn tick_at_or_now(&self, deadline: Instant) -> Tick {
        let deadline_ns = self.ns_at(deadline);
        // The upper bound is never behind, so a deadline after it has not passed.
        if deadline_ns > self.upper_bound_ns() {
            return self.scale.tick_not_before(deadline_ns);
        }
        let now_ns = self.now_ns();
        self.tick_from(now_ns, Duration::from_nanos(deadline_ns.saturating_sub(now_ns)))
    }

    /// Returns how long it is until a tick comes, if no pause comes in between.
    pub(crate) fn until(&self, tick: Tick) -> Duration {
        Duration::from_nanos(self.scale.ns_of(tick).saturating_sub(self.now_ns()))
    }

    /// Returns when a tick comes, if no pause comes in between.
    pub(crate) fn instant_of(&self, tick: Tick) -> Instant {
        self.instant_at(self.scale.ns_of(tick))
    }

    /// Like `instant_of`, as if there had been no pause. Reads no clock.
    pub(crate) fn instant_without_pauses(&self, tick: Tick) -> Instant {
        self.scale.instant_after(self.scale.ns_of(tick))
    }

    /// Returns when the engine's time is `ns`, if no pause comes in between.
    pub(crate) fn instant_at(&self, ns: u64) -> Instant {
        let lost_ns = self.pauses.lost_ns(|| self.clock_ns());
        self.scale.instant_after(ns.saturating_add(lost_ns))
    }

    /// Stops the engine's time. Returns `false` if it stands already.
    pub(crate) fn pause(&self) -> bool {
        self.pauses.pause(|| self.clock_ns())
    }

    /// Lets the engine's time go on. Returns `false` if it does not stand.
    pub(crate) fn resume(&self) -> bool {
        self.pauses.resume(|| self.clock_ns())
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.pauses.is_paused()
    }

    /// Returns whether time does not pass by itself now. Then somebody has to move the clock or end
    /// the pause.
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
    fn has_come_goes_by_the_exact_clock_and_not_by_the_upper_bound() {
        let timeline = Timeline::new(Source::Monotonic, Duration::from_nanos(1));
        for _ in 0..1_000 {
            let ahead = timeline.scale.tick_at(timeline.upper_bound_ns());
            while !timeline.has_come(ahead) {}
            assert!(ahead <= timeline.current_tick());
        }
    }
}
