//! The futures of the global engine, under the names that they have in `tokio::time`.

use std::future::Future;
use std::time::{Duration, Instant};

use super::{Interval, Sleep, TimeoutFuture};
use crate::timer::Timer;

/// Returns a future that is ready after `delay` from now: [`Timer::sleep`] on the
/// [global](Timer::global) engine. It does not go by
/// [Tokio's stopped clock](crate::ManualClock#tokios-stopped-clock).
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # pollster::block_on(async {
/// let begun = Instant::now();
/// tourbillon::sleep(Duration::from_millis(5)).await;
/// assert!(begun.elapsed() >= Duration::from_millis(5));
/// # });
/// ```
///
/// # Panics
/// Panics if there is no memory for the global engine: see [`Timer::global`].
pub fn sleep(delay: Duration) -> Sleep {
    Timer::global().sleep(delay)
}

/// Returns a future that is ready at a point in time: [`Timer::sleep_until`] on the
/// [global](Timer::global) engine.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # pollster::block_on(async {
/// let deadline = Instant::now() + Duration::from_millis(5);
/// tourbillon::sleep_until(deadline).await;
/// assert!(Instant::now() >= deadline);
/// # });
/// ```
///
/// # Panics
/// As for [`sleep`].
pub fn sleep_until(deadline: Instant) -> Sleep {
    Timer::global().sleep_until(deadline)
}

/// Returns a future that gives `future` a time limit: [`Timer::timeout`] on the
/// [global](Timer::global) engine.
///
/// Unlike the limit of `tokio::time::timeout` and `compat::tokio::timeout`, this one begins at the
/// first poll that is not ready. So futures in a queue do not use up their time. The limit does not
/// go by [Tokio's stopped clock](crate::ManualClock#tokios-stopped-clock).
///
/// ```
/// use std::time::Duration;
///
/// # pollster::block_on(async {
/// let limit = Duration::from_millis(5);
/// assert_eq!(tourbillon::timeout(limit, async { "answer" }).await, Ok("answer"));
/// assert!(tourbillon::timeout(limit, std::future::pending::<()>()).await.is_err());
/// # });
/// ```
///
/// # Panics
/// As for [`sleep`].
pub fn timeout<T: Future>(limit: Duration, future: T) -> TimeoutFuture<T> {
    Timer::global().timeout(limit, future)
}

/// Returns a future that gives `future` a deadline: [`Timer::timeout_at`] on the
/// [global](Timer::global) engine.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # pollster::block_on(async {
/// let deadline = Instant::now() + Duration::from_millis(5);
/// assert_eq!(tourbillon::timeout_at(deadline, async { "answer" }).await, Ok("answer"));
/// assert!(tourbillon::timeout_at(deadline, std::future::pending::<()>()).await.is_err());
/// # });
/// ```
///
/// # Panics
/// As for [`sleep`].
pub fn timeout_at<T: Future>(deadline: Instant, future: T) -> TimeoutFuture<T> {
    Timer::global().timeout_at(deadline, future)
}

/// Returns an [`Interval`], which ticks now and then once in each `period`: [`Timer::interval`] on
/// the [global](Timer::global) engine.
///
/// ```
/// use std::time::Duration;
///
/// # pollster::block_on(async {
/// let mut interval = tourbillon::interval(Duration::from_millis(2));
/// let first = interval.tick().await; // at once
/// assert_eq!(interval.tick().await - first, Duration::from_millis(2));
/// # });
/// ```
///
/// # Panics
/// Panics if the period is zero. Otherwise as for [`sleep`].
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Timer::global().interval(period)
}

/// Returns an [`Interval`] whose first tick is at a point in time: [`Timer::interval_at`] on the
/// [global](Timer::global) engine.
///
/// # Panics
/// As for [`interval`].
#[track_caller]
pub fn interval_at(first: Instant, period: Duration) -> Interval {
    Timer::global().interval_at(first, period)
}
