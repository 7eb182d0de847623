//! Tokio's runtime as an executor, and futures as tasks.

use std::future::Future;
use std::time::Duration;

use ::tokio::runtime::Handle;

use crate::executor::{Executor, Expired};
use crate::timer::{ScheduleError, Timeout, Timer};

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
/// * Futures that come up in one turn are woken by one task of the runtime. So many sleeping tasks
///   cost the runtime one wake-up from outside, and not one each. This includes futures that tasks
///   of other runtimes await. If the task has not begun after 2 ms, the worker wakes them. A
///   shutdown wakes its futures itself, at once. A future that comes up alone is woken by the
///   worker.
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
/// The handle does not keep the runtime alive. In a forked child the runtime of the parent runs
/// nothing. Handing a batch over costs one allocation, and does not block.
impl Executor for Handle {
    fn execute(&self, expired: Expired) {
        // If the runtime has shut down, `spawn` drops the batch, which runs it here. A task of the
        // batch that spawns must still find the runtime.
        let _context = self.enter();
        drop(self.spawn(async move { expired.run() }));
    }
}

impl Timer {
    /// Spawns a future on the calling task's Tokio runtime after `delay`. With the feature `tokio`.
    ///
    /// Until then it is a timeout like any other: it can be cancelled, which drops the future, and
    /// reset. After that it is a task of the runtime, which the handle does not reach. Any executor
    /// will do, because its thread only hands the future over. If the runtime has shut down by
    /// then, it drops the future. Otherwise the call is [`schedule`](Self::schedule).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let timer = Timer::new()?;
    /// let (tell, told) = tokio::sync::oneshot::channel();
    /// let _timeout = timer.spawn_after(Duration::from_millis(5), async {
    ///     tokio::task::yield_now().await; // it may await whatever the runtime has
    ///     let _ = tell.send("from a task of the runtime");
    /// });
    /// assert_eq!(told.await?, "from a task of the runtime");
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule). The task in it spawns the future when it
    /// is called.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    #[track_caller]
    pub fn spawn_after<F>(
        &self,
        delay: Duration,
        future: F,
    ) -> Result<Timeout, ScheduleError<impl FnOnce() + Send + 'static>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = Handle::current();
        self.schedule(delay, move || drop(runtime.spawn(future)))
    }
}
