//! nexus-timer's wheel, and its TimeoutQueue, which has one duration for all timeouts: one owner,
//! which polls it; one of its own for each producer.

use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nexus_timer::{TimeoutQueue, TimeoutQueueBuilder, TimerHandle, Wheel, WheelBuilder};

use crate::compare::recorder::{Recorder, Task};
use crate::compare::systems::one_owner::{OneEach, Owner, RoundClock, turn_until_done};
use crate::compare::systems::system::{Plan, Producer};

/// Of what is unbounded, if nothing is to be reserved, as in the documentation.
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

/// The duration, whatever delay a workload asks for.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) type Queues = OneEach<Queue>;

pub(crate) struct Queue {
    queue: TimeoutQueue<Task>,
    due: Vec<Task>,
}

impl Owner for Queue {
    fn new(plan: &Plan) -> Result<Self> {
        let capacity = plan.capacity_each();
        // So that one may be scheduled as if that had been done before.
        let epoch = Instant::now().checked_sub(TIMEOUT).context("this machine has only just started")?;
        let builder = TimeoutQueueBuilder::new(TIMEOUT).tick_duration(plan.tick).unbounded(capacity.max(CHUNK));
        let mut queue: TimeoutQueue<Task> = builder.build(epoch).context("the queue refused its options")?;
        // Touches the memory.
        let task = Recorder::counting(0).stray();
        let handles: Vec<_> = (0..capacity).map(|_| queue.schedule(epoch, task)).collect();
        handles.into_iter().for_each(|handle| _ = queue.cancel(handle));
        Ok(Self { queue, due: Vec::new() })
    }
}

impl Producer for Queue {
    /// Not to be dropped: it has to be given back to the queue, or to be forgotten with it.
    type Handle = Option<ManuallyDrop<TimerHandle<Task>>>;

    fn schedule(&mut self, _delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        *handle = Some(ManuallyDrop::new(self.queue.schedule(Instant::now(), task)));
        Ok(())
    }

    /// As if it had been scheduled so long before the deadline.
    fn fire(&mut self, deadline: Instant, _delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let then = deadline.checked_sub(TIMEOUT).context("this machine has only just started")?;
        *handle = Some(ManuallyDrop::new(self.queue.schedule(then, task)));
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        handle.take().is_some_and(|handle| self.queue.cancel(ManuallyDrop::into_inner(handle)).is_some())
    }

    /// It has none: its documentation says to cancel and to schedule again.
    fn reset(&mut self, _delay: Duration, _deadline: Instant, handle: &mut Self::Handle) -> bool {
        let Some(old) = handle.take() else { return false };
        let Some(task) = self.queue.cancel(ManuallyDrop::into_inner(old)) else { return false };
        *handle = Some(ManuallyDrop::new(self.queue.schedule(Instant::now(), task)));
        true
    }

    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        turn_until_done(recorder, limit, |now| {
            self.queue.poll(now, &mut self.due);
            self.due.drain(..).for_each(Task::run);
            self.queue.next_deadline()
        })
    }
}
