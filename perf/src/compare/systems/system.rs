//! The interface of a system under test, and of a thread that uses one.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::compare::recorder::{Recorder, Task};

/// How long a system may take to take in what it was given.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The settings that a workload gives a system before it starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Timeouts to reserve memory for, of all producers together, where it can be done.
    pub(crate) capacity: Option<usize>,
    pub(crate) producers: usize,
    /// Where it can be chosen.
    pub(crate) tick: Duration,
}

impl Plan {
    /// Memory to reserve where each producer has a queue of its own; 0 if none.
    pub(crate) fn capacity_each(self) -> usize {
        self.capacity.unwrap_or(0).div_ceil(self.producers)
    }
}

/// A timer under test. There is one in the process, and it lives as long as the process.
pub(crate) trait System: Sync + Sized + 'static {
    type Producer: Producer;

    fn start(plan: &Plan) -> Result<Self>;

    /// Returns what a thread needs to schedule. The thread itself calls this.
    fn producer(&self) -> Result<Self::Producer>;

    /// Waits until the system has taken in all that was scheduled. By default it schedules one more
    /// timeout, due soon, and waits until that has run: queues are in order.
    fn settle(&self) -> Result<()> {
        let mut producer = self.producer()?;
        let marker = Recorder::counting(1);
        let delay = Duration::from_millis(1);
        let mut handle = Default::default();
        producer.fire(Instant::now() + delay, delay, marker.task(0), &mut handle)?;
        producer.wait(marker, Instant::now() + PATIENCE)
    }

    /// Notes for the reader of a result, such as settings.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

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

/// Polls a future without a task that could be woken.
pub(crate) fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
