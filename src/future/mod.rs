//! Timeouts for async code, with any runtime or none. They need only the engine, whose workers call
//! the wakers.

mod interval;
mod sleep;
mod timeout_future;

use std::future::Future;
use std::time::{Duration, Instant};

pub use interval::Interval;
pub use sleep::Sleep;
pub use timeout_future::{Elapsed, TimeoutFuture};

use crate::timer::Timer;
use timeout_future::Limit;

impl Timer {
    /// Returns a future that is ready after `delay` from now. See [`Sleep`].
    ///
    /// The future is never ready early. The call takes no memory for a timeout: the first poll
    /// schedules it. It goes by the engine's clock, and not by
    /// [Tokio's](crate::ManualClock#tokios-stopped-clock), which a test may have stopped.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # pollster::block_on(async {
    /// let timer = Timer::new()?;
    /// let begun = Instant::now();
    /// timer.sleep(Duration::from_millis(5)).await;
    /// assert!(begun.elapsed() >= Duration::from_millis(5));
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    pub fn sleep(&self, delay: Duration) -> Sleep {
        Sleep::until(self.engine_ref(), self.timeline().deadline_after(delay))
    }

    /// Returns a future that is ready at a point in time. If that time has passed, it is ready at
    /// once, or at the end of this part of a tick. Otherwise it is [`sleep`](Self::sleep).
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::until(self.engine_ref(), self.timeline().deadline_at(deadline))
    }

    /// Returns a future that gives `future` a time limit. Its result is a `Result`, with
    /// [`Elapsed`] if the limit was first. See [`TimeoutFuture`].
    ///
    /// The limit counts from the first poll at which `future` is not ready. A future that is ready
    /// at once schedules nothing, and reads no clock. The limit goes by the engine's clock, and not
    /// by [Tokio's](crate::ManualClock#tokios-stopped-clock), which a test may have stopped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # pollster::block_on(async {
    /// let timer = Timer::new()?;
    /// let limit = Duration::from_millis(5);
    /// assert_eq!(timer.timeout(limit, async { "answer" }).await?, "answer");
    /// assert!(timer.timeout(limit, std::future::pending::<()>()).await.is_err());
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    pub fn timeout<T: Future>(&self, limit: Duration, future: T) -> TimeoutFuture<T> {
        TimeoutFuture::new(self, Limit::After(limit), future)
    }

    /// Returns a future that gives `future` a deadline, which several futures may share.
    ///
    /// If the deadline has passed, the result is [`Elapsed`] at the first poll at which `future` is
    /// not ready. A future that is ready at once schedules nothing, and reads no clock. Otherwise
    /// it is [`timeout`](Self::timeout).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # pollster::block_on(async {
    /// let timer = Timer::new()?;
    /// let deadline = timer.now() + Duration::from_millis(5); // of both steps together
    /// let first = timer.timeout_at(deadline, async { "connected" }).await?;
    /// assert_eq!(first, "connected");
    /// assert!(timer.timeout_at(deadline, std::future::pending::<()>()).await.is_err());
    /// assert!(timer.now() >= deadline);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    pub fn timeout_at<T: Future>(&self, deadline: Instant, future: T) -> TimeoutFuture<T> {
        TimeoutFuture::new(self, Limit::At(self.timeline().scale().ns_at(deadline)), future)
    }

    /// Returns an [`Interval`], which ticks now and then once in each `period`.
    ///
    /// [`Interval::tick`] waits for a tick. Missed ticks are [skipped](crate::MissedTicks::Skip),
    /// unless [`Interval::set_missed_ticks`] says otherwise.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # pollster::block_on(async {
    /// let timer = Timer::new()?;
    /// let mut interval = timer.interval(Duration::from_millis(2));
    /// let first = interval.tick().await; // at once
    /// let second = interval.tick().await;
    /// assert_eq!(second - first, Duration::from_millis(2));
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Panics
    /// Panics if the period is zero, because the interval would tick without end.
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        Interval::new(self, self.timeline().moment_after(Duration::ZERO), period)
    }

    /// Returns an [`Interval`] whose first tick is at a point in time.
    ///
    /// If that time has passed, the first tick comes at once, and the others by the schedule from
    /// `first`. A time before the engine's start counts as that start. Otherwise it is
    /// [`interval`](Self::interval).
    ///
    /// # Panics
    /// Panics if the period is zero.
    #[track_caller]
    pub fn interval_at(&self, first: Instant, period: Duration) -> Interval {
        Interval::new(self, self.timeline().moment_at(first), period)
    }
}

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
/// As for [`sleep`](fn@sleep).
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
/// As for [`sleep`](fn@sleep).
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
/// As for [`sleep`](fn@sleep).
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
/// Panics if the period is zero. Otherwise as for [`sleep`](fn@sleep).
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Timer::global().interval(period)
}

/// Returns an [`Interval`] whose first tick is at a point in time: [`Timer::interval_at`] on the
/// [global](Timer::global) engine.
///
/// # Panics
/// As for [`interval`](fn@interval).
#[track_caller]
pub fn interval_at(first: Instant, period: Duration) -> Interval {
    Timer::global().interval_at(first, period)
}
