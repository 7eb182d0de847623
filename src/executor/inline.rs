//! The worker itself as an executor.

use super::{Executor, Expired};

/// Runs expired timeouts on the worker that expired them. There is no hand-over, so this has the
/// least latency. Tasks must be short and never block: while one runs, its shard's other timeouts
/// wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Executor for Inline {
    fn execute(&self, expired: Expired) {
        expired.run();
    }

    fn runs_all(&self) -> bool {
        true
    }
}
