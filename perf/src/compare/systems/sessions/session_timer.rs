//! The timer of a session that is a task, as quinn's `AsyncTimer` is.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Instant;

use anyhow::{Context as _, Result};
use tokio::runtime::Handle;
use tourbillon::Timer;

pub(super) trait SessionTimer: Send + Sized + 'static {
    /// Whether the runtime needs its own timers.
    const OF_TOKIO: bool;

    /// Is called once.
    fn start(_sessions: usize) -> Result<()> {
        Ok(())
    }

    fn new(deadline: Instant) -> Self;

    fn reset(self: Pin<&mut Self>, deadline: Instant);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()>;
}

impl SessionTimer for tokio::time::Sleep {
    const OF_TOKIO: bool = true;

    fn new(deadline: Instant) -> Self {
        tokio::time::sleep_until(deadline.into())
    }

    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.reset(deadline.into());
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, context)
    }
}

/// Ours has a thread of its own, and a task of the runtime wakes those that come up together.
static ENGINE: OnceLock<Timer> = OnceLock::new();

impl SessionTimer for tourbillon::Sleep {
    const OF_TOKIO: bool = false;

    fn start(sessions: usize) -> Result<()> {
        let builder = Timer::builder().capacity(2 * sessions).executor(Handle::current());
        let timer = builder.build().context("the engine refused its options")?;
        // A second server of the same process, as in a test, goes on with the first one's.
        let _ = ENGINE.set(timer);
        Ok(())
    }

    fn new(deadline: Instant) -> Self {
        ENGINE.get().expect("it was started").sleep_until(deadline)
    }

    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().reset_at(deadline);
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, context)
    }
}

/// The floor: there is no timer, and nothing is paced.
pub(super) struct NoTimer;

impl SessionTimer for NoTimer {
    const OF_TOKIO: bool = false;

    fn new(_deadline: Instant) -> Self {
        Self
    }

    fn reset(self: Pin<&mut Self>, _deadline: Instant) {}

    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}
