//! The watchdog: whether the workers do their work, and which task keeps a thread.

use std::time::Duration;

use super::engine::{Engine, Runner};

/// How an engine is doing, as of one moment: see [`Timer::health`](crate::Timer::health). Durations are of the engine's time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Each shard's.
    pub shards: Vec<ShardHealth>,
    /// What was taken as too long: [`Builder::stuck_after`](crate::Builder::stuck_after).
    pub stuck_after: Duration,
}

/// How one shard is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardHealth {
    /// What its worker does.
    pub worker: WorkerState,
    /// How long ago its last turn began, or its worker, if that has not turned yet; none if neither has. A worker that has
    /// nothing to do does not turn.
    pub last_turn: Option<Duration>,
    /// By how much it is behind: how long ago it should have turned and has not, or for how long it has been at one
    /// turn. (Of a driven shard: since when its driver should have turned it, by what was pending at its last turn.)
    pub behind: Duration,
    /// Entries that wait in its inbox. If they are there to stay, nobody turns the shard: what has come since its last turn is
    /// in none of the other figures.
    pub backlog: usize,
    /// The longest that one of its tasks has been running up to now, on whatever thread, if that is longer than
    /// `stuck_after`. (Or that task and up to 63 others before it in its batch: the clock is not read for each.)
    pub stuck_task: Option<Duration>,
    /// Turns that panicked since the engine's start, after which the worker went on with its wheel as it was.
    pub restarts: u64,
}

/// What a shard's worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerState {
    /// It has not been needed yet.
    NotStarted,
    /// The system gave no thread for it. What is scheduled waits, and each schedule, and each call of
    /// [`Timer::health`](crate::Timer::health), tries again.
    CannotStart,
    /// It is there: at a turn, or waiting.
    Running,
    /// Its turns panic (a clock of the user's does, for example). It tries again, at growing intervals.
    Panicking,
    /// There is none: a driver turns the shard.
    Driven,
    /// The engine has been shut down.
    Ended,
    /// This process was forked off after the engine was made, and the worker stayed with the parent.
    Forked,
}

impl Health {
    /// Whether all is as it should be: every worker that is needed is there and not behind, and no task is stuck.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.shards.iter().all(|shard| {
            let is_there =
                !matches!(shard.worker, WorkerState::CannotStart | WorkerState::Panicking | WorkerState::Forked);
            is_there && shard.stuck_task.is_none() && shard.behind <= self.stuck_after
        })
    }

    pub(super) fn of(engine: &Engine) -> Self {
        let shards = (0..engine.shared.remotes().len()).map(|index| ShardHealth::of(engine, index)).collect();
        Self { shards, stuck_after: engine.stuck_after }
    }
}

impl ShardHealth {
    fn of(engine: &Engine, index: usize) -> Self {
        let (shared, remote) = (&engine.shared, engine.shared.remote(index));
        if remote.fault.cannot_start() && !shared.is_forked() {
            remote.ring();
        }
        shared.remote(index).check_worker();
        let worker = match &engine.runner {
            _ if shared.is_forked() => WorkerState::Forked,
            _ if remote.fault.is_closed() => WorkerState::Ended,
            Runner::Driver(_) => WorkerState::Driven,
            Runner::Workers(_) if remote.fault.cannot_start() => WorkerState::CannotStart,
            Runner::Workers(_) if remote.fault.is_panicking() => WorkerState::Panicking,
            Runner::Workers(workers) if workers.is_started(index) => WorkerState::Running,
            Runner::Workers(_) => WorkerState::NotStarted,
        };
        let timeline = shared.timeline();
        // The marks before the clock: what has begun is never in the future.
        let last_ns = remote.heartbeat.last();
        let began_ns = shared.running().filter(|(shard, _)| *shard == index).map(|(_, since)| since).min();
        let due_ns = match remote.sleeps_until() {
            // It sleeps: until then it has nothing to do.
            Some(until) => Some(timeline.scale().ns_of(until)),
            None if worker == WorkerState::Driven => last_ns.map(|_| remote.heartbeat.next()),
            // It is at a turn, which has taken since then.
            None => last_ns,
        };
        let now_ns = timeline.now_ns();
        let ago = |ns: u64| Duration::from_nanos(now_ns.saturating_sub(ns));
        let is_alive = !matches!(worker, WorkerState::Ended | WorkerState::NotStarted | WorkerState::Forked);
        Self {
            worker,
            last_turn: last_ns.map(ago),
            behind: due_ns.filter(|_| is_alive).map_or(Duration::ZERO, ago),
            backlog: remote.inbox_depth(),
            stuck_task: began_ns.map(ago).filter(|running| *running > engine.stuck_after),
            restarts: remote.counters.restarts.get(),
        }
    }
}
