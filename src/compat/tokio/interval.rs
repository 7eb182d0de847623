//! `tokio::time::Interval` on this engine.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::after;
use super::sleep::{Sleep, sleep_until};
use super::{Duration, Instant, MissedTickBehavior};
use crate::entry::MissedTicks;
use crate::time::saturating_ns;

/// A tick that is noticed so late has not been missed: Tokio gives its timer's rounding and the
/// scheduler that much.
const GRACE: Duration = Duration::from_millis(5);

/// Returns an [`Interval`] whose first tick is now, like `tokio::time::interval`.
///
/// ```
/// use tourbillon::compat::tokio::{Duration, interval};
///
/// # pollster::block_on(async {
/// let mut beat = interval(Duration::from_millis(2));
/// let first = beat.tick().await; // at once
/// assert_eq!(beat.tick().await - first, Duration::from_millis(2));
/// # });
/// ```
///
/// # Panics
/// Panics if the period is zero. Otherwise as for [`sleep`](super::sleep).
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Returns an [`Interval`] whose first tick is at `start`, like `tokio::time::interval_at`.
///
/// # Panics
/// As for [`interval`].
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "the period of an interval is zero: give it one of at least a nanosecond");
    Interval { sleep: sleep_until(start), period, behavior: MissedTickBehavior::Burst }
}

/// Ticks once in each period. [`interval`] and [`interval_at`] make it.
///
/// Ticks that are missed come in a [burst](MissedTickBehavior::Burst), unless
/// [`set_missed_tick_behavior`](Self::set_missed_tick_behavior) says otherwise.
#[derive(Debug)]
#[must_use = "an Interval does nothing unless its ticks are awaited or polled"]
pub struct Interval {
    /// Its deadline is that of the next tick.
    sleep: Sleep,
    period: Duration,
    behavior: MissedTickBehavior,
}

impl Interval {
    /// Waits for the next tick, and returns when it was due. The future can be dropped, and the
    /// call repeated, without losing a tick.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// Polls for the next tick. If it returns a tick, no waker is registered for the next one.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        ready!(Pin::new(&mut self.sleep).poll(context));
        let due = self.sleep.deadline();
        self.reset_at(self.next(due, Instant::now()));
        Poll::Ready(due)
    }

    /// Returns when the tick after the one of `due` is due, if that was noticed at `now`.
    fn next(&self, due: Instant, now: Instant) -> Instant {
        let late = now.saturating_duration_since(due);
        let next = match self.behavior {
            MissedTickBehavior::Delay if late > GRACE => now.checked_add(self.period),
            MissedTickBehavior::Skip if late > GRACE && late >= self.period => {
                let next_ns = MissedTicks::Skip.next_ns(saturating_ns(self.period), 0, saturating_ns(late));
                due.checked_add(Duration::from_nanos(next_ns))
            }
            _ => due.checked_add(self.period),
        };
        next.unwrap_or_else(|| after(Duration::MAX))
    }

    /// Moves the next tick to one period from now.
    pub fn reset(&mut self) {
        self.reset_at(after(self.period));
    }

    /// Moves the next tick to now.
    pub fn reset_immediately(&mut self) {
        self.reset_at(Instant::now());
    }

    /// Moves the next tick to `delay` from now. Later ticks follow a period apart.
    pub fn reset_after(&mut self, delay: Duration) {
        self.reset_at(after(delay));
    }

    /// Moves the next tick to a point in time. Later ticks follow a period apart.
    pub fn reset_at(&mut self, deadline: Instant) {
        Pin::new(&mut self.sleep).reset(deadline);
    }

    /// Returns what happens to ticks that are missed.
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.behavior
    }

    /// Sets what happens to ticks that are missed, from the next tick on.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.behavior = behavior;
    }

    /// Returns the time between two ticks.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }
}
