//! The futures of `tokio::time` on this engine: `Sleep`, `Timeout` and `Interval`.

use std::error::Error;
use std::fmt;
use std::future::{Future, IntoFuture, poll_fn, ready};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use ::tokio::task::coop::{cooperative, has_budget_remaining};
use pin_project_lite::pin_project;

use super::{Duration, Instant, Leaves, MissedTickBehavior, after, begin, with_timer};
use crate::entry::MissedTicks;
use crate::future::TimeoutFuture;
use crate::time::saturating_ns;
use crate::timer::Timer;

/// Returns a future that is ready `duration` from now, like `tokio::time::sleep`.
///
/// The first poll schedules it: see [`tourbillon::Sleep`](crate::Sleep), also for when a poll may
/// wait. A duration that is too long to be counted is 30 years.
///
/// ```
/// use tourbillon::compat::tokio::{Duration, Instant, sleep};
///
/// # pollster::block_on(async {
/// let begun = Instant::now();
/// sleep(Duration::from_millis(5)).await;
/// assert!(begun.elapsed() >= Duration::from_millis(5));
/// # });
/// ```
///
/// # Panics
/// Panics if there is no memory for the global engine: see [`Timer::global`](crate::Timer::global).
/// With the feature `test-util` it panics in a current-thread runtime without `enable_time`.
/// Without the feature a debug build panics in a runtime whose clock
/// [is or was paused](super#tests).
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    // Before the engine looks at its clock: so it is not ready before this.
    let Some(deadline) = Instant::now().checked_add(duration) else { return sleep_until(after(duration)) };
    let (inner, _leaves) = with_timer(|timer| begin(timer, duration));
    Sleep { inner, deadline, _leaves }
}

/// Returns a future that is ready at a point in time, like `tokio::time::sleep_until`.
///
/// # Panics
/// As for [`sleep`].
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    let (inner, _leaves) = with_timer(|timer| timer.sleep_until(deadline.into_std()));
    Sleep { inner, deadline, _leaves }
}

/// A future that is ready at its deadline. [`sleep`] and [`sleep_until`] make it.
///
/// Like Tokio's it takes part in cooperative scheduling: a task that awaits one ready sleep after
/// the other yields now and then.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct Sleep {
    inner: crate::Sleep,
    /// As it was given. The inner one is rounded up.
    deadline: Instant,
    _leaves: Leaves,
}

impl Sleep {
    /// Returns the deadline.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns whether it has been ready, or its waker has been called. The call reads no clock.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.inner.is_elapsed()
    }

    /// Returns whether it was ready because its engine was shut down, and not at its deadline.
    pub(in crate::compat) fn ended_by_shutdown(&self) -> bool {
        self.inner.ended_by_shutdown()
    }

    /// Moves the deadline, to an earlier or a later time, also after the sleep was ready. A task
    /// that waits for it goes on waiting. To a later deadline this is one compare-and-swap.
    ///
    /// ```
    /// use tourbillon::compat::tokio::{Duration, Instant, sleep};
    ///
    /// # pollster::block_on(async {
    /// let idle = sleep(Duration::from_secs(30));
    /// tokio::pin!(idle);
    /// idle.as_mut().reset(Instant::now() + Duration::from_millis(5));
    /// idle.await;
    /// # });
    /// ```
    pub fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.deadline = deadline;
        self.inner.reset_at(deadline.into_std());
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        pin!(cooperative(&mut self.inner)).poll(context)
    }
}

/// Gives a future a time limit, like `tokio::time::timeout`. The limit counts from this call.
///
/// ```
/// use tourbillon::compat::tokio::{Duration, timeout};
///
/// # pollster::block_on(async {
/// let limit = Duration::from_millis(5);
/// assert_eq!(timeout(limit, async { "answer" }).await, Ok("answer"));
/// let elapsed = timeout(limit, std::future::pending::<()>()).await.unwrap_err();
/// assert_eq!(elapsed.to_string(), "deadline has elapsed");
/// # });
/// ```
///
/// # Panics
/// As for [`sleep`].
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::of(|timer| TimeoutFuture::begun(begin(timer, duration), future.into_future()))
}

/// Gives a future a deadline, like `tokio::time::timeout_at`.
///
/// # Panics
/// As for [`sleep`].
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout::of(|timer| timer.timeout_at(deadline.into_std(), future.into_future()))
}

pin_project! {
    /// A future with a time limit. [`timeout`] and [`timeout_at`] make it.
    ///
    /// Each poll polls the inner future first. Like Tokio's it takes part in cooperative
    /// scheduling: a task whose limits have all ended yields now and then. The limit is looked at
    /// also when the inner future has used up the task's budget.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct Timeout<T> {
        #[pin]
        inner: TimeoutFuture<T>,
        _leaves: Leaves,
    }
}

impl<T> Timeout<T> {
    #[track_caller]
    fn of(make: impl FnOnce(&Timer) -> TimeoutFuture<T>) -> Self {
        let (inner, _leaves) = with_timer(make);
        Self { inner, _leaves }
    }

    /// Returns the inner future.
    pub fn get_ref(&self) -> &T {
        self.inner.get_ref()
    }

    /// Returns the inner future, mutably.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// Returns the inner future, without the limit.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: Future> Future for Timeout<T> {
    type Output = Result<T::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let had_budget = has_budget_remaining();
        match ready!(self.project().inner.poll(context)) {
            Ok(output) => Poll::Ready(Ok(output)),
            // The inner future has used it up, and would do so each time.
            Err(_) if had_budget && !has_budget_remaining() => Poll::Ready(Err(Elapsed(()))),
            // The end of a limit costs a part of the budget. Without one the task comes back.
            Err(_) => pin!(cooperative(ready(Err(Elapsed(()))))).poll(context),
        }
    }
}

/// The limit of a [`Timeout`] ended before its future was ready.
#[derive(Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl Error for Elapsed {}

/// The error is [`io::ErrorKind::TimedOut`], with no other inside, as in Tokio.
impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> Self {
        io::ErrorKind::TimedOut.into()
    }
}

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
/// Panics if the period is zero. Otherwise as for [`sleep`].
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
