//! What runs the tasks.

use std::task::Waker;

use super::periodic::PeriodicRun;
use crate::entry::TaskInPlace;
use crate::panics::Panic;
use crate::time::Subtick;

/// Runs timeouts that were claimed for it. A task's panic is its own to catch.
pub(crate) trait Run {
    /// Runs the task of a timeout that runs once.
    fn once(&mut self, deadline: Subtick, task: TaskInPlace<'_>);
    fn periodic(&mut self, run: PeriodicRun);
    /// Wakes a sleeping future, unless it is awake. `fired` is its deadline, or `None` if a
    /// shutdown ended the sleep.
    fn wake(&mut self, fired: Option<Subtick>, waker: Option<Waker>);
    /// Reports a panic of a task that was dropped unrun.
    fn report(&mut self, panic: Panic);
}
