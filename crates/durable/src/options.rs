//! The options of one handler.

use crate::retry::RetryPolicy;

/// The options of one handler, for [`Builder::handler_with`](crate::Builder::handler_with) and
/// [`Builder::async_handler`](crate::Builder::async_handler).
///
/// ```
/// use std::time::Duration;
/// use tourbillon_durable::{HandlerOptions, RetryPolicy};
///
/// let options = HandlerOptions::new()
///     .limit(4)
///     .retry(RetryPolicy::fixed(Duration::from_secs(30)))
///     .max_attempts(5);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct HandlerOptions {
    pub(crate) limit: Option<usize>,
    pub(crate) retry: RetryPolicy,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) paused: bool,
}

impl HandlerOptions {
    /// The same as for [`Builder::handler`](crate::Builder::handler).
    pub fn new() -> Self {
        Self::default()
    }

    /// How many runs of this handler may be under way in this process, 1 to 4,096, each on a
    /// thread. By default [`Builder::threads`](crate::Builder::threads). For an async handler so
    /// many futures, 1 to 100,000, by default 1,000. If runs fill it that may hang,
    /// [`Event::Full`](crate::Event::Full) says so.
    pub fn limit(mut self, runs: usize) -> Self {
        self.limit = Some(runs);
        self
    }

    /// How long it waits after a run that has failed.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// How many runs of a timeout may fail before it becomes a dead letter. By default
    /// [`Builder::max_attempts`](crate::Builder::max_attempts).
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Whether the handler is paused from the start: see
    /// [`DurableTimer::pause`](crate::DurableTimer::pause). By default it is not.
    pub fn paused(mut self, paused: bool) -> Self {
        self.paused = paused;
        self
    }
}
