//! The worker itself as an executor.

use super::{Executor, Expired};

/// Runs expired timeouts on the worker that expired them. There is no hand-over, so this has the
/// least latency. Tasks must be short and never block: while one runs, its shard's other timeouts
/// wait.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{Inline, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The tasks only wake others, so they run on the worker.
/// let timer = Timer::builder().executor(Inline).build()?;
/// let waiter = std::thread::current();
/// timer.schedule_detached(Duration::from_millis(5), move || waiter.unpark())?;
/// std::thread::park();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Inline;

impl Executor for Inline {
    fn execute(&self, expired: Expired) {
        expired.run();
    }
}
