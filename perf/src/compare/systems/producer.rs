//! What one thread does with a system under test.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::compare::recorder::{Recorder, Task};

/// The operations, as one thread calls them. A handle does not move: the timeout that was scheduled
/// through it is found at its address.
pub(crate) trait Producer {
    type Handle: Default;

    /// Touches the memory that a timeout needs, where it is the caller's.
    fn reserve(&mut self, _handle: &mut Self::Handle) {}

    /// Schedules a timeout that is not expected to run. For an asynchronous system this is the
    /// future that a task would hold, without the task.
    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()>;

    /// Schedules a timeout that will run, by the deadline or the delay, whichever the system takes.
    fn fire(&mut self, _deadline: Instant, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        self.schedule(delay, task, handle)
    }

    /// Returns whether the timeout was cancelled, and true where the system does not tell.
    fn cancel(&mut self, handle: &mut Self::Handle) -> bool;

    /// Pushes the timeout out, to `delay` from now. A system that takes a deadline takes that one.
    fn reset(&mut self, delay: Duration, deadline: Instant, handle: &mut Self::Handle) -> bool;

    /// Puts a limit round a future that is ready at once, and polls it. Returns whether it was
    /// ready. Only systems with futures do it.
    fn limit_ready(&mut self, _limit: Duration) -> bool {
        false
    }

    /// Is called when a loop is over, before it is settled.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Waits until all have run. Where the calling thread runs them, it does so here.
    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        recorder.wait(limit)
    }
}
