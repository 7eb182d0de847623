//! How an engine is shut down, and what a shutdown hands back.

use std::fmt;
use std::time::{Duration, Instant};

use crate::entry::Task;

/// What becomes of the timeouts that are pending when an engine is shut down with
/// [`Timer::shutdown_with`](crate::Timer::shutdown_with). New ones are refused in any case, and a series does not go on
/// after the run that it is in, or that this gives it.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{Shutdown, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// timer.schedule_detached(Duration::from_millis(20), || println!("in time"))?;
/// timer.schedule_detached(Duration::from_secs(3600), || println!("not today"))?;
/// let unfired = timer.shutdown_with(Shutdown::Drain(Duration::from_millis(100)))?;
/// assert_eq!(unfired.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shutdown {
    /// They are cancelled, and handed back.
    #[default]
    Cancel,
    /// They run now, through the executor, whatever their deadlines, be that never (as Pekko's `TaskRunOnClose`), and also in
    /// a pause.
    FireNow,
    /// The engine goes on until nothing is pending that will ever be due, or for so long at most, by its clock (one that is moved by hand
    /// has to be moved meanwhile, by another thread); what is left then is cancelled and handed back (and so is a series that a reset
    /// had put off when its run waited for a thread). Ends a pause. Of a driven engine, for which nobody but its driver could wait:
    /// what is due now runs, on the calling thread, and the rest is handed back at once.
    Drain(Duration),
}

/// A timeout that was still pending when its engine was shut down. Dropping it drops the task; [`run`](Self::run) runs it.
/// Its [`Timeout`](crate::Timeout) reads `is_cancelled`.
#[must_use = "dropping an Unfired drops its task without running it"]
pub struct Unfired {
    deadline: Instant,
    task: Task,
}

impl Unfired {
    pub(super) fn new(deadline: Instant, task: Task) -> Self {
        Self { deadline, task }
    }

    /// When it would have fired, as of its last reset. (Of a series: the next time.)
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Runs the task, here and now, whatever its deadline; that of a series once.
    ///
    /// # Panics
    /// If the task does: nothing catches it here.
    pub fn run(self) {
        self.task.run();
    }
}

impl fmt::Debug for Unfired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfired").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
