//! What runs the tasks.

use super::periodic::PeriodicRun;
use crate::entry::TaskInPlace;
use crate::panics::Panic;
use crate::time::Subtick;

/// Runs timeouts that were claimed for it. A task's panic is its own to catch.
pub(crate) trait Run {
    /// Runs the task of a timeout that runs once, or wakes a future. `deadline` is `None` if a
    /// shutdown ended the future's sleep.
    fn once(&mut self, deadline: Option<Subtick>, task: TaskInPlace<'_>);
    fn periodic(&mut self, run: PeriodicRun);
    /// Reports a panic of a task that was dropped unrun.
    fn report(&mut self, panic: Panic);
}
