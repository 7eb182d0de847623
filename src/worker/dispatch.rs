//! What a worker hands to the executor, and the hooks that it calls.

use std::sync::Arc;
use std::time::Duration;

use super::turn::Turn;
use crate::engine::{Batch, Due};
#[cfg(feature = "tokio")]
use crate::executor::Runtime;
use crate::executor::{Chosen, Expired, Help, ThreadPool, run_as, run_here, run_in_turn};
use crate::panics::{self, CatchUnwind};
use crate::time::real_time;

/// Called after a turn.
pub(crate) type TurnHook = Arc<dyn Fn(&Turn) + Send + Sync>;

/// Called by each worker before its first turn, with the number of its shard.
pub(crate) type StartHook = Arc<dyn Fn(usize) + Send + Sync>;

/// Hands a worker's batches to the user's executor. None of its functions, nor its drop, panics or
/// calls back into the worker.
pub(crate) struct Dispatch {
    executor: Chosen,
    #[cfg(feature = "tokio")]
    runtime: Option<Runtime>,
    pub(super) hooks: WorkerHooks,
    /// The looks whether a batch gets on. `None` if all that was handed over has ended, or none can
    /// hold up another.
    looks: Option<Looks>,
}

/// A worker's looks whether a task holds up others of its batch.
struct Looks {
    /// By [`real_time`].
    last: Duration,
    /// How many there were since a batch was handed over, or a thread was called.
    since: u32,
}

impl Looks {
    /// After so many looks they are no rarer than before.
    const RARE: u32 = 7;

    /// Returns how long after the last look the next one is due. They become rarer while nothing
    /// waits, or nobody can help: a thread that has nothing else to do looks by itself.
    fn interval(&self) -> Duration {
        Duration::from_millis(1 << (self.since.clamp(1, Self::RARE) - 1))
    }
}

/// The user's hooks that a worker calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerHooks {
    pub(crate) on_start: Option<CatchUnwind<StartHook>>,
    pub(crate) on_turn: Option<CatchUnwind<TurnHook>>,
}

impl Dispatch {
    pub(crate) fn new(executor: Chosen, hooks: WorkerHooks) -> Self {
        Self {
            #[cfg(feature = "tokio")]
            runtime: executor.runtime.clone().map(Runtime::new),
            executor,
            hooks,
            looks: None,
        }
    }

    /// Finds help for what waits behind a task that blocks. Returns when to look again.
    fn look_for_help(&mut self) -> Option<Duration> {
        let looks = self.looks.as_mut()?;
        if real_time().saturating_sub(looks.last) >= looks.interval() {
            match panics::catch(|| self.executor.find_help()).unwrap_or(Help::Never) {
                Help::Never => {
                    self.looks = None;
                    return None;
                }
                Help::NotNow => looks.since += 1,
                Help::Called => looks.since = 1,
            }
            looks.last = real_time();
        }
        Some(looks.interval())
    }

    /// Takes all that is due in a turn.
    pub(super) fn take(&mut self, due: &mut Due<'_>) {
        if self.executor.is_inline { run_in_turn(due) } else { due.hand_over(&mut |batch| self.accept(batch)) }
    }

    /// Hands a batch over.
    pub(crate) fn accept(&mut self, batch: Batch) {
        if self.executor.runs_all() && batch.len() > 1 {
            self.looks.get_or_insert_with(|| Looks { last: real_time(), since: 0 }).since = 0;
        }
        let engine = batch.shared().id();
        let expired = if self.executor.runs_all() { Expired::begin(batch) } else { Expired::uncounted(batch) };
        // Run as a task: if the executor shut its own engine down, it would wait for this very
        // thread. If the executor panics, unwinding drops the batch, which runs it.
        run_as(engine, || panics::catch(|| self.executor.execute(expired)));
        // What waits for a thread may wait for tasks that do not end.
        if self.looks.is_none() && self.executor.pool.as_ref().is_some_and(ThreadPool::is_full) {
            self.looks = Some(Looks { last: real_time(), since: Looks::RARE });
        }
    }

    /// Wakes the futures of this batch, or has the executor wake them.
    pub(super) fn wake(&mut self, wakes: Batch) {
        #[cfg(feature = "tokio")]
        if let Some(runtime) = &mut self.runtime {
            return runtime.wake(wakes);
        }
        run_here(wakes);
    }

    /// Called before the worker sleeps, and when it has no time for that. Finds help for a batch,
    /// if need be. Returns for how long the worker may sleep, if there is a limit.
    pub(super) fn sleeps_at_most(&mut self) -> Option<Duration> {
        let help = self.look_for_help();
        #[cfg(feature = "tokio")]
        let help = self.runtime.as_mut().and_then(Runtime::look).into_iter().chain(help).min();
        help
    }
}
