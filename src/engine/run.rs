//! What runs the tasks.

use std::task::Waker;

use super::periodic::PeriodicRun;
use crate::entry::Task;
use crate::panics::Panic;
use crate::time::Tick;

/// Runs timeouts that were claimed for it. A task's panic is its own to catch.
pub(crate) trait Run {
    /// Runs the task of a timeout that runs once.
    fn once(&mut self, deadline: Tick, task: Task);
    fn periodic(&mut self, deadline: Tick, run: PeriodicRun);
    /// Wakes a sleeping future, unless it is awake.
    fn wake(&mut self, deadline: Tick, waker: Option<Waker>);
    /// Reports a panic of a task that was dropped unrun.
    fn report(&mut self, panic: Panic);
}
