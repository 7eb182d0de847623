//! The limits of a server or a client: ours, Tokio's, or none.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use tourbillon::Timer;

pub(crate) trait Limits: Clone + Send + Sync + 'static {
    /// Whether the runtime needs its own timers.
    const OF_TOKIO: bool;

    /// Returns nothing if the time is up.
    fn limit<F: Future + Send>(&self, limit: Duration, future: F) -> impl Future<Output = Option<F::Output>> + Send;

    /// For the heads of requests.
    fn give_to(&self, server: &mut http1::Builder, _head: Duration) {
        server.header_read_timeout(None);
    }

    /// How many limits are armed, if it tells.
    fn pending(&self) -> Option<usize> {
        None
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Ours(Timer);

impl Ours {
    pub(crate) fn start() -> Result<Self> {
        Ok(Self(Timer::new().context("the defaults make sense")?))
    }
}

impl Limits for Ours {
    const OF_TOKIO: bool = false;

    fn limit<F: Future + Send>(&self, limit: Duration, future: F) -> impl Future<Output = Option<F::Output>> + Send {
        let limited = self.0.timeout(limit, future);
        async { limited.await.ok() }
    }

    fn give_to(&self, server: &mut http1::Builder, head: Duration) {
        server.timer(self.0.clone()).header_read_timeout(head);
    }

    fn pending(&self) -> Option<usize> {
        Some(self.0.pending())
    }
}

/// Ours by Tokio's names, on the global engine.
#[derive(Debug, Clone)]
pub(crate) struct Compat;

impl Limits for Compat {
    const OF_TOKIO: bool = false;

    fn limit<F: Future + Send>(&self, limit: Duration, future: F) -> impl Future<Output = Option<F::Output>> + Send {
        let limited = tourbillon::compat::tokio::timeout(limit, future);
        async { limited.await.ok() }
    }

    fn pending(&self) -> Option<usize> {
        Some(Timer::global().pending())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Tokios;

impl Limits for Tokios {
    const OF_TOKIO: bool = true;

    fn limit<F: Future + Send>(&self, limit: Duration, future: F) -> impl Future<Output = Option<F::Output>> + Send {
        let limited = tokio::time::timeout(limit, future);
        async { limited.await.ok() }
    }

    fn give_to(&self, server: &mut http1::Builder, head: Duration) {
        server.timer(TokioTimer::new()).header_read_timeout(head);
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Unlimited;

impl Limits for Unlimited {
    const OF_TOKIO: bool = false;

    async fn limit<F: Future + Send>(&self, _limit: Duration, future: F) -> Option<F::Output> {
        Some(future.await)
    }
}
