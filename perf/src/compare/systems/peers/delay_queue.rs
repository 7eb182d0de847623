//! tokio-util's DelayQueue: one owner, which polls it; a queue of its own for each producer.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::compare::recorder::{Recorder, Task};
use crate::compare::systems::one_owner::{OneEach, Owner};
use crate::compare::systems::system::{Plan, Producer};

pub(crate) type Queues = OneEach<Queue>;

#[derive(Debug)]
pub(crate) struct Queue {
    queue: DelayQueue<Task>,
    runtime: &'static Runtime,
    _entered: EnterGuard<'static>,
}

impl Owner for Queue {
    fn new(plan: &Plan) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build().context("no tokio runtime")?;
        let runtime: &'static Runtime = Box::leak(Box::new(runtime));
        let entered = runtime.enter();
        let capacity = plan.capacity_each();
        let mut queue = DelayQueue::with_capacity(capacity);
        // Touches the memory.
        let (task, far) = (Recorder::counting(0).stray(), Duration::from_secs(3_600));
        (0..capacity).for_each(|_| _ = queue.insert(task, far));
        queue.clear();
        Ok(Self { queue, runtime, _entered: entered })
    }
}

impl Producer for Queue {
    type Handle = Option<Key>;

    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        *handle = Some(self.queue.insert(task, delay));
        Ok(())
    }

    fn fire(&mut self, deadline: Instant, _delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        *handle = Some(self.queue.insert_at(task, deadline.into()));
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        handle.take().is_some_and(|key| self.queue.try_remove(&key).is_some())
    }

    fn reset(&mut self, delay: Duration, _deadline: Instant, handle: &mut Self::Handle) -> bool {
        handle.as_ref().inspect(|key| self.queue.reset(key, delay)).is_some()
    }

    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        let queue = &mut self.queue;
        let run_all = poll_fn(|cx| {
            while !recorder.done() {
                match queue.poll_expired(cx) {
                    Poll::Ready(Some(expired)) => expired.into_inner().run(),
                    Poll::Ready(None) => break,
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(())
        });
        let ended = self.runtime.block_on(async { tokio::time::timeout_at(limit.into(), run_all).await });
        ensure!(ended.is_ok() && recorder.done(), "not all timeouts have run in time");
        Ok(())
    }
}
