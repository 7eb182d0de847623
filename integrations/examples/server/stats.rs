//! The page's data: the engine's statistics, and how fast they grow.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;
use tourbillon::{Lateness, LevelStats, ShardStats, Stats};

use super::App;

/// Number of samples to keep. There is one a second.
const KEPT: usize = 120;

/// What was counted up to a sample, and in the second before it.
#[derive(Clone, Debug, Default, Serialize)]
struct Sample {
    pending: usize,
    scheduled: u64,
    reset: u64,
    cancelled: u64,
    fired: u64,
    #[serde(skip)]
    sums: [u64; 4],
}

#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Sample>);

impl History {
    pub(super) fn push(&mut self, stats: &Stats) {
        let sums = [stats.scheduled, stats.reset, stats.cancelled, stats.fired];
        let before = self.0.back().map_or(sums, |last| last.sums);
        let [scheduled, reset, cancelled, fired] = std::array::from_fn(|at| sums[at].saturating_sub(before[at]));
        self.0.push_back(Sample { pending: stats.pending, scheduled, reset, cancelled, fired, sums });
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }
}

/// All that the page shows.
#[derive(Debug, Serialize)]
pub(super) struct Snapshot {
    requests: u64,
    timed_out: u64,
    connections: u64,
    idle_closed: u64,
    pending: usize,
    current_tick: u64,
    tick_ms: f64,
    history: Vec<Sample>,
    shards: Vec<Shard>,
}

#[derive(Debug, Serialize)]
struct Shard {
    pending: usize,
    linked: u64,
    inbox: usize,
    turns: u64,
    wakeups: u64,
    pinned_to: Option<usize>,
    runs: u64,
    /// Of lateness, in milliseconds.
    percentiles: Vec<(f64, f64)>,
    levels: Vec<Level>,
}

#[derive(Debug, Serialize)]
struct Level {
    ticks_per_slot: u64,
    slots: usize,
    occupied: Vec<usize>,
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn percentiles(lateness: &Lateness) -> Vec<(f64, f64)> {
    [50.0, 90.0, 99.0, 99.9, 100.0].map(|percent| (percent, ms(lateness.percentile(percent)))).to_vec()
}

impl Level {
    fn of(level: &LevelStats) -> Self {
        let occupied = level.occupied_slots().collect();
        Self { ticks_per_slot: level.ticks_per_slot, slots: level.slots, occupied }
    }
}

impl Shard {
    fn of(shard: &ShardStats) -> Self {
        Self {
            pending: shard.pending,
            linked: shard.linked,
            inbox: shard.inbox_depth,
            turns: shard.turns,
            wakeups: shard.wakeups,
            pinned_to: shard.pinned_to,
            runs: shard.lateness.count(),
            percentiles: percentiles(&shard.lateness),
            levels: shard.levels.iter().map(Level::of).collect(),
        }
    }
}

impl Snapshot {
    pub(super) fn of(app: &App, history: &History) -> Self {
        let stats = app.timer.stats();
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            requests: count(&app.requests),
            timed_out: count(&app.timed_out),
            connections: count(&app.connections),
            idle_closed: count(&app.idle_closed),
            pending: stats.pending,
            current_tick: app.timer.current_tick(),
            tick_ms: ms(app.timer.tick_duration()),
            history: history.0.iter().cloned().collect(),
            shards: stats.shards.iter().map(Shard::of).collect(),
        }
    }
}
