//! A future of the user's, with a time limit.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::sleep::Sleep;
use crate::time::{MOST_NS, Subtick};
use crate::timer::Timer;

/// A future with a time limit. It is ready with the output of the inner future, or with
/// [`Elapsed`]. [`Timer::timeout`](crate::Timer::timeout) and
/// [`Timer::timeout_at`](crate::Timer::timeout_at) make it.
///
/// The limit of `timeout` counts from the first poll at which the inner future is not ready, and
/// not from the call of `timeout`. With either method, an inner future that is ready at once costs
/// no look at a clock.
///
/// Each poll polls the inner future first. So an inner future that is ready when the time is up is
/// in time. The inner future is not dropped when the time is up, but with this one.
///
/// A poll may wait as that of a [`Sleep`] may, for [`Builder::max_wait`](crate::Builder::max_wait)
/// at most. For an engine that is full, see [`Sleep`], too. A shutdown ends the limits that are
/// pending ([`Elapsed::is_shutdown`]). A limit that is first polled after the shutdown ends at its
/// own deadline.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let answer = timer.timeout(Duration::from_secs(5), async { 6 * 7 });
/// assert_eq!(pollster::block_on(answer), Ok(42));
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct TimeoutFuture<T> {
    limit: Limit,
    sleep: Sleep,
    future: T,
}

/// When the time is up. Until the limit begins the sleep has no end.
pub(super) enum Limit {
    /// This long after the first poll at which the inner future is not ready.
    After(Duration),
    /// At a point in time: nanoseconds by the clock since the engine's start. With an `Instant` in
    /// their place every `TimeoutFuture` would be 8 bytes larger.
    At(u64),
    /// When the sleep is ready, which has begun.
    Begun,
}

impl<T> TimeoutFuture<T> {
    pub(super) fn new(timer: &Timer, limit: Limit, future: T) -> Self {
        Self { limit, sleep: Sleep::until(timer.engine_ref(), Subtick::NEVER), future }
    }

    /// Its limit is that of the sleep.
    #[cfg(feature = "tokio")]
    pub(crate) fn begun(sleep: Sleep, future: T) -> Self {
        Self { limit: Limit::Begun, sleep, future }
    }

    /// Returns the inner future.
    pub fn get_ref(&self) -> &T {
        &self.future
    }

    /// Returns the inner future, mutably.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.future
    }

    /// Returns the inner future, without the limit.
    pub fn into_inner(self) -> T {
        self.future
    }
}

impl<T: Future> Future for TimeoutFuture<T> {
    type Output = Result<T::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` is pinned as the whole is. No code moves it while the whole is pinned:
        // this function does not, `into_inner` needs the whole by value, `get_mut` needs it
        // unpinned, and there is no `Drop`. The other fields are `Unpin`.
        let (future, limit, sleep) = unsafe {
            let Self { future, limit, sleep } = self.get_unchecked_mut();
            (Pin::new_unchecked(future), limit, sleep)
        };
        if let Poll::Ready(output) = future.poll(context) {
            return Poll::Ready(Ok(output));
        }
        let polled = match std::mem::replace(limit, Limit::Begun) {
            Limit::After(limit) => sleep.begin(limit, context),
            Limit::At(ns) if ns < MOST_NS => {
                sleep.reset_at(sleep.timeline().scale().instant_after(ns));
                Pin::new(&mut *sleep).poll(context)
            }
            // A time that is not counted never comes.
            Limit::At(_) | Limit::Begun => Pin::new(&mut *sleep).poll(context),
        };
        polled.map(|()| Err(Elapsed { by_shutdown: sleep.ended_by_shutdown() }))
    }
}

impl<T: fmt::Debug> fmt::Debug for TimeoutFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut this = f.debug_struct("TimeoutFuture");
        match self.limit {
            Limit::After(limit) => this.field("limit", &limit),
            Limit::At(ns) => this.field("limit", &self.sleep.timeline().scale().instant_after(ns)),
            Limit::Begun => this.field("limit", &self.sleep),
        };
        this.field("future", &self.future).finish()
    }
}

/// The limit of [`Timer::timeout`](crate::Timer::timeout) or
/// [`Timer::timeout_at`](crate::Timer::timeout_at) ended before the future was ready.
///
/// ```
/// use std::future::pending;
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let limit = timer.timeout(Duration::from_millis(5), pending::<()>());
/// let elapsed = pollster::block_on(limit).unwrap_err();
/// assert!(!elapsed.is_shutdown()); // the time is up
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed {
    by_shutdown: bool,
}

impl Elapsed {
    /// Returns whether a shutdown of the timer ended the limit before the time was up. True only
    /// for a limit that was pending at the shutdown: see
    /// [`Shutdown`](crate::Shutdown#tasks-that-sleep).
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.by_shutdown
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.by_shutdown {
            false => "the time was up before the future was ready",
            true => "the timer was shut down before the future was ready",
        })
    }
}

impl Error for Elapsed {}

/// The error is one of [`io::ErrorKind::TimedOut`].
impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(io::ErrorKind::TimedOut, elapsed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_makes_no_limit_larger() {
        assert_eq!(size_of::<Limit>(), size_of::<Option<Duration>>());
    }
}
