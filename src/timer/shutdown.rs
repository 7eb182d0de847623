//! What a shutdown hands back.

use std::fmt;
use std::time::Instant;

use crate::entry::Task;

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

    /// When it would have fired, as of its last reset.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Runs the task, here and now, whatever its deadline.
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
