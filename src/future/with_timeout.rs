//! Another's future, with a limit.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::sleep::Sleep;
use crate::engine::EngineRef;
use crate::time::Tick;

/// A future with a limit: ready with its output, or with [`Elapsed`]. Made by
/// [`Timer::timeout`](crate::Timer::timeout) and [`Timer::timeout_at`](crate::Timer::timeout_at).
///
/// The time of `timeout` counts from the first poll that is not ready, not from when this was made.
/// With either, a future that is ready at once costs no look at a clock.
///
/// The future is always polled first: one that is ready when the time is up has made it. When the
/// time is up the future is not dropped before this is.
///
/// Of an engine that is full, see [`Sleep`]. A shutdown ends the time of those that are pending ([`Elapsed::is_shutdown`]); with one that is
/// first polled afterwards the time is up when it is up.
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct WithTimeout<T> {
    limit: Limit,
    sleep: Sleep,
    future: T,
}

/// When the time is up.
enum Limit {
    /// So long after the first poll that is not ready.
    After(Duration),
    /// At a point in time: nanoseconds by the clock since the engine's start. With an `Instant` in
    /// their place every `WithTimeout` would be 8 bytes larger.
    At(u64),
    /// As the sleep says.
    Begun,
}

impl<T> WithTimeout<T> {
    pub(super) fn after(engine_ref: EngineRef, limit: Duration, future: T) -> Self {
        Self { limit: Limit::After(limit), sleep: Sleep::until(engine_ref, Tick::NEVER), future }
    }

    pub(super) fn until(engine_ref: EngineRef, deadline: Instant, future: T) -> Self {
        let limit = Limit::At(engine_ref.shared().timeline().scale().ns_at(deadline));
        Self { limit, sleep: Sleep::until(engine_ref, Tick::NEVER), future }
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
                match std::mem::replace(&mut this.limit, Limit::Begun) {
                    Limit::After(limit) => this.sleep.reset(limit),
                    Limit::At(ns) => this.sleep.reset_at(this.sleep.timeline().scale().instant_after(ns)),
                    Limit::Begun => {}
                }
                Pin::new(&mut this.sleep)
                    .poll(context)
                    .map(|()| Err(Elapsed { by_shutdown: this.sleep.ended_by_shutdown() }))
            }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for WithTimeout<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut this = f.debug_struct("WithTimeout");
        match self.limit {
            Limit::After(limit) => this.field("limit", &limit),
            Limit::At(ns) => this.field("limit", &self.sleep.timeline().scale().instant_after(ns)),
            Limit::Begun => this.field("limit", &self.sleep),
        };
        this.field("future", &self.future).finish()
    }
}

/// The time that [`Timer::timeout`](crate::Timer::timeout) or
/// [`Timer::timeout_at`](crate::Timer::timeout_at) gave was up before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed {
    by_shutdown: bool,
}

impl Elapsed {
    /// Whether it was not the time that was up: the timer was shut down before.
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

/// As [`io::ErrorKind::TimedOut`].
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
