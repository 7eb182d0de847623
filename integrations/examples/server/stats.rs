//! The page's data: the engine's statistics and health, how fast the counters grow, and the
//! lateness of the last minute.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tourbillon::{Lateness, ShardHealth, ShardStats, Stats, Timer, WorkerState};

use super::App;

/// Number of samples to keep. There is one a second.
const KEPT: usize = 120;
/// Number of samples in a minute, and from one snapshot of the lateness to the next.
const MINUTE: usize = 60;
const STEP: usize = 5;

/// The bars of the lateness chart end there, in microseconds. The last one has no end.
const BARS_US: [u64; 16] =
    [10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000];

/// What was counted up to a sample, and a second since the one before.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    sums: [u64; 4],
    rates: [f64; 4],
}

/// What the periodic job has seen.
#[derive(Debug)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    /// What was late since the engine's start, of the engine and then of each shard: at each fifth
    /// sample of the last minute, the oldest first.
    earlier: VecDeque<Vec<Lateness>>,
    pushes: usize,
    /// What was late in the last minute, in the same order.
    last_minute: Vec<Lateness>,
}

impl History {
    pub(super) fn new(timer: &Timer) -> Self {
        let (now, stats) = (timer.now(), timer.stats());
        let (samples, earlier) = (VecDeque::new(), VecDeque::new());
        let mut this = Self { samples, earlier, pushes: 0, last_minute: Vec::new() };
        this.push(now, &stats);
        this
    }

    pub(super) fn push(&mut self, now: Instant, stats: &Stats) {
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
        let last = self.samples.back().copied().unwrap_or(Sample { at: now, sums, rates: [0.0; 4] });
        let seconds = now.saturating_duration_since(last.at).as_secs_f64();
        let rate = |at: usize| sums[at].saturating_sub(last.sums[at]) as f64 / seconds;
        let rates = if seconds > 0.0 { std::array::from_fn(rate) } else { last.rates };
        self.samples.push_back(Sample { at: now, sums, rates });
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
    history: Vec<Rates>,
    lateness: LastMinute,
    shards: Vec<Shard>,
}

/// Operations a second, at some time.
#[derive(Debug, Serialize)]
struct Rates {
    ago_s: f64,
    scheduled: f64,
    reset: f64,
    cancelled: f64,
    fired: f64,
}

#[derive(Debug, Serialize)]
struct LastMinute {
    runs: u64,
    /// A percentage, and the lateness that it does not exceed.
    percentiles: Vec<(f64, f64)>,
    /// For each bar of the chart, where it ends, and the runs in it.
    bars: Vec<(Option<f64>, u64)>,
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
        let ends = BARS_US.map(Duration::from_micros);
        let (mut bars, mut before) = (Vec::new(), 0);
        for end in ends.map(Some).into_iter().chain([None]) {
            let up_to = end.map_or(lateness.count(), |end| lateness.count_at_most(end));
            bars.push((end.map(ms), up_to - before));
            before = up_to;
        }
        Self {
            runs: lateness.count(),
            percentiles: percentiles.map(|percent| (percent, ms(lateness.percentile(percent)))).to_vec(),
            bars,
        }
    }
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
        let rates = |sample: &Sample| {
            let [scheduled, reset, cancelled, fired] = sample.rates;
            let ago_s = now.saturating_duration_since(sample.at).as_secs_f64();
            Rates { ago_s, scheduled, reset, cancelled, fired }
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
            history: history.samples.iter().map(rates).collect(),
            lateness: LastMinute::of(engine),
            shards: shards.map(|((shard, health), late)| Shard::of(shard, health, late)).collect(),
        }
    }
}
