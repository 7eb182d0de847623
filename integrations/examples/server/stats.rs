//! The page's data: the engine's statistics and health, how fast the counters grow, the lateness of
//! the last minute, and the shape of the wheels.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tourbillon::{Lateness, ShardHealth, ShardStats, Stats, Timer, WorkerState};

use super::{App, LEVELS};

/// Number of samples to keep. There is one a second.
const KEPT: usize = 120;
/// Number of samples in a minute, and from one snapshot of the lateness to the next.
const MINUTE: usize = 60;
const STEP: usize = 5;

/// A tick of 1 ms has so many parts: see `Builder::tick_duration`.
const PARTS: usize = 16;

/// The counts up to a sample, and their growth a second since the one before.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    sums: [u64; 4],
    rates: [f64; 4],
    late: Option<[f64; 3]>,
}

/// The observations of the periodic job.
#[derive(Debug)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    /// The lateness since the engine's start, of the engine and then of each shard: at each fifth
    /// sample of the last minute, the oldest first.
    earlier: VecDeque<Vec<Lateness>>,
    pushes: usize,
    /// The lateness of the last minute, in the same order.
    last_minute: Vec<Lateness>,
    /// The engine's lateness up to the last sample.
    last: Lateness,
}

impl History {
    pub(super) fn new(timer: &Timer) -> Self {
        let (now, stats) = (timer.now(), timer.stats());
        let (samples, earlier, last) = (VecDeque::new(), VecDeque::new(), Lateness::default());
        let mut this = Self { samples, earlier, pushes: 0, last_minute: Vec::new(), last };
        this.push(now, &stats);
        this
    }

    pub(super) fn push(&mut self, now: Instant, stats: &Stats) {
        let second = stats.lateness.since(&self.last);
        let late = (second.count() > 0).then(|| [50.0, 99.0, 100.0].map(|percent| ms(second.percentile(percent))));
        self.last = stats.lateness.clone();
        let latenesses = [&stats.lateness].into_iter().chain(stats.shards.iter().map(|shard| &shard.lateness));
        let latenesses: Vec<Lateness> = latenesses.cloned().collect();
        let oldest = self.earlier.front().unwrap_or(&latenesses);
        self.last_minute = latenesses.iter().zip(oldest).map(|(now, then)| now.since(then)).collect();
        if self.pushes.is_multiple_of(STEP) {
            self.earlier.push_back(latenesses);
            self.earlier.drain(..self.earlier.len().saturating_sub(MINUTE / STEP + 1));
        }
        self.pushes += 1;
        let sums = [stats.scheduled, stats.reset, stats.cancelled, stats.fired];
        let last = self.samples.back().copied().unwrap_or(Sample { at: now, sums, rates: [0.0; 4], late });
        let seconds = now.saturating_duration_since(last.at).as_secs_f64();
        let rate = |at: usize| sums[at].saturating_sub(last.sums[at]) as f64 / seconds;
        let rates = if seconds > 0.0 { std::array::from_fn(rate) } else { last.rates };
        self.samples.push_back(Sample { at: now, sums, rates, late });
        if self.samples.len() > KEPT {
            self.samples.pop_front();
        }
    }
}

/// All that the page shows. Times are in milliseconds, if their name says nothing else.
#[derive(Debug, Serialize)]
pub(super) struct Snapshot {
    requests: u64,
    timed_out: u64,
    connections: u64,
    idle_closed: u64,
    slow_headers: u64,
    pending: usize,
    healthy: bool,
    stuck_after: f64,
    panicked: u64,
    panicked_turns: u64,
    tick: f64,
    current_tick: u64,
    levels: Vec<Level>,
    history: Vec<Second>,
    lateness: LastMinute,
    shards: Vec<Shard>,
}

/// A level of each shard's wheel. A slot holds the timeouts of so much time.
#[derive(Debug, Serialize)]
struct Level {
    slots: usize,
    slot: f64,
}

/// The operations of one second at some time, and how late its runs were: p50, p99 and the most.
#[derive(Debug, Serialize)]
struct Second {
    ago_s: f64,
    scheduled: f64,
    reset: f64,
    cancelled: f64,
    fired: f64,
    late: Option<[f64; 3]>,
}

#[derive(Debug, Serialize)]
struct LastMinute {
    runs: u64,
    /// A percentage, and the lateness that it does not exceed.
    percentiles: Vec<(f64, f64)>,
}

#[derive(Debug, Serialize)]
struct Shard {
    pending: usize,
    linked: u64,
    inbox: usize,
    turns: u64,
    wakeups: u64,
    pinned_to: Option<usize>,
    worker: String,
    behind: f64,
    stuck_task: Option<f64>,
    panicked_turns: u64,
    lateness: LastMinute,
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn words(worker: WorkerState) -> String {
    let words = match worker {
        WorkerState::NotStarted => "not started, as nothing was scheduled yet",
        WorkerState::CannotStart => "can't start: the system gives no thread",
        WorkerState::Running => "running",
        WorkerState::Panicking => "its turns panic",
        WorkerState::Ended => "shut down",
        other => return format!("{other:?}"),
    };
    words.to_owned()
}

impl LastMinute {
    fn of(lateness: &Lateness) -> Self {
        let percentiles = [50.0, 90.0, 99.0, 99.9, 100.0];
        Self {
            runs: lateness.count(),
            percentiles: percentiles.map(|percent| (percent, ms(lateness.percentile(percent)))).to_vec(),
        }
    }
}

/// The levels of each shard's wheel, the finest first, as `Builder::ticks_per_wheel` says.
fn levels(timer: &Timer) -> Vec<Level> {
    let ticks = timer.ticks_per_wheel();
    let level = |level| {
        let parts = if level == 0 { PARTS } else { 1 };
        let slot = ms(timer.tick_duration()) * ticks.pow(level) as f64 / parts as f64;
        Level { slots: 2 * ticks * parts, slot }
    };
    (0..LEVELS).map(level).collect()
}

impl Shard {
    fn of(shard: &ShardStats, health: &ShardHealth, last_minute: &Lateness) -> Self {
        Self {
            pending: shard.pending,
            linked: shard.linked,
            inbox: shard.inbox_depth,
            turns: shard.turns,
            wakeups: shard.wakeups,
            pinned_to: shard.pinned_to,
            worker: words(health.worker),
            behind: ms(health.behind),
            stuck_task: health.stuck_task.map(ms),
            panicked_turns: health.panicked_turns,
            lateness: LastMinute::of(last_minute),
        }
    }
}

impl Snapshot {
    pub(super) fn of(app: &App, history: &History) -> Self {
        let (now, stats, health) = (app.timer.now(), app.timer.stats(), app.timer.health());
        let limits = app.limits.stats();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let second = |sample: &Sample| {
            let [scheduled, reset, cancelled, fired] = sample.rates;
            let ago_s = now.saturating_duration_since(sample.at).as_secs_f64();
            Second { ago_s, scheduled, reset, cancelled, fired, late: sample.late }
        };
        let (engine, by_shard) = history.last_minute.split_first().expect("the first push fills it");
        let shards = stats.shards.iter().zip(&health.shards).zip(by_shard);
        Self {
            requests: count(&app.requests),
            timed_out: count(&app.timed_out),
            connections: count(&app.connections),
            idle_closed: limits.idle,
            slow_headers: limits.header,
            pending: stats.pending,
            healthy: health.is_healthy(),
            stuck_after: ms(health.stuck_after),
            panicked: stats.panicked,
            panicked_turns: stats.panicked_turns,
            tick: ms(app.timer.tick_duration()),
            current_tick: app.timer.current_tick(),
            levels: levels(&app.timer),
            history: history.samples.iter().map(second).collect(),
            lateness: LastMinute::of(engine),
            shards: shards.map(|((shard, health), late)| Shard::of(shard, health, late)).collect(),
        }
    }
}
