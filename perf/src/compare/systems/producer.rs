//! What one thread does with a system under test.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::compare::recorder::{Recorder, Task};

/// The operations, as one thread calls them. A handle stays where it is: what has been scheduled through it is found there.
pub(crate) trait Producer {
    type Handle: Default;

    /// Touches the memory that a timeout needs, where it is the caller's.
    fn reserve(&mut self, _handle: &mut Self::Handle) {}

    /// Schedules what is not expected to run; of an asynchronous system what a task would keep, without the task.
    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()>;

    /// Schedules what will run. Of `deadline` and `delay` it takes what the system takes.
    fn fire(&mut self, _deadline: Instant, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        self.schedule(delay, task, handle)
    }

    /// Whether it was cancelled; true where the system does not say.
    fn cancel(&mut self, handle: &mut Self::Handle) -> bool;

    /// Pushes it out, to `delay` from now. Who can take a deadline that is known already may take that instead.
    fn reset(&mut self, delay: Duration, deadline: Instant, handle: &mut Self::Handle) -> bool;

    /// Puts a limit round a future that is ready at once, and polls it; whether it was. Of who has futures.
    fn limit_ready(&mut self, _limit: Duration) -> bool {
        false
    }

    /// Called when a loop is over, before it is settled.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Until all have run; where the calling thread is the one that runs them, it does so here.
    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        recorder.wait(limit)
    }
}
