//! Timeouts to be awaited: with any runtime, or none. They need nothing but the engine, whose workers call the wakers.

mod interval;
mod sleep;
mod with_timeout;

use std::future::Future;
use std::time::{Duration, Instant};

pub use interval::Interval;
pub use sleep::Sleep;
pub use with_timeout::{Elapsed, WithTimeout};

use crate::timer::Timer;

impl Timer {
    /// A future that is ready after `delay` from now, rounded up to a tick: never early. See [`Sleep`].
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
        Sleep::until(self.engine_ref(), self.timeline().tick_after(delay))
    }

    /// As [`sleep`](Self::sleep), until a point in time; ready at once if that has passed.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::until(self.engine_ref(), self.timeline().tick_at_or_now(deadline))
    }

    /// Gives `future` so much time from when it is first not ready. One that is ready at once schedules nothing, and looks at no clock.
    /// See [`WithTimeout`].
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
    pub fn timeout<T: Future>(&self, limit: Duration, future: T) -> WithTimeout<T> {
        WithTimeout::after(self.engine_ref(), limit, future)
    }

    /// As [`timeout`](Self::timeout), until a point in time: for a deadline that several futures
    /// share. If it has passed, the future has [`Elapsed`] at the first poll that is not ready. A
    /// future that is ready at once schedules nothing, and looks at no clock.
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
    pub fn timeout_at<T: Future>(&self, deadline: Instant, future: T) -> WithTimeout<T> {
        WithTimeout::until(self.engine_ref(), deadline, future)
    }

    /// Ticks now, and then once in each `period`, for whoever awaits [`Interval::tick`]. What is missed is
    /// [skipped](crate::MissedTicks::Skip), unless [`Interval::set_missed_ticks`] says otherwise.
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
    /// If the period is zero: it would tick without end.
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        Interval::new(self, self.timeline().moment_after(Duration::ZERO), period)
    }

    /// As [`interval`](Self::interval), with the first tick at a point in time; at once if that has passed, and by its schedule after that.
    /// (What lies before the engine's start counts as that start.)
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn interval_at(&self, first: Instant, period: Duration) -> Interval {
        Interval::new(self, self.timeline().moment_at(first), period)
    }
}
