//! The floors: what is left of an operation without a timer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::plan::Plan;
use super::producer::Producer;
use super::system::System;
use crate::compare::recorder::{Recorder, Task};
use crate::duration::Epoch;

/// The floor of a reset: one compare-and-swap on a cache line of its own.
#[derive(Debug)]
pub(crate) struct BareCas(Epoch);

impl System for BareCas {
    type Producer = Lines;

    fn start(_plan: &Plan) -> Result<Self> {
        Ok(Self(Epoch::start()))
    }

    fn producer(&self) -> Result<Lines> {
        Ok(Lines { epoch: self.0, free: Vec::new() })
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Line(AtomicU64);

/// Lines side by side, as entries are.
#[derive(Debug)]
pub(crate) struct Lines {
    epoch: Epoch,
    free: Vec<&'static Line>,
}

impl Producer for Lines {
    type Handle = Option<&'static Line>;

    fn schedule(&mut self, delay: Duration, _task: Task, handle: &mut Self::Handle) -> Result<()> {
        if self.free.is_empty() {
            let chunk = (0..1_024).map(|_| Line(AtomicU64::new(0))).collect::<Vec<_>>().leak();
            self.free.extend(chunk.iter().rev());
        }
        *handle = self.free.pop();
        if let Some(line) = handle {
            line.0.store(self.epoch.nanos(Instant::now() + delay), Ordering::Relaxed);
        }
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        handle.take().is_some()
    }

    #[inline]
    fn reset(&mut self, _delay: Duration, deadline: Instant, handle: &mut Self::Handle) -> bool {
        handle.is_some_and(|line| {
            let before = line.0.load(Ordering::Relaxed);
            let after = self.epoch.nanos(deadline);
            line.0.compare_exchange(before, after, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }
}

/// The floor of an expiry: the thread sleeps until the deadline, and calls the tasks.
#[derive(Debug)]
pub(crate) struct BareCalls;

impl System for BareCalls {
    type Producer = Calls;

    fn start(_plan: &Plan) -> Result<Self> {
        Ok(Self)
    }

    fn producer(&self) -> Result<Calls> {
        Ok(Calls { deadline: Instant::now(), tasks: Vec::new() })
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct TaskLine(Task);

/// Tasks of one deadline, in the order of their cache lines.
#[derive(Debug)]
pub(crate) struct Calls {
    deadline: Instant,
    tasks: Vec<TaskLine>,
}

impl Producer for Calls {
    type Handle = ();

    fn schedule(&mut self, _delay: Duration, _task: Task, _handle: &mut ()) -> Result<()> {
        bail!("only for what is due at one deadline");
    }

    fn fire(&mut self, deadline: Instant, _delay: Duration, task: Task, _handle: &mut ()) -> Result<()> {
        self.deadline = deadline;
        self.tasks.push(TaskLine(task));
        Ok(())
    }

    fn cancel(&mut self, _handle: &mut ()) -> bool {
        false
    }

    fn reset(&mut self, _delay: Duration, _deadline: Instant, _handle: &mut ()) -> bool {
        false
    }

    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        thread::sleep(self.deadline.saturating_duration_since(Instant::now()));
        self.tasks.drain(..).for_each(|TaskLine(task)| task.run());
        recorder.wait(limit)
    }
}
