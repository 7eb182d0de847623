//! Tourbillon's engine of one thread: an engine of its own for each producer, which turns it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tourbillon_local::{LocalDriver, LocalTimeout, LocalTimer, ScheduleError};

use super::one_owner::{OneEach, Owner, RoundClock, turn_until_done};
use super::system::{Plan, Producer};
use crate::compare::recorder::{Recorder, Task};

pub(crate) type Engines = OneEach<Turned>;

pub(crate) struct Turned {
    timer: LocalTimer,
    driver: LocalDriver,
    clock: RoundClock,
}

impl Owner for Turned {
    fn new(plan: &Plan) -> Result<Self> {
        let builder = LocalTimer::builder().tick_duration(plan.tick);
        let (timer, driver) = builder.build().context("the engine refused its options")?;
        // Touches the memory.
        let far = || timer.schedule(Duration::from_secs(3_600), || ()).map_err(ScheduleError::without_task);
        let reserved: Vec<_> = (0..plan.capacity_each()).map(|_| far()).collect::<Result<_, _>>()?;
        reserved.iter().for_each(|timeout| assert!(timeout.cancel()));
        Ok(Self { timer, driver, clock: RoundClock::new() })
    }
}

impl Producer for Turned {
    type Handle = Option<LocalTimeout>;

    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let deadline = self.clock.now() + delay;
        self.fire(deadline, delay, task, handle)
    }

    fn fire(&mut self, deadline: Instant, _delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let scheduled = self.timer.schedule_at(deadline, move || task.run());
        *handle = Some(scheduled.map_err(ScheduleError::without_task)?);
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        handle.take().is_some_and(LocalTimeout::cancel_owned)
    }

    fn reset(&mut self, delay: Duration, _deadline: Instant, handle: &mut Self::Handle) -> bool {
        let deadline = self.clock.now() + delay;
        handle.as_ref().is_some_and(|timeout| timeout.reset_at(deadline))
    }

    /// The event loop of its documentation.
    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        turn_until_done(recorder, limit, |_| {
            self.driver.turn();
            self.driver.next_wakeup()
        })
    }
}
