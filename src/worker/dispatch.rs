//! The batches that a worker hands out, the hooks that it calls, and the [`Turn`] that it reports.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Batch, Core, Due, SharedRef, TurnResult};
#[cfg(feature = "tokio")]
use crate::executor::Runtime;
use crate::executor::{Chosen, Expired, Help, ThreadPool, run_as, run_here, run_in_turn};
use crate::panics::{self, CatchUnwind};
use crate::time::{Subtick, real_time};

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
    /// When to look whether a batch makes progress. `None` if all batches handed over have ended,
    /// or none can hold up another.
    looks: Option<Looks>,
}

/// When a worker looks whether a task holds up others of its batch.
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
        // A batch that waits for a thread may wait for tasks that do not end.
        if self.looks.is_none() && self.executor.pool.as_ref().is_some_and(ThreadPool::is_full) {
            self.looks = Some(Looks { last: real_time(), since: Looks::RARE });
        }
    }

    /// Wakes the futures of this batch, or has the executor wake them.
    pub(super) fn wake(&mut self, wakes: Batch) {
        #[cfg(feature = "tokio")]
        if let Some(runtime) = &self.runtime {
            return runtime.wake(wakes);
        }
        run_here(wakes);
    }

    /// Called before the worker sleeps, and when it has no time for that. Finds help for a batch,
    /// if need be. Returns for how long the worker may sleep, if there is a limit.
    pub(super) fn sleeps_at_most(&mut self) -> Option<Duration> {
        let help = self.look_for_help();
        #[cfg(feature = "tokio")]
        let help = self.runtime.as_ref().and_then(Runtime::look).into_iter().chain(help).min();
        help
    }
}

/// A turn of one shard, for [`Builder::on_turn`](crate::Builder::on_turn). (After the `WheelTick`
/// event of the C# wheels.)
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{Timer, Turn};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let slow = |turn: &Turn| {
///     if turn.took() > Duration::from_millis(1) {
///         println!("{} timeouts took {:?}", turn.expired(), turn.took());
///     }
/// };
/// let timer = Timer::builder().on_turn(slow).build()?;
/// # drop(timer);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    shard: usize,
    number: u64,
    expired: usize,
    linked: usize,
    took: Duration,
}

impl Turn {
    /// Reports a turn at `now` that has just ended. The shard had been turned to `before`. Returns
    /// `None` if no tick has come and nothing has expired.
    pub(crate) fn of(
        shared: &SharedRef,
        shard: &Core,
        turn: TurnResult,
        before: Subtick,
        now: Subtick,
        began_ns: u64,
    ) -> Option<Self> {
        let scale = shared.timeline().scale();
        let [was, is, number] = [before, shard.turned_to(), now.max(before)].map(|at| scale.last_tick(at));
        if is == was && turn.fired == 0 {
            return None;
        }
        // If the clock panics, the turn must still wake the threads and futures that wait for it.
        let now_ns = shared.timeline().try_now_ns().unwrap_or(began_ns);
        Some(Self {
            shard: shard.index(),
            number,
            expired: turn.fired,
            linked: shard.linked(),
            took: Duration::from_nanos(now_ns.saturating_sub(began_ns)),
        })
    }

    /// Returns the shard that was turned.
    #[must_use]
    pub fn shard(&self) -> usize {
        self.shard
    }

    /// Returns the tick that the shard was turned to. All timeouts that were due by then have
    /// expired, within the limits of a turn. Ticks in which there was nothing to do are skipped.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns how many timeouts expired in the turn.
    #[must_use]
    pub fn expired(&self) -> usize {
        self.expired
    }

    /// Returns how many timeouts are in the shard's wheel after the turn. That includes cancelled
    /// ones that have not been collected yet.
    #[must_use]
    pub fn linked(&self) -> usize {
        self.linked
    }

    /// Returns how long the turn took, by the engine's clock. With [`Inline`](crate::Inline) or a
    /// driver, this includes all tasks that ran in the turn.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_worker_looks_for_help_twice_within_2_ms_and_then_ever_more_rarely() {
        let after = |since| Looks { last: Duration::ZERO, since }.interval().as_millis();
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 8, u32::MAX].map(after), [1, 1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }
}
