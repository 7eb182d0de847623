//! bitwheel: one owner, which polls it; a wheel of its own for each producer.

use std::time::{Duration, Instant};

use anyhow::Result;
use bitwheel::timer::{BitWheelWithFailover, Timer, TimerHandle};

use crate::compare::recorder::{Recorder, Task};
use crate::compare::systems::one_owner::{OneEach, Owner, turn_until_done};
use crate::compare::systems::system::{Plan, Producer};

/// As its `LargePreciseWheelWithFailover`: 3 gears of 64 slots, a tick of 1 ms, 2 slots tried, and
/// a look into its BTreeMap every 32 ticks. But with room for 8,192 in each slot instead of 128, so
/// that the ring of W2, which shares one slot, has room.
type Wheel = BitWheelWithFailover<Due, 3, 1, 8_192, 2, 32>;

pub(crate) type Wheels = OneEach<Polled>;

#[derive(Debug)]
pub(crate) struct Due(Task);

impl Timer for Due {
    type Context = ();

    fn fire(&mut self, (): &mut ()) {
        self.0.run();
    }
}

pub(crate) struct Polled(Box<Wheel>);

impl Owner for Polled {
    fn new(_plan: &Plan) -> Result<Self> {
        // All its room is there from the start.
        Ok(Self(Wheel::boxed()))
    }
}

impl Producer for Polled {
    type Handle = Option<TimerHandle>;

    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        self.fire(Instant::now() + delay, delay, task, handle)
    }

    fn fire(&mut self, deadline: Instant, _delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        *handle = Some(self.0.insert(deadline, Due(task)));
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        handle.take().is_some_and(|handle| self.0.cancel(handle).is_some())
    }

    /// It has none: it is a cancel and an insert.
    fn reset(&mut self, delay: Duration, _deadline: Instant, handle: &mut Self::Handle) -> bool {
        let Some(due) = handle.take().and_then(|handle| self.0.cancel(handle)) else { return false };
        *handle = Some(self.0.insert(Instant::now() + delay, due));
        true
    }

    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        turn_until_done(recorder, limit, |now| {
            self.0.poll(now, &mut ());
            self.0.peek_next_fire()
        })
    }
}
