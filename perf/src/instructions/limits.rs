//! Whose limits a server goes by.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use tourbillon::Timer;

/// The time was up.
#[derive(Debug)]
pub(super) struct Over;

pub(super) trait Limits: Clone + Send + Sync + 'static {
    /// Whether the runtime needs its own timers.
    const OF_TOKIO: bool;

    fn limit<F: Future + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Over>> + Send;

    /// For the heads of requests.
    fn give_to(&self, server: &mut http1::Builder, head: Duration);
}

#[derive(Debug, Clone)]
pub(super) struct Ours(Timer);

impl Ours {
    pub(super) fn start() -> Result<Self> {
        Ok(Self(Timer::new().context("the defaults make sense")?))
    }
}

impl Limits for Ours {
    const OF_TOKIO: bool = false;

    fn limit<F: Future + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Over>> + Send {
        let limited = self.0.timeout(limit, future);
        async { limited.await.map_err(|_| Over) }
    }

    fn give_to(&self, server: &mut http1::Builder, head: Duration) {
        server.timer(self.0.clone()).header_read_timeout(head);
    }
}

#[derive(Debug, Clone)]
pub(super) struct Tokios;

impl Limits for Tokios {
    const OF_TOKIO: bool = true;

    fn limit<F: Future + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Over>> + Send {
        let limited = tokio::time::timeout(limit, future);
        async { limited.await.map_err(|_| Over) }
    }

    fn give_to(&self, server: &mut http1::Builder, head: Duration) {
        server.timer(TokioTimer::new()).header_read_timeout(head);
    }
}

#[derive(Debug, Clone)]
pub(super) struct None;

impl Limits for None {
    const OF_TOKIO: bool = false;

    async fn limit<F: Future + Send>(&self, _limit: Duration, future: F) -> Result<F::Output, Over> {
        Ok(future.await)
    }

    fn give_to(&self, server: &mut http1::Builder, _head: Duration) {
        server.header_read_timeout(Option::None);
    }
}
