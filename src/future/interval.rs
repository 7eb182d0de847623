//! Ticks at a fixed rate, for async code.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::sleep::Sleep;
use crate::entry::MissedTicks;
use crate::time::{Moment, saturating_ns};
use crate::timer::Timer;

/// Ticks at a fixed rate. [`Timer::interval`] and [`Timer::interval_at`] make it.
///
/// The k-th tick is due k periods after the first one, however long the caller takes between ticks.
/// So an interval does not drift. [`set_missed_ticks`](Self::set_missed_ticks) chooses what happens
/// to ticks that are missed. With the feature `stream` an interval is a `Stream`.
///
/// If the engine is shut down while a tick is awaited, that tick comes at once
/// ([`ended_by_shutdown`](Self::ended_by_shutdown)), and the stream ends. Ticks that are awaited
/// afterwards come when they are due.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let mut beat = timer.interval(Duration::from_millis(10));
/// pollster::block_on(async {
///     let first = beat.tick().await; // at once
///     let second = beat.tick().await;
///     assert_eq!(second - first, beat.period());
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "an Interval does nothing unless its ticks are awaited or polled"]
pub struct Interval {
    sleep: Sleep,
    /// When the next tick is due, exactly, in nanoseconds of the engine's time.
    due_ns: u64,
    period: Duration,
    missed: MissedTicks,
    ended_by_shutdown: bool,
}

impl Interval {
    #[track_caller]
    pub(super) fn new(timer: &Timer, first: Moment, period: Duration) -> Self {
        assert!(!period.is_zero(), "the period of an interval is zero: give it one of at least a nanosecond");
        Self {
            sleep: Sleep::until(timer.engine_ref(), first.deadline),
            due_ns: first.ns,
            period,
            missed: MissedTicks::default(),
            ended_by_shutdown: false,
        }
    }

    /// Waits for the next tick, and returns when it was due.
    ///
    /// The returned time is that of the schedule, and not the time at which the tick was noticed,
    /// which is never before it. The future can be dropped and the call repeated without losing a
    /// tick. It waits as a task does, and not as a thread. (A poll may wait as that of a
    /// [`Sleep`](crate::Sleep) may.)
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// Polls for the next tick. It is [`tick`](Self::tick) for futures that are written by hand.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        Pin::new(&mut self.sleep).poll(context).map(|()| {
            self.ended_by_shutdown |= self.sleep.ended_by_shutdown();
            let timeline = self.sleep.timeline();
            let due = timeline.scale().instant_after(self.due_ns);
            let next_ns = self.missed.next_ns(saturating_ns(self.period), self.due_ns, timeline.now_ns());
            let deadline = timeline.scale().subtick_not_before(next_ns);
            self.go_on(Moment { ns: next_ns, deadline });
            due
        })
    }

    fn go_on(&mut self, at: Moment) {
        self.due_ns = at.ns;
        self.sleep.move_to(at.deadline, true);
    }

    /// Returns whether a tick came before it was due because the engine was shut down. As a stream,
    /// the interval has ended then. Otherwise it goes on, and each tick comes when it is due.
    #[must_use]
    pub fn ended_by_shutdown(&self) -> bool {
        self.ended_by_shutdown
    }

    /// Returns the time between two ticks.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns what happens to ticks that are missed.
    #[must_use]
    pub fn missed_ticks(&self) -> MissedTicks {
        self.missed
    }

    /// Sets what happens to ticks that are missed because no caller awaited them, from the next
    /// tick on. The default is to [skip](MissedTicks::Skip) them. Tokio's intervals burst by
    /// default.
    pub fn set_missed_ticks(&mut self, missed: MissedTicks) {
        self.missed = missed;
    }

    /// Moves the next tick to one period from now. Later ticks follow from there.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Moves the next tick to now. Later ticks follow from there.
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// Moves the next tick to `delay` from now. Later ticks follow from there.
    pub fn reset_after(&mut self, delay: Duration) {
        self.go_on(self.sleep.timeline().moment_after(delay));
    }

    /// Moves the next tick to a point in time. Later ticks follow from there. If that time has
    /// passed, the tick comes at once, and returns that time. A time before the engine's start
    /// counts as that start.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.go_on(self.sleep.timeline().moment_at(deadline));
    }
}
