//! Tokio's runtime as executor.

use ::tokio::runtime::Handle;

use crate::executor::{Executor, Expired};

/// Runs expired timeouts on a Tokio runtime, each batch as a task of it: so a timeout's closure may call `tokio::spawn`, and shares
/// the runtime's threads with all that it has to do with. With the feature `tokio`.
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
/// * A batch is one task, of up to 256 closures, and does not yield in between: they should be short, as the time between two
///   `.await`s should be. What blocks belongs into `tokio::task::spawn_blocking`.
/// * The runtime need not have a time driver: that is what the engine is for.
/// * On a current-thread runtime closures run only while somebody is in its `block_on`.
/// * **If the runtime has shut down, nothing is lost**: what expires from then on runs on the engine's worker, and what was on its way
///   runs on the thread that drops the runtime's tasks. What such a closure spawns is dropped at once, as by every runtime
///   that has shut down; it does not panic.
/// * A [`shutdown`](crate::Timer::shutdown) of the engine waits for the batches that have begun to run, and not for those that the runtime
///   has not come to yet, as these may be waiting for the very thread that waits.
///
/// The handle does not keep the runtime alive. Costs one allocation for each batch. Does not block.
impl Executor for Handle {
    fn execute(&self, expired: Expired) {
        // Should the runtime have shut down, `spawn` drops the batch, which runs it here: what it spawns must find the runtime all the same.
        let _context = self.enter();
        drop(self.spawn(async move { expired.run() }));
    }
}
