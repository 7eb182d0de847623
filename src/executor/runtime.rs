//! A Tokio runtime that wakes the futures of a turn.
//!
//! A waker that is called outside of its runtime costs that runtime a wake-up of its own. So one
//! task of the runtime wakes all futures that came up in a turn. The runtime may be blocked, or
//! have no thread that runs it, or its task may wait for one of these very futures. So the worker
//! takes back what the task has not begun after [`PATIENCE`], and at once when the shard is closed.

use std::sync::Arc;
use std::time::Duration;

use ::tokio::runtime::Handle;

use super::runs::run_as;
use super::{Expired, run_here};
use crate::engine::Batch;
use crate::panics;
use crate::sync::{Mutex, lock};
use crate::time::RealTime;

/// How long the worker waits for the task to begin.
const PATIENCE: Duration = Duration::from_millis(2);

/// One worker's way to the runtime.
pub(super) struct Runtime {
    handle: Handle,
    /// What a task has been spawned for and has not begun.
    waiting: Arc<Mutex<Option<Batch>>>,
    /// When the first of it was handed over.
    since: Option<RealTime>,
}

impl Runtime {
    pub(super) fn new(handle: Handle) -> Self {
        Self { handle, waiting: Arc::default(), since: None }
    }

    /// Wakes these futures, or has the runtime wake them.
    pub(super) fn wake(&mut self, wakes: Batch) {
        // For one future a task costs more than its wake-up does.
        if wakes.len() == 1 || is_closed(&wakes) {
            return run_here(wakes);
        }
        let engine = wakes.shared().id();
        let mut waiting = lock(&self.waiting);
        if let Some(earlier) = &mut *waiting {
            return earlier.append(wakes);
        }
        *waiting = Some(wakes);
        drop(waiting);
        self.since = Some(RealTime::now());
        let task = Task(Arc::clone(&self.waiting));
        // A runtime that has shut down drops the task, which runs it. A hook of the runtime's user
        // may run in the spawn.
        let spawn = || drop(self.handle.spawn(async move { drop(task) }));
        run_as(engine, || panics::catch(spawn));
    }

    /// Wakes the futures that the runtime should have woken by now. Returns for how long the others
    /// may still wait.
    pub(super) fn look(&mut self) -> Option<Duration> {
        let since = self.since?;
        let left = PATIENCE.saturating_sub(since.elapsed());
        match &*lock(&self.waiting) {
            // By a clock that is moved by hand the runtime has all the time that it takes.
            Some(batch) if batch.shared().timeline().as_manual().is_some() && !is_closed(batch) => return None,
            Some(batch) if !left.is_zero() && !is_closed(batch) => return Some(left),
            _ => self.since = None,
        }
        take(&self.waiting).into_iter().for_each(Expired::run);
        None
    }
}

/// What the runtime runs, or drops.
struct Task(Arc<Mutex<Option<Batch>>>);

impl Drop for Task {
    fn drop(&mut self) {
        take(&self.0).into_iter().for_each(Expired::run);
    }
}

fn is_closed(batch: &Batch) -> bool {
    batch.shared().remote(batch.shard()).is_closed()
}

/// Takes out what waits. It is run without the lock, as a waker may do anything.
fn take(waiting: &Mutex<Option<Batch>>) -> Option<Expired> {
    lock(waiting).take().map(Expired::uncounted)
}
