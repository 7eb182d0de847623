//! A Tokio runtime that wakes the futures of a turn.
//!
//! A waker that is called outside of its runtime costs that runtime a wake-up of its own. So one
//! task of the runtime wakes all futures that came up in a turn. The runtime may be blocked, or
//! have no thread that runs it, or its task may wait for one of these very futures. So the worker
//! takes back what the task has not begun after [`PATIENCE`], and at once when the shard is closed.
//! A task that the runtime drops wakes them where it is dropped.

use std::sync::Arc;
use std::time::Duration;

use ::tokio::runtime::Handle;

use super::{Expired, run_as, run_here};
use crate::engine::Batch;
use crate::panics;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::time::real_time;

/// How long the worker waits for the task to begin.
const PATIENCE: Duration = Duration::from_millis(2);

/// One worker's way to the runtime.
pub(crate) struct Runtime {
    handle: Handle,
    waiting: Arc<Mutex<Waiting>>,
}

/// The state that the worker and the runtime's task share.
#[derive(Default)]
struct Waiting {
    /// The batch that the task has not begun, and when the first of it was handed over, by
    /// [`real_time`].
    batch: Option<(Batch, Duration)>,
    /// Whether there is a task. A runtime that does not run gets no more of them.
    has_task: bool,
}

impl Runtime {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle, waiting: Arc::default() }
    }

    /// Wakes these futures, or has the runtime wake them.
    pub(crate) fn wake(&self, wakes: Batch) {
        // For one future a task costs more than its wake-up does.
        if wakes.len() == 1 || wakes.remote().is_closed() {
            return run_here(wakes);
        }
        let engine = wakes.shared().id();
        let mut waiting = lock(&self.waiting);
        match &mut waiting.batch {
            Some((earlier, _)) => earlier.append(wakes),
            none => *none = Some((wakes, real_time())),
        }
        if std::mem::replace(&mut waiting.has_task, true) {
            return;
        }
        drop(waiting);
        let task = Task(Arc::clone(&self.waiting));
        // A runtime that has shut down drops the task, which runs it. A hook of the runtime's user
        // may run in the spawn.
        let spawn = || drop(self.handle.spawn(async move { drop(task) }));
        run_as(engine, || panics::catch(spawn));
    }

    /// Wakes the futures that the runtime should have woken by now. Returns for how long the others
    /// may still wait.
    pub(crate) fn look(&self) -> Option<Duration> {
        let waiting = lock(&self.waiting);
        let (batch, since) = waiting.batch.as_ref()?;
        if !batch.remote().is_closed() {
            // By a clock that is moved by hand the runtime has all the time that it takes.
            if batch.shared().timeline().as_manual().is_some() {
                return None;
            }
            let left = PATIENCE.saturating_sub(real_time().saturating_sub(*since));
            if !left.is_zero() {
                return Some(left);
            }
        }
        run(waiting);
        None
    }
}

/// The runtime's task. It wakes the futures when the runtime runs it or drops it.
struct Task(Arc<Mutex<Waiting>>);

impl Drop for Task {
    fn drop(&mut self) {
        let mut waiting = lock(&self.0);
        waiting.has_task = false;
        run(waiting);
    }
}

/// Takes what waits out, and wakes its futures, under no lock: a waker may do anything.
fn run(mut waiting: MutexGuard<'_, Waiting>) {
    let batch = waiting.batch.take();
    drop(waiting);
    batch.map(|(batch, _)| Expired::uncounted(batch)).into_iter().for_each(Expired::run);
}
