//! The watchdog: whether the workers make progress, and which task keeps a thread.

use std::time::Duration;

use super::Timer;
use super::engine::{Engine, Runner};
use crate::count::{CANNOT_START, ENDED, PANICKING};

/// A worker is behind, or a task is stuck, if it takes longer than this.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// A snapshot of the health of an engine: see [`Timer::health`](crate::Timer::health). Durations
/// are in the engine's time.
///
/// ```
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let health = timer.health();
/// for (number, shard) in health.shards.iter().enumerate() {
///     if shard.stuck_task.is_some() || shard.behind > health.stuck_after {
///         println!("shard {number}: {shard:?}");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The health of each shard, in the order of their numbers.
    pub shards: Vec<ShardHealth>,
    /// Whether all threads of the engine's [`ThreadPool`](crate::ThreadPool) have been in their
    /// tasks for longer than `stuck_after` while other tasks wait for one. A worker looks at least
    /// 7 times a second.
    pub stuck_pool: bool,
    /// The bound that this snapshot goes by: a second.
    pub stuck_after: Duration,
}

/// The health of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardHealth {
    /// The state of its worker.
    pub worker: WorkerState,
    /// The time since its last turn began, or, before the first turn, since the worker began.
    /// `None` if neither has begun. A worker that has nothing to do does not turn.
    pub last_turn: Option<Duration>,
    /// By how much the shard is behind. If its worker sleeps, this is the time since it should have
    /// turned. If the worker is in a turn, this is the length of that turn so far. For a driven
    /// shard, this is the time since its driver should have turned it, by the timeouts that were
    /// pending at its last turn.
    pub behind: Duration,
    /// The number of entries that wait in its inbox, as in [`ShardStats`](crate::ShardStats). If it
    /// does not fall, nothing turns the shard. No other figure includes the timeouts that have come
    /// since its last turn.
    pub inbox_depth: usize,
    /// How long the longest task of the shard has been running, on any thread. `None` if that is
    /// not longer than `stuck_after`. The time may include up to 63 earlier tasks of its batch,
    /// because the clock is read once in 64 tasks.
    pub stuck_task: Option<Duration>,
    /// The number of turns that panicked since the engine's start. After such a turn the worker
    /// goes on with its wheel as it was.
    pub panicked_turns: u64,
}

/// The state of a shard's worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorkerState {
    /// It has not started, because it has not been needed yet.
    NotStarted,
    /// The system gave no thread for it. Timeouts of the shard wait. Each schedule, and each call
    /// of [`Timer::health`](crate::Timer::health), tries again.
    CannotStart,
    /// It has started. It is in a turn, or waits.
    Running,
    /// Its turns panic, for example because a user clock does. It tries again, at growing
    /// intervals.
    Panicking,
    /// The shard has no worker: a driver turns it.
    Driven,
    /// The engine has been shut down.
    Ended,
    /// This process was forked off after the engine was made. The worker stayed in the parent.
    Forked,
}

impl Timer {
    /// Returns a snapshot of the health of the workers and the tasks. The call allocates. It costs
    /// the producers nothing. It tries again to start a worker that the system gave no thread for.
    ///
    /// ```
    /// use tourbillon::{Timer, WorkerState};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let health = timer.health(); // for a health check's answer
    /// assert!(health.is_healthy());
    /// assert_eq!(health.shards[0].worker, WorkerState::NotStarted); // nothing was scheduled yet
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn health(&self) -> Health {
        Health::of(&self.owner.engine)
    }
}

impl Health {
    /// Returns whether the engine is healthy: every worker that is needed has started and is at
    /// most `stuck_after` behind, and neither a task nor the pool is stuck.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        let is_there =
            |worker| !matches!(worker, WorkerState::CannotStart | WorkerState::Panicking | WorkerState::Forked);
        let is_on_time = |shard: &ShardHealth| shard.stuck_task.is_none() && shard.behind <= self.stuck_after;
        !self.stuck_pool && self.shards.iter().all(|shard| is_there(shard.worker) && is_on_time(shard))
    }

    pub(super) fn of(engine: &Engine) -> Self {
        let shards = (0..engine.shared.remotes().len()).map(|index| ShardHealth::of(engine, index)).collect();
        Self { shards, stuck_pool: engine.has_stuck_pool(), stuck_after: STUCK_AFTER }
    }
}

impl ShardHealth {
    fn of(engine: &Engine, index: usize) -> Self {
        let (shared, remote) = (&engine.shared, engine.shared.remote(index));
        if remote.fault.get() == CANNOT_START && !shared.is_forked() {
            remote.ring();
        }
        let fault = remote.fault.get();
        let worker = match &engine.runner {
            _ if shared.is_forked() => WorkerState::Forked,
            _ if fault == ENDED => WorkerState::Ended,
            Runner::Driver(_) => WorkerState::Driven,
            Runner::Workers(_) if fault == CANNOT_START => WorkerState::CannotStart,
            Runner::Workers(_) if fault == PANICKING => WorkerState::Panicking,
            Runner::Workers(workers) if workers.is_started(index) => WorkerState::Running,
            Runner::Workers(_) => WorkerState::NotStarted,
        };
        let timeline = shared.timeline();
        // Read these times before the clock, so that nothing seems to have begun in the future.
        let last_ns = remote.counters.last_turn();
        let began_ns = shared.running().filter(|(shard, _)| *shard == index).map(|(_, since)| since).min();
        let due_ns = match remote.sleeps_until() {
            // It sleeps, and has nothing to do until then.
            Some(until) => Some(timeline.scale().ns_of(until)),
            None if worker == WorkerState::Driven => last_ns.map(|_| remote.counters.next_turn.get()),
            // It is in a turn, which began then.
            None => last_ns,
        };
        let now_ns = timeline.now_ns();
        let ago = |ns: u64| Duration::from_nanos(now_ns.saturating_sub(ns));
        let is_alive = !matches!(worker, WorkerState::Ended | WorkerState::NotStarted | WorkerState::Forked);
        Self {
            worker,
            last_turn: last_ns.map(ago),
            behind: due_ns.filter(|_| is_alive).map_or(Duration::ZERO, ago),
            inbox_depth: remote.inbox_depth(),
            stuck_task: began_ns.map(ago).filter(|running| *running > STUCK_AFTER),
            panicked_turns: remote.counters.panicked_turns.get(),
        }
    }
}
