//! A timer as many programmers write their own: a binary heap under a mutex, and a thread that
//! sleeps on a condition variable.
//!
//! A careful author's additions are there: a reset to a later deadline leaves the heap alone, a
//! cancelled task is dropped at once, and when most of the heap is cancelled it is swept.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::system::{Plan, Producer, System};
use crate::compare::recorder::Task;

/// So many cancelled ones may always wait in the heap.
const SWEEP_FROM: usize = 1_024;

type Run = Box<dyn FnOnce() + Send>;

/// In the heap: when to look at which slot.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Look {
    at: Instant,
    slot: u32,
    turn: u32,
}

/// A pending timeout, or free if it has no task. `turn` tells its users apart.
struct Slot {
    deadline: Instant,
    turn: u32,
    run: Option<Run>,
}

#[derive(Default)]
struct State {
    heap: BinaryHeap<Reverse<Look>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Looks in the heap whose slot has gone on to another user.
    stale: usize,
}

impl State {
    fn insert(&mut self, deadline: Instant, run: Run) -> (u32, u32) {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(Slot { deadline, turn: 0, run: None });
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        let place = &mut self.slots[slot as usize];
        place.deadline = deadline;
        place.run = Some(run);
        let turn = place.turn;
        self.heap.push(Reverse(Look { at: deadline, slot, turn }));
        (slot, turn)
    }

    fn release(&mut self, slot: u32) -> Option<Run> {
        let place = &mut self.slots[slot as usize];
        place.turn = place.turn.wrapping_add(1);
        self.free.push(slot);
        place.run.take()
    }

    fn cancel(&mut self, slot: u32, turn: u32) -> Option<Run> {
        if self.slots[slot as usize].turn != turn {
            return None;
        }
        let run = self.release(slot);
        self.stale += 1;
        if self.stale > SWEEP_FROM && self.stale > self.heap.len() / 2 {
            let slots = &self.slots;
            self.heap.retain(|Reverse(look)| slots[look.slot as usize].turn == look.turn);
            self.stale = 0;
        }
        run
    }

    /// Takes out the tasks that are due.
    fn expire(&mut self, now: Instant, due: &mut Vec<Run>) {
        while let Some(Reverse(next)) = self.heap.peek()
            && next.at <= now
        {
            let Some(Reverse(look)) = self.heap.pop() else { return };
            let place = &self.slots[look.slot as usize];
            if place.turn != look.turn {
                self.stale = self.stale.saturating_sub(1);
            } else if place.deadline > now {
                self.heap.push(Reverse(Look { at: place.deadline, ..look }));
            } else {
                due.extend(self.release(look.slot));
            }
        }
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    earlier: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut due = Vec::new();
        let mut state = self.lock();
        loop {
            state.expire(Instant::now(), &mut due);
            if !due.is_empty() {
                drop(state);
                due.drain(..).for_each(|run| run());
                state = self.lock();
                continue;
            }
            let next = state.heap.peek().map(|Reverse(look)| look.at.saturating_duration_since(Instant::now()));
            state = match next {
                None => self.earlier.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(nap) => self.earlier.wait_timeout(state, nap).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

pub(crate) struct Heap(Arc<Shared>);

impl System for Heap {
    type Producer = Locked;

    fn start(plan: &Plan) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        if let Some(capacity) = plan.capacity {
            let mut state = shared.lock();
            state.heap.reserve(capacity + 2);
            state.slots.reserve(capacity + 2);
            state.free.reserve(capacity + 2);
        }
        let worker = Arc::clone(&shared);
        thread::Builder::new()
            .name("heap".to_owned())
            .spawn(move || worker.work())
            .context("no thread for the heap")?;
        Ok(Self(shared))
    }

    fn producer(&self) -> Result<Locked> {
        Ok(Locked(Arc::clone(&self.0)))
    }
}

pub(crate) struct Locked(Arc<Shared>);

impl Producer for Locked {
    type Handle = (u32, u32);

    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        self.fire(Instant::now() + delay, delay, task, handle)
    }

    fn fire(&mut self, deadline: Instant, _delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let run: Run = Box::new(move || task.run());
        let mut state = self.0.lock();
        *handle = state.insert(deadline, run);
        let first = state.heap.peek().is_some_and(|Reverse(look)| (look.slot, look.turn) == *handle);
        drop(state);
        if first {
            self.0.earlier.notify_one();
        }
        Ok(())
    }

    fn cancel(&mut self, &mut (slot, turn): &mut Self::Handle) -> bool {
        // The lock is gone before the task is.
        let run = self.0.lock().cancel(slot, turn);
        run.is_some()
    }

    fn reset(&mut self, delay: Duration, _deadline: Instant, &mut (slot, turn): &mut Self::Handle) -> bool {
        let deadline = Instant::now() + delay;
        let mut state = self.0.lock();
        let place = &mut state.slots[slot as usize];
        let pending = place.turn == turn;
        if pending {
            // Only ever to later here; an earlier one would also have to go into the heap.
            place.deadline = place.deadline.max(deadline);
        }
        pending
    }
}
