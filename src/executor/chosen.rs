//! The executor of an engine, as its workers know it.

use std::any::Any;
use std::sync::Arc;

use super::pool::Help;
use super::{Executor, Expired, Inline, ThreadPool};
use crate::panics::CatchUnwind;

/// The executor of an engine, and what the engine knows of it if it is one of ours.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    executor: CatchUnwind<Arc<dyn Executor>>,
    pub(crate) is_inline: bool,
    pub(crate) pool: Option<ThreadPool>,
    /// The runtime that it is, to wake futures.
    #[cfg(feature = "tokio")]
    pub(crate) runtime: Option<::tokio::runtime::Handle>,
}

impl Chosen {
    pub(crate) fn new(executor: impl Executor) -> Self {
        let any: &dyn Any = &executor;
        let shared = || any.downcast_ref::<Arc<ThreadPool>>().map(|pool| &**pool);
        let pool = any.downcast_ref::<ThreadPool>().or_else(shared).cloned();
        #[cfg(feature = "tokio")]
        let runtime = any.downcast_ref::<::tokio::runtime::Handle>().cloned();
        let is_inline = any.is::<Inline>();
        Self {
            executor: CatchUnwind::new(Arc::new(executor)),
            is_inline,
            pool,
            #[cfg(feature = "tokio")]
            runtime,
        }
    }

    /// Whether every batch that the executor is given is sure to run. A shutdown then waits for all
    /// of them.
    pub(crate) fn runs_all(&self) -> bool {
        self.is_inline || self.pool.is_some()
    }

    pub(crate) fn execute(&self, expired: Expired) {
        self.executor.execute(expired);
    }

    /// Returns whether it is a pool whose threads are all stuck in tasks while others wait.
    pub(crate) fn is_stuck(&self) -> bool {
        self.pool.as_ref().is_some_and(ThreadPool::is_stuck)
    }

    /// Finds help for what waits behind a task that blocks. A worker that has handed over a batch
    /// asks before it sleeps, and so does a shutdown that waits.
    pub(crate) fn find_help(&self) -> Help {
        self.pool.as_ref().map_or(Help::Never, ThreadPool::find_help)
    }
}
