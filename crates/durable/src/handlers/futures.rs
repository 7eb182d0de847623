//! Runs whose handlers are async: a runtime of the user's polls them.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use super::run::{AsRunner, Run, Surroundings, panicked};
use crate::due::{Due, Outcome};
use crate::inbox::{End, Ended};
use crate::panics::drop_quietly;
use crate::store::Token;

/// A run of an async handler, which [`Builder::async_handler`](crate::Builder::async_handler) gives
/// to a runtime.
pub type RunFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The handler's own future.
pub(crate) type Polled = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// An async handler, and what gives its runs to a runtime.
pub(crate) struct AsyncHandler {
    pub(crate) call: Box<dyn Fn(Due) -> Polled + Send + Sync>,
    pub(crate) spawn: Box<dyn Fn(RunFuture) + Send + Sync>,
}

/// The runs of one async handler: so many are with the runtime, and the others wait here.
pub(super) struct Slots {
    handler: Arc<AsyncHandler>,
    limit: usize,
    surroundings: Surroundings,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Run>,
    under_way: usize,
    /// Whether a thread gives runs to the runtime. That may end some at once, on the same thread.
    spawning: bool,
}

impl Slots {
    pub(super) fn new(handler: Arc<AsyncHandler>, limit: usize, surroundings: Surroundings) -> Self {
        Self { handler, limit, surroundings, state: Mutex::default(), ended: Condvar::new() }
    }

    pub(super) fn push(self: &Arc<Self>, run: Run) {
        self.lock().waiting.push_back(run);
        self.spawn();
    }

    /// Takes out the runs that wait.
    pub(super) fn drain(&self) -> VecDeque<Run> {
        std::mem::take(&mut self.lock().waiting)
    }

    /// Blocks until none is under way.
    pub(super) fn join(&self) {
        let ended = self.ended.wait_while(self.lock(), |state| state.under_way > 0);
        drop(ended.unwrap_or_else(PoisonError::into_inner));
    }

    /// Gives as many runs to the runtime as there is room for.
    fn spawn(self: &Arc<Self>) {
        let mut state = self.lock();
        while !state.spawning
            && state.under_way < self.limit
            && let Some(run) = state.waiting.pop_front()
        {
            state.under_way += 1;
            state.spawning = true;
            drop(state);
            let task = Task::new(run, Arc::clone(self));
            // If it panics, the task is dropped.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.handler.spawn)(Box::pin(task)))) {
                drop_quietly(payload);
            }
            state = self.lock();
            state.spawning = false;
        }
    }

    fn end(self: &Arc<Self>, ended: Ended) {
        self.surroundings.inbox.push_ended(ended);
        self.lock().under_way -= 1;
        self.ended.notify_all();
        self.spawn();
    }

    /// No code of the user's runs under this lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run as the runtime has it. It says how it has ended, also if it is dropped first.
struct Task {
    token: Token,
    stage: Stage,
    begun: Instant,
    slots: Arc<Slots>,
}

enum Stage {
    Waits(Run),
    Runs(Polled),
    Ended,
}

impl Task {
    fn new(run: Run, slots: Arc<Slots>) -> Self {
        Self { token: Token::of(&run.due), stage: Stage::Waits(run), begun: Instant::now(), slots }
    }

    /// Begins the run, or returns how it has ended.
    fn begin(&mut self, Run { handler, due }: Run) -> Result<Polled, End> {
        self.begun = Instant::now();
        if !self.slots.surroundings.begin(&handler, &due) {
            return Err(End::NotBegun);
        }
        catch_unwind(AssertUnwindSafe(|| (self.slots.handler.call)(due))).map_err(panicked)
    }

    fn end(&mut self, end: End) {
        let ended = Ended { token: self.token.clone(), end, took: self.begun.elapsed() };
        self.slots.end(ended);
    }
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // A stop that the handler calls does not wait for the handler.
        let _runner = AsRunner::enter();
        let begun = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Waits(run) => self.begin(run),
            Stage::Runs(future) => Ok(future),
            Stage::Ended => return Poll::Ready(()),
        };
        let end = match begun {
            Err(end) => end,
            Ok(mut future) => match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
                Ok(Poll::Pending) => {
                    self.stage = Stage::Runs(future);
                    return Poll::Pending;
                }
                Ok(Poll::Ready(outcome)) => {
                    drop_quietly(future);
                    End::Returned(outcome)
                }
                Err(payload) => {
                    drop_quietly(future);
                    panicked(payload)
                }
            },
        };
        self.end(end);
        Poll::Ready(())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Ended => {}
            Stage::Waits(_) => self.end(End::Refused),
            Stage::Runs(future) => {
                let _runner = AsRunner::enter();
                drop_quietly(future);
                self.end(End::Dropped);
            }
        }
    }
}
