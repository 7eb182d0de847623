//! nexus-timer's wheel: one owner, which polls it; a wheel of its own for each producer.

use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nexus_timer::{TimerHandle, Wheel, WheelBuilder};

use crate::compare::recorder::{Recorder, Task};
use crate::compare::systems::one_owner::{OneEach, Owner, RoundClock, turn_until_done};
use crate::compare::systems::system::{Plan, Producer};

/// Of a wheel that is unbounded, if nothing is to be reserved, as in the documentation.
const CHUNK: usize = 4_096;

pub(crate) type Wheels = OneEach<Polled>;

/// It wants a deadline, for which its user reads the clock.
pub(crate) struct Polled {
    wheel: Wheel<Task>,
    clock: RoundClock,
    due: Vec<Task>,
}

impl Owner for Polled {
    fn new(plan: &Plan) -> Result<Self> {
        let capacity = plan.capacity_each();
        let now = Instant::now();
        let builder = WheelBuilder::new().tick_duration(plan.tick).unbounded(capacity.max(CHUNK));
        let mut wheel: Wheel<Task> = builder.build(now).context("the wheel refused its options")?;
        // Touches the memory.
        let task = Recorder::counting(0).stray();
        let handles: Vec<_> = (0..capacity).map(|_| wheel.schedule(now + Duration::from_secs(3_600), task)).collect();
        handles.into_iter().for_each(|handle| _ = wheel.cancel(handle));
        Ok(Self { wheel, clock: RoundClock::new(), due: Vec::new() })
    }
}

impl Producer for Polled {
    /// Not to be dropped: it has to be given back to the wheel, or to be forgotten with it.
    type Handle = Option<ManuallyDrop<TimerHandle<Task>>>;

    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let deadline = self.clock.now() + delay;
        self.fire(deadline, delay, task, handle)
    }

    fn fire(&mut self, deadline: Instant, _delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        *handle = Some(ManuallyDrop::new(self.wheel.schedule(deadline, task)));
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        handle.take().is_some_and(|handle| self.wheel.cancel(ManuallyDrop::into_inner(handle)).is_some())
    }

    fn reset(&mut self, delay: Duration, _deadline: Instant, handle: &mut Self::Handle) -> bool {
        let Some(old) = handle.take() else { return false };
        let deadline = self.clock.now() + delay;
        *handle = Some(ManuallyDrop::new(self.wheel.reschedule(ManuallyDrop::into_inner(old), deadline)));
        true
    }

    /// The event loop of its documentation: collect and rebalance, then sleep until the next
    /// deadline.
    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        turn_until_done(recorder, limit, |now| {
            self.wheel.poll_and_rebalance(now, &mut self.due);
            self.due.drain(..).for_each(Task::run);
            self.wheel.next_deadline()
        })
    }
}
