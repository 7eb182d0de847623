//! Rayon's pool as executor.

use ::rayon::ThreadPool;

use crate::executor::{Executor, Expired};

/// Runs expired timeouts on a Rayon pool, each batch as a job of it: so a timeout's closure may go on in parallel. With the feature
/// `rayon`. A pool that is used for something else, too, is given in an `Arc`:
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
/// * Rayon's threads are for work and not for waiting: a closure that blocks takes one away from everybody. Timeouts that come while
///   all threads are busy wait for one.
/// * The pool ends when its last owner is dropped, and not before all that it was given has run: nothing is lost.
/// * A [`shutdown`](crate::Timer::shutdown) of the engine waits for the batches that have begun to run, and not for those that the pool
///   has not come to yet, as these may be waiting for the very thread that waits.
///
/// Costs one allocation for each batch. Does not block.
impl Executor for ThreadPool {
    fn execute(&self, expired: Expired) {
        // In the order in which they come, as far as there is one.
        self.spawn_fifo(move || expired.run());
    }
}
