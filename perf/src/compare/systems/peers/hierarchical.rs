//! hierarchical_hash_wheel_timer's timer with a thread: a channel in front of a hierarchical wheel
//! and a hash map.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{OneshotState, PeriodicClosureState, Timer};

use crate::compare::recorder::Task;
use crate::compare::systems::system::{Plan, Producer, System};

/// Ids of one producer; the others' begin above.
const IDS: u64 = 1 << 40;

/// The state that it keeps for a timeout: one of our own, so that no closure need be boxed.
#[derive(Debug)]
pub(crate) struct State {
    id: u64,
    task: Task,
}

impl OneshotState for State {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.id
    }

    fn trigger(self) {
        self.task.run();
    }
}

type Periodic = PeriodicClosureState<u64>;

#[derive(Debug)]
pub(crate) struct ThreadTimer {
    timer: TimerWithThread<u64, State, Periodic>,
    producers: AtomicU64,
}

impl System for ThreadTimer {
    type Producer = Sender;

    fn start(_plan: &Plan) -> Result<Self> {
        Ok(Self { timer: TimerWithThread::new().context("no thread for the timer")?, producers: AtomicU64::new(0) })
    }

    fn producer(&self) -> Result<Sender> {
        let number = self.producers.fetch_add(1, Ordering::Relaxed);
        Ok(Sender { timer: self.timer.timer_ref(), next_id: number * IDS })
    }
}

pub(crate) struct Sender {
    timer: TimerRef<u64, State, Periodic>,
    next_id: u64,
}

/// Of a timeout: its id, and its task, which a reset schedules anew.
pub(crate) type Held = Option<(u64, Task)>;

impl Producer for Sender {
    type Handle = Held;

    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Held) -> Result<()> {
        let id = self.next_id;
        self.next_id += 1;
        self.timer.schedule_once(delay, State { id, task });
        *handle = Some((id, task));
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Held) -> bool {
        handle.take().inspect(|(id, _)| self.timer.cancel(id)).is_some()
    }

    fn reset(&mut self, delay: Duration, _deadline: Instant, handle: &mut Held) -> bool {
        let Some((id, task)) = handle.take() else { return false };
        self.timer.cancel(&id);
        self.schedule(delay, task, handle).is_ok()
    }
}
