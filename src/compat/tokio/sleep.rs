//! `tokio::time::Sleep` on this engine.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use ::tokio::task::coop::cooperative;

use super::{Duration, Instant};
use super::{Leaves, after, begin, with_timer};

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
