//! A future of the user's, with a time limit.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;

use crate::LocalSleep;

pin_project! {
    /// A future with a time limit on a [`LocalTimer`](crate::LocalTimer). It is ready with the
    /// output of the inner future, or with [`Elapsed`]. Neither it nor its inner future need be
    /// `Send`. [`LocalTimer::timeout`](crate::LocalTimer::timeout) makes it.
    ///
    /// Each poll polls the inner future first. So an inner future that is ready when the time is up
    /// is in time, and one that is ready at once costs no look at a clock. Without its driver the
    /// limit ends at once, and [says so](Elapsed::is_shutdown), also if it is first polled then.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct LocalTimeoutFuture<T> {
        limit: Limit,
        sleep: LocalSleep,
        #[pin]
        future: T,
    }
}

/// When the time is up.
#[derive(Debug)]
enum Limit {
    /// This long after the first poll at which the inner future is not ready.
    After(Duration),
    At(Instant),
    /// When the sleep is ready, which has begun.
    Begun,
}

impl<T> LocalTimeoutFuture<T> {
    /// The limit begins later, and moves `sleep` then.
    pub(crate) fn after(sleep: LocalSleep, limit: Duration, future: T) -> Self {
        Self { limit: Limit::After(limit), sleep, future }
    }

    pub(crate) fn until(sleep: LocalSleep, deadline: Instant, future: T) -> Self {
        Self { limit: Limit::At(deadline), sleep, future }
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

impl<T: Future> Future for LocalTimeoutFuture<T> {
    type Output = Result<T::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(context) {
            return Poll::Ready(Ok(output));
        }
        match std::mem::replace(this.limit, Limit::Begun) {
            Limit::After(limit) => this.sleep.reset(limit),
            Limit::At(deadline) => this.sleep.reset_at(deadline),
            Limit::Begun => {}
        }
        let sleep = Pin::new(&mut *this.sleep).poll(context);
        sleep.map(|()| Err(Elapsed { by_shutdown: this.sleep.ended_by_shutdown() }))
    }
}

/// The limit of [`LocalTimer::timeout`](crate::LocalTimer::timeout) or
/// [`LocalTimer::timeout_at`](crate::LocalTimer::timeout_at) ended before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed {
    by_shutdown: bool,
}

impl Elapsed {
    /// Returns whether the end of the driver ended the limit before the time was up.
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.by_shutdown
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.by_shutdown {
            false => "the time was up before the future was ready",
            true => "the timer's driver was dropped before the future was ready",
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
