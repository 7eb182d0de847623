//! tokio-util's DelayQueue as several threads would share it: one, under a mutex.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use super::plan::Plan;
use super::producer::Producer;
use super::system::System;
use crate::compare::recorder::Task;

type Queue = Arc<Mutex<DelayQueue<Task>>>;

#[derive(Debug)]
pub(crate) struct LockedQueue {
    queue: Queue,
    runtime: &'static Runtime,
}

impl System for LockedQueue {
    type Producer = Locked;

    fn start(plan: &Plan) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build().context("no tokio runtime")?;
        let runtime: &'static Runtime = Box::leak(Box::new(runtime));
        let _entered = runtime.enter();
        let queue = DelayQueue::with_capacity(plan.capacity.unwrap_or(0));
        Ok(Self { queue: Arc::new(Mutex::new(queue)), runtime })
    }

    fn producer(&self) -> Result<Locked> {
        Ok(Locked { queue: Arc::clone(&self.queue), _entered: self.runtime.enter() })
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Locked {
    queue: Queue,
    _entered: EnterGuard<'static>,
}

impl Locked {
    fn lock(&self) -> MutexGuard<'_, DelayQueue<Task>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Producer for Locked {
    type Handle = Option<Key>;

    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        *handle = Some(self.lock().insert(task, delay));
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        handle.take().is_some_and(|key| self.lock().try_remove(&key).is_some())
    }

    fn reset(&mut self, delay: Duration, _deadline: Instant, handle: &mut Self::Handle) -> bool {
        handle.as_ref().inspect(|key| self.lock().reset(key, delay)).is_some()
    }
}
