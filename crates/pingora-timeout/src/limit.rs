//! A future with a time limit, and what it counts by.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::delay::Delay;
use crate::timer;

/// How a [`Timeout`] counts its time. Code outside of this crate does not need it.
pub trait ToTimeout {
    /// Returns a future that is ready when the time is up. It counts from its first poll, or
    /// earlier.
    fn timeout(&self) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

    /// Keeps `d` as the time.
    fn create(d: Duration) -> Self;
}

/// Counts by Tokio's timer. [`tokio_timeout`] makes it.
#[derive(Debug)]
pub struct TokioTimeout(Duration);

impl ToTimeout for TokioTimeout {
    /// # Panics
    /// Panics outside of a Tokio runtime with its timer.
    fn timeout(&self) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        Box::pin(tokio::time::sleep(self.0))
    }

    fn create(d: Duration) -> Self {
        Self(d)
    }
}

/// The time of a limit was up before its future was ready.
#[derive(Debug)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    /// The same text as the original's, which logs may be searched for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timeout Elapsed")
    }
}

impl Error for Elapsed {}

/// Gives `future` a time limit by Tokio's timer, which is asked for when `future` is polled for the
/// first time and is not ready.
///
/// So a future that is ready at once costs no timer, as opposed to [`tokio::time::timeout`]. The
/// result is [`Timeout`]'s.
///
/// # Panics
/// The poll panics outside of a Tokio runtime with its timer, if `future` is not ready at once.
pub fn tokio_timeout<T: Future>(duration: Duration, future: T) -> Timeout<T, TokioTimeout> {
    Timeout::new(future, Limit::ByTokio(duration))
}

pin_project! {
    /// A future with a time limit. It is ready with the output of the future, or with [`Elapsed`].
    /// [`timeout`](crate::timeout()) and [`tokio_timeout`] make it.
    ///
    /// The limit counts from the first poll at which the inner future is not ready. Each poll polls
    /// the inner future first, so one that is ready when the time is up is in time.
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct Timeout<T, F> {
        #[pin]
        value: T,
        limit: Limit,
        by: PhantomData<F>,
    }
}

/// When the time is up.
#[derive(Debug)]
pub(crate) enum Limit {
    /// This long after the first poll at which the inner future is not ready, by our engine.
    ByUs(Duration),
    ByTokio(Duration),
    Ours(Delay),
    Tokios(Pin<Box<tokio::time::Sleep>>),
}

impl<T, F> Timeout<T, F> {
    pub(crate) fn new(value: T, limit: Limit) -> Self {
        Self { value, limit, by: PhantomData }
    }
}

impl<T: Future, F: ToTimeout> Future for Timeout<T, F> {
    type Output = Result<T::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.value.poll(context) {
            return Poll::Ready(Ok(output));
        }
        match *this.limit {
            Limit::ByUs(duration) => *this.limit = Limit::Ours(timer::delay(duration)),
            Limit::ByTokio(duration) => *this.limit = Limit::Tokios(Box::pin(tokio::time::sleep(duration))),
            Limit::Ours(_) | Limit::Tokios(_) => {}
        }
        let is_up = match this.limit {
            Limit::Ours(delay) => Pin::new(delay).poll(context),
            Limit::Tokios(sleep) => sleep.as_mut().poll(context),
            Limit::ByUs(_) | Limit::ByTokio(_) => unreachable!("it has just begun"),
        };
        is_up.map(|()| Err(Elapsed))
    }
}

impl<T: fmt::Debug, F> fmt::Debug for Timeout<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("value", &self.value).field("limit", &self.limit).finish()
    }
}
