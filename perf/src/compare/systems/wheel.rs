//! Tourbillon's wheel alone: a wheel and a slab of tasks for each producer, which turns it.

use std::time::{Duration, Instant};

use anyhow::Result;
use slab::Slab;
use tourbillon_wheel::{Items, Place, Take, Wheel};

use super::one_owner::{OneEach, Owner, RoundClock, turn_until_done};
use super::system::{Plan, Producer};
use crate::compare::recorder::{Recorder, Task};

pub(crate) type Wheels = OneEach<Turned>;

struct Pending {
    task: Task,
    deadline: u64,
    place: Place,
}

/// The slab that a user of the wheel has.
#[derive(Default)]
struct Slots(Slab<Pending>);

impl Items for Slots {
    type Item = u32;

    fn deadline(&self, item: u32) -> u64 {
        self.0[item as usize].deadline
    }

    fn placed(&mut self, item: u32, place: Place) {
        self.0[item as usize].place = place;
    }
}

impl Slots {
    fn put(&mut self, task: Task, deadline: u64) -> u32 {
        let place = Place::from_bits(u32::MAX);
        u32::try_from(self.0.insert(Pending { task, deadline, place })).expect("fewer than 2^32")
    }

    fn take(&mut self, item: u32) -> Option<Task> {
        self.0.try_remove(item as usize).map(|pending| pending.task)
    }
}

pub(crate) struct Turned {
    wheel: Wheel<u32>,
    slots: Slots,
    clock: RoundClock,
    start: Instant,
    tick_ns: u64,
    due: Vec<Task>,
}

impl Turned {
    /// Rounded up, as a wheel that is never early needs it.
    fn tick(&self, deadline: Instant) -> u64 {
        self.ns(deadline).div_ceil(self.tick_ns)
    }

    fn ns(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.start);
        since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
    }
}

impl Owner for Turned {
    fn new(plan: &Plan) -> Result<Self> {
        let mut wheel = Wheel::new(512, 4)?;
        let mut slots = Slots::default();
        // Touches the memory.
        let task = Recorder::counting(0).stray();
        for item in (0..plan.capacity_each()).map(|_| slots.put(task, 1 << 30)).collect::<Vec<_>>() {
            wheel.insert(&mut slots, item)?;
        }
        for item in wheel.drain() {
            let _ = slots.take(item);
        }
        let (start, tick_ns) = (Instant::now(), u64::try_from(plan.tick.as_nanos())?);
        Ok(Self { wheel, slots, clock: RoundClock::new(), start, tick_ns, due: Vec::new() })
    }
}

impl Producer for Turned {
    type Handle = Option<u32>;

    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let deadline = self.clock.now() + delay;
        self.fire(deadline, delay, task, handle)
    }

    fn fire(&mut self, deadline: Instant, _delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let item = self.slots.put(task, self.tick(deadline));
        self.wheel.insert(&mut self.slots, item)?;
        *handle = Some(item);
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        let Some(item) = handle.take() else { return false };
        let place = self.slots.0.get(item as usize).map(|pending| pending.place);
        place.is_some_and(|place| self.wheel.remove(place, item)) && self.slots.take(item).is_some()
    }

    fn reset(&mut self, delay: Duration, _deadline: Instant, handle: &mut Self::Handle) -> bool {
        let Some(item) = *handle else { return false };
        let deadline = self.clock.now() + delay;
        let tick = self.tick(deadline);
        let Some(pending) = self.slots.0.get_mut(item as usize) else { return false };
        let (is_earlier, place) = (tick < pending.deadline, pending.place);
        pending.deadline = tick;
        !is_earlier || self.wheel.reinsert(&mut self.slots, place, item)
    }

    /// Collects the tasks that are due and then runs them, as nexus-timer's user does.
    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        turn_until_done(recorder, limit, |now| {
            let now = self.ns(now) / self.tick_ns;
            let (slots, due) = (&mut self.slots, &mut self.due);
            self.wheel.expire(slots, now, &mut 100_000, |slots, item| {
                due.extend(slots.take(item));
                Take::Taken
            });
            self.due.drain(..).for_each(Task::run);
            self.wheel.cascade(&mut self.slots, &mut 100_000);
            let next = self.wheel.next_wakeup(&self.slots)?;
            Some(self.start + Duration::from_nanos(next.saturating_mul(self.tick_ns)))
        })
    }
}
