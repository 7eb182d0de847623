//! Tourbillon's engine of one thread: an engine of its own for each producer, which turns it.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tourbillon::{LocalDriver, LocalTimeout, LocalTimer, ScheduleError, Timer};

use super::plan::Plan;
use super::producer::Producer;
use super::system::System;
use crate::compare::recorder::{Recorder, Task};

/// The engine looks at its own clock for each operation.
pub(crate) type Engines = Turned<0>;
/// An event loop that does many operations a round may read the clock once a round: here once in
/// 16.
pub(crate) type EnginesInRounds = Turned<16>;

#[derive(Debug)]
pub(crate) struct Turned<const ROUND: u32>(Plan);

impl<const ROUND: u32> System for Turned<ROUND> {
    type Producer = Owner<ROUND>;

    fn start(plan: &Plan) -> Result<Self> {
        Ok(Self(*plan))
    }

    fn producer(&self) -> Result<Owner<ROUND>> {
        let builder = Timer::builder().tick_duration(self.0.tick).capacity(self.0.capacity_each());
        let (timer, driver) = builder.build_local().context("the engine refused its options")?;
        Ok(Owner { now: timer.now(), timer, driver, operations: 0 })
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

pub(crate) struct Owner<const ROUND: u32> {
    timer: LocalTimer,
    driver: LocalDriver,
    now: Instant,
    operations: u32,
}

impl<const ROUND: u32> Owner<ROUND> {
    /// Returns the deadline by the time of this round.
    #[inline]
    fn after(&mut self, delay: Duration) -> Instant {
        if self.operations.is_multiple_of(ROUND) {
            self.now = self.timer.now();
        }
        self.operations = self.operations.wrapping_add(1);
        self.now + delay
    }
}

impl<const ROUND: u32> Producer for Owner<ROUND> {
    type Handle = Option<LocalTimeout>;

    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let run = move || task.run();
        let scheduled = if ROUND > 0 {
            let deadline = self.after(delay);
            self.timer.schedule_at(deadline, run)
        } else {
            self.timer.schedule(delay, run)
        };
        *handle = Some(scheduled.map_err(ScheduleError::without_task)?);
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        handle.take().is_some_and(|timeout| timeout.cancel())
    }

    fn reset(&mut self, delay: Duration, _deadline: Instant, handle: &mut Self::Handle) -> bool {
        let deadline = (ROUND > 0).then(|| self.after(delay));
        handle.as_ref().is_some_and(|timeout| match deadline {
            Some(deadline) => timeout.reset_at(deadline),
            None => timeout.reset(delay),
        })
    }

    /// The event loop of its documentation.
    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        while !recorder.done() {
            ensure!(Instant::now() < limit, "not all timeouts have run in time");
            self.driver.turn();
            // When the last has run there is nothing to sleep for.
            if let Some(next) = self.driver.next_wakeup()
                && !recorder.done()
            {
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        }
        Ok(())
    }
}
