//! `tokio::time::Timeout` on this engine.

use std::error::Error;
use std::fmt;
use std::future::{Future, IntoFuture, ready};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use ::tokio::task::coop::{cooperative, has_budget_remaining};
use pin_project_lite::pin_project;

use super::{Duration, Instant};
use super::{Leaves, begin, with_timer};
use crate::{TimeoutFuture, Timer};

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
/// As for [`sleep`](super::sleep).
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::of(|timer| TimeoutFuture::begun(begin(timer, duration), future.into_future()))
}

/// Gives a future a deadline, like `tokio::time::timeout_at`.
///
/// # Panics
/// As for [`sleep`](super::sleep).
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
