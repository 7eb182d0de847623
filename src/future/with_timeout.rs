//! Another's future, with a limit.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::sleep::Sleep;
use crate::shard::Stake;
use crate::time::Tick;

/// A future with a limit: ready with its output, or with [`Elapsed`]. Made by [`Timer::timeout`](crate::Timer::timeout).
///
/// The time counts from the first poll that is not ready, not from when it was made: so a future that is ready at once costs no look
/// at a clock. The future is always polled first: one that is ready when the time is up has made it. When the time is up the
/// future is not dropped before this is.
///
/// Of an engine that is full, or has been shut down, see [`Sleep`]: after a shutdown nobody wakes the task when the time is up; only if it
/// is polled for something else by then, it is told.
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct WithTimeout<T> {
    /// Until it begins to count.
    limit: Option<Duration>,
    sleep: Sleep,
    future: T,
}

impl<T> WithTimeout<T> {
    pub(super) fn new(stake: Stake, limit: Duration, future: T) -> Self {
        Self { limit: Some(limit), sleep: Sleep::until(stake, Tick::NEVER), future }
    }

    /// The future inside.
    pub fn get_ref(&self) -> &T {
        &self.future
    }

    /// The future inside.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.future
    }

    /// The future inside, without the limit.
    pub fn into_inner(self) -> T {
        self.future
    }
}

impl<T: Future> Future for WithTimeout<T> {
    type Output = Result<T::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` is not moved out of here while it is pinned: `into_inner` and `get_mut` need the whole by value, or
        // unpinned, and there is no `Drop`. The rest is `Unpin`.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above: it is pinned as the whole is.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        match future.poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => {
                if let Some(limit) = this.limit.take() {
                    this.sleep.reset(limit);
                }
                Pin::new(&mut this.sleep).poll(context).map(|()| Err(Elapsed(())))
            }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for WithTimeout<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut this = f.debug_struct("WithTimeout");
        match &self.limit {
            Some(limit) => this.field("limit", limit),
            None => this.field("limit", &self.sleep),
        };
        this.field("future", &self.future).finish()
    }
}

/// The time that [`Timer::timeout`](crate::Timer::timeout) gave was up before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time was up before the future was ready")
    }
}

impl Error for Elapsed {}

/// As [`io::ErrorKind::TimedOut`].
impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(io::ErrorKind::TimedOut, elapsed)
    }
}
