//! Tourbillon's wheel alone: a wheel and a slab of tasks for each producer, which turns it.

use std::time::{Duration, Instant};

use anyhow::Result;
use tourbillon_wheel::{Items, Place, Take, Wheel};

use super::one_owner::{OneEach, Owner, RoundClock, turn_until_done};
use super::system::{Plan, Producer};
use crate::compare::recorder::{Recorder, Task};

pub(crate) type Wheels = OneEach<Turned>;

/// The slab that a user of the wheel has. A free slot leads to the next.
#[derive(Default)]
struct Slab {
    slots: Vec<Slot>,
    free: Option<u32>,
}

struct Slot {
    task: Option<Task>,
    deadline: u64,
    place: Place,
    next: Option<u32>,
}

impl Items for Slab {
    type Item = u32;

    fn deadline(&self, item: u32) -> u64 {
        self.slots[item as usize].deadline
    }

    fn placed(&mut self, item: u32, place: Place) {
        self.slots[item as usize].place = place;
    }
}

impl Slab {
    fn put(&mut self, task: Task, deadline: u64) -> u32 {
        let place = Place::from_bits(u32::MAX);
        let Some(item) = self.free else {
            self.slots.push(Slot { task: Some(task), deadline, place, next: None });
            return u32::try_from(self.slots.len() - 1).expect("fewer than 2^32");
        };
        let slot = &mut self.slots[item as usize];
        (slot.task, slot.deadline) = (Some(task), deadline);
        self.free = slot.next;
        item
    }

    fn take(&mut self, item: u32) -> Option<Task> {
        let slot = &mut self.slots[item as usize];
        let task = slot.task.take()?;
        slot.next = self.free;
        self.free = Some(item);
        Some(task)
    }
}

pub(crate) struct Turned {
    wheel: Wheel<u32>,
    slab: Slab,
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
        let mut slab = Slab::default();
        // Touches the memory.
        let task = Recorder::counting(0).stray();
        for item in (0..plan.capacity_each()).map(|_| slab.put(task, 1 << 30)).collect::<Vec<_>>() {
            wheel.insert(&mut slab, item)?;
        }
        for item in wheel.drain() {
            let _ = slab.take(item);
        }
        let (start, tick_ns) = (Instant::now(), u64::try_from(plan.tick.as_nanos())?);
        Ok(Self { wheel, slab, clock: RoundClock::new(), start, tick_ns, due: Vec::new() })
    }
}

impl Producer for Turned {
    type Handle = Option<u32>;

    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let deadline = self.clock.now() + delay;
        self.fire(deadline, delay, task, handle)
    }

    fn fire(&mut self, deadline: Instant, _delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let item = self.slab.put(task, self.tick(deadline));
        self.wheel.insert(&mut self.slab, item)?;
        *handle = Some(item);
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        let Some(item) = handle.take() else { return false };
        let place = self.slab.slots[item as usize].place;
        self.wheel.remove(place, item) && self.slab.take(item).is_some()
    }

    fn reset(&mut self, delay: Duration, _deadline: Instant, handle: &mut Self::Handle) -> bool {
        let Some(item) = *handle else { return false };
        let deadline = self.clock.now() + delay;
        let tick = self.tick(deadline);
        let slot = &mut self.slab.slots[item as usize];
        let is_earlier = tick < slot.deadline;
        slot.deadline = tick;
        let place = slot.place;
        !is_earlier || self.wheel.reinsert(&mut self.slab, place, item)
    }

    /// What is due is collected and then run, as nexus-timer's user does it.
    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        turn_until_done(recorder, limit, |now| {
            let now = self.ns(now) / self.tick_ns;
            let (slab, due) = (&mut self.slab, &mut self.due);
            self.wheel.expire(slab, now, &mut 100_000, |slab, item| {
                due.extend(slab.take(item));
                Take::Taken
            });
            self.due.drain(..).for_each(Task::run);
            self.wheel.cascade(&mut self.slab, &mut 100_000);
            let next = self.wheel.next_wakeup(&self.slab)?;
            Some(self.start + Duration::from_nanos(next.saturating_mul(self.tick_ns)))
        })
    }
}
