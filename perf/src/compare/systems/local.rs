//! Tourbillon's engine of one thread: an engine of its own for each producer, which turns it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tourbillon::{LocalDriver, LocalTimeout, LocalTimer, ScheduleError, Timer};

use super::one_owner::{OneEach, Owner, turn_until_done};
use super::plan::Plan;
use super::producer::Producer;
use super::round_clock::RoundClock;
use crate::compare::recorder::{Recorder, Task};

/// The engine looks at its own clock for each operation.
pub(crate) type Engines = OneEach<Turned<0>>;
/// An event loop that does many operations a round may read the clock once a round: here once in
/// 16.
pub(crate) type EnginesInRounds = OneEach<Turned<16>>;

pub(crate) struct Turned<const ROUND: u32> {
    timer: LocalTimer,
    driver: LocalDriver,
    clock: RoundClock<ROUND>,
}

impl<const ROUND: u32> Owner for Turned<ROUND> {
    fn new(plan: &Plan) -> Result<Self> {
        let builder = Timer::builder().tick_duration(plan.tick).capacity(plan.capacity_each());
        let (timer, driver) = builder.build_local().context("the engine refused its options")?;
        Ok(Self { timer, driver, clock: RoundClock::new() })
    }
}

impl<const ROUND: u32> Producer for Turned<ROUND> {
    type Handle = Option<LocalTimeout>;

    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let run = move || task.run();
        let scheduled = if ROUND > 0 {
            self.timer.schedule_at(self.clock.now() + delay, run)
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
        let deadline = (ROUND > 0).then(|| self.clock.now() + delay);
        handle.as_ref().is_some_and(|timeout| match deadline {
            Some(deadline) => timeout.reset_at(deadline),
            None => timeout.reset(delay),
        })
    }

    /// The event loop of its documentation.
    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        turn_until_done(recorder, limit, |_| {
            self.driver.turn();
            self.driver.next_wakeup()
        })
    }
}
