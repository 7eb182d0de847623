//! The executor of an engine, as its workers know it.

use std::any::Any;
use std::sync::Arc;

use super::pool::Help;
use super::{Executor, Expired, Inline, ThreadPool};
use crate::panics::CatchUnwind;

/// The executor of an engine, and what the engine knows of it if it is one of ours.
#[derive(Clone)]
pub(crate) struct Chosen {
    executor: CatchUnwind<Arc<dyn Executor>>,
    is_inline: bool,
    pool: Option<ThreadPool>,
    /// Whether it is a runtime. A waker that is called outside of its runtime costs that runtime a
    /// wake-up of its own, so a task of the runtime wakes all futures of a turn.
    is_runtime: bool,
}

impl Chosen {
    pub(crate) fn new(executor: impl Executor) -> Self {
        let any: &dyn Any = &executor;
        let shared = || any.downcast_ref::<Arc<ThreadPool>>().map(|pool| &**pool);
        let pool = any.downcast_ref::<ThreadPool>().or_else(shared).cloned();
        #[cfg(feature = "tokio")]
        let is_runtime = any.is::<::tokio::runtime::Handle>();
        #[cfg(not(feature = "tokio"))]
        let is_runtime = false;
        let is_inline = any.is::<Inline>();
        Self { executor: CatchUnwind::new(Arc::new(executor)), is_inline, pool, is_runtime }
    }

    pub(super) fn is_inline(&self) -> bool {
        self.is_inline
    }

    /// Whether every batch that the executor is given is sure to run. A shutdown then waits for all
    /// of them.
    pub(super) fn runs_all(&self) -> bool {
        self.is_inline || self.pool.is_some()
    }

    pub(super) fn execute(&self, expired: Expired) {
        self.executor.execute(expired);
    }

    /// Wakes all futures that came up in one turn, or that a shutdown has ended, or has the runtime
    /// wake them. Until then nothing else wakes them, also if they are reset. They are ready if
    /// they are polled. A shutdown does not wait for a batch that has not begun to run.
    pub(super) fn wake(&self, wakes: Expired) {
        // A task costs more than one wake-up does.
        if self.is_runtime && wakes.len() > 1 { self.execute(wakes) } else { wakes.run() }
    }

    /// Finds help for what waits behind a task that blocks. A worker that has handed over a batch
    /// asks before it sleeps, and so does a shutdown that waits.
    pub(crate) fn find_help(&self) -> Help {
        self.pool.as_ref().map_or(Help::Never, ThreadPool::find_help)
    }
}
