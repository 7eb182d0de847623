//! The worker itself as executor.

use super::{Executor, Expired};

/// Runs expired timeouts on the worker that expired them: no hand-over, the least latency. For tasks that are short and
/// never block: while one runs, its shard's other timeouts wait.
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
