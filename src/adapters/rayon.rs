//! Rayon's pool as an executor.

use ::rayon::ThreadPool;

use crate::executor::{Executor, Expired};

/// Runs expired timeouts on a Rayon pool. With the feature `rayon`.
///
/// Each batch is a job of the pool, so a timeout's closure may use Rayon's parallel operations on
/// it. A pool that is also used for other work is given in an `Arc`:
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use std::time::Duration;
/// use rayon::prelude::*;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build()?);
/// let timer = Timer::builder().executor(Arc::clone(&pool)).build()?;
/// let (tell, told) = mpsc::channel();
/// timer.schedule_detached(Duration::from_millis(5), move || {
///     // On all of the pool's threads.
///     let _ = tell.send((0..1000_u64).into_par_iter().sum::<u64>());
/// })?;
/// assert_eq!(told.recv()?, 499_500_u64);
/// # Ok(())
/// # }
/// ```
///
/// * Rayon's threads are for work and not for waiting: a closure that blocks takes a thread away
///   from all other jobs. Timeouts that expire while all threads are busy wait for one.
/// * The pool ends after its last owner has dropped it and all its jobs have run. So nothing is
///   lost.
/// * A [`shutdown`](crate::Timer::shutdown) of the engine waits for the batches that have begun to
///   run. It does not wait for those that the pool has not begun yet, because these may be waiting
///   for the very thread that shuts the engine down.
///
/// Costs one allocation for each batch. Does not block.
impl Executor for ThreadPool {
    fn execute(&self, expired: Expired) {
        // In the order in which the batches come, as far as a pool of several threads keeps it.
        self.spawn_fifo(move || expired.run());
    }
}
