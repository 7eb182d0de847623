//! Tokio's runtime as an executor.

use ::tokio::runtime::Handle;

use crate::executor::{Executor, Expired};

/// Runs expired timeouts on a Tokio runtime. With the feature `tokio`.
///
/// Each batch is a task of the runtime, so a timeout's closure may call `tokio::spawn`, and shares
/// the runtime's threads with the rest of the program.
///
/// ```
/// use std::time::Duration;
/// use tokio::runtime::Handle;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let timer = Timer::builder().executor(Handle::current()).build()?;
/// let (tell, told) = tokio::sync::oneshot::channel();
/// timer.schedule_detached(Duration::from_millis(5), || {
///     tokio::spawn(async { tell.send("from a task of the runtime") });
/// })?;
/// println!("{}", told.await?);
/// # Ok(())
/// # })
/// # }
/// ```
///
/// * A batch is one task, of up to 256 closures, and does not yield in between. So closures should
///   be short, as the time between two `.await`s should be. Blocking work belongs in
///   `tokio::task::spawn_blocking`.
/// * The runtime needs no time driver, because the engine takes its place.
/// * On a current-thread runtime, closures run only while a thread is in its `block_on`.
/// * **Nothing is lost when the runtime shuts down.** Timeouts that expire after that run on the
///   engine's worker. Those that were on their way run on the thread that drops the runtime's
///   tasks. The runtime drops at once what such a closure spawns, as every runtime that has shut
///   down does; the closure does not panic.
/// * A [`shutdown`](crate::Timer::shutdown) of the engine waits for the batches that have begun to
///   run. It does not wait for those that the runtime has not begun yet, because these may be
///   waiting for the very thread that shuts the engine down.
///
/// The handle does not keep the runtime alive. Costs one allocation for each batch. Does not block.
impl Executor for Handle {
    fn execute(&self, expired: Expired) {
        // If the runtime has shut down, `spawn` drops the batch, which runs it here. What the batch
        // spawns must still find the runtime.
        let _context = self.enter();
        drop(self.spawn(async move { expired.run() }));
    }
}
