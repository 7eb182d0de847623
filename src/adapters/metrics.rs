//! Publishes the counters, gauges and lateness of [`Timer::stats`], and what [`Timer::health`]
//! says, through the crate [`metrics`](::metrics), for Prometheus or any other of its exporters.
//! With the feature `metrics`.
//!
//! ```
//! use std::time::Duration;
//! use tourbillon::Timer;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // First the recorder: `PrometheusBuilder::new().install()?`, for example.
//! let timer = Timer::new()?;
//! // Publishes until it is cancelled.
//! let publishing = tourbillon::metrics::publish_every(&timer, Duration::from_secs(5))?;
//! # drop(publishing);
//! # Ok(())
//! # }
//! ```
//!
//! | Name | Kind | Labels | Meaning |
//! |---|---|---|---|
//! | `tourbillon_scheduled_total` | counter | `shard` | [`Stats::scheduled`] |
//! | `tourbillon_fired_total` | counter | `shard` | [`Stats::fired`] |
//! | `tourbillon_completed_total` | counter | `shard` | [`Stats::completed`] |
//! | `tourbillon_repeated_total` | counter | `shard` | [`Stats::repeated`] |
//! | `tourbillon_cancelled_total` | counter | `shard` | [`Stats::cancelled`] |
//! | `tourbillon_returned_total` | counter | `shard` | [`Stats::returned`] |
//! | `tourbillon_rejected_total` | counter | `shard` | [`Stats::rejected`] |
//! | `tourbillon_waits_total` | counter | `shard` | [`Stats::waits`] |
//! | `tourbillon_reset_total` | counter | `shard` | [`Stats::reset`] |
//! | `tourbillon_relinked_total` | counter | `shard` | [`Stats::relinked`] |
//! | `tourbillon_cascaded_total` | counter | `shard` | [`Stats::cascaded`] |
//! | `tourbillon_transferred_total` | counter | `shard` | [`Stats::transferred`] |
//! | `tourbillon_wakeups_total` | counter | `shard` | [`Stats::wakeups`] |
//! | `tourbillon_turns_total` | counter | `shard` | [`Stats::turns`] |
//! | `tourbillon_turns_over_budget_total` | counter | `shard` | [`Stats::turns_over_budget`]: rises while a shard is overloaded |
//! | `tourbillon_panicked_turns_total` | counter | `shard` | [`Stats::panicked_turns`] |
//! | `tourbillon_lateness_recorded_total` | counter | `shard` | [`Lateness::count`](crate::Lateness::count) |
//! | `tourbillon_panicked_total` | counter | | [`Stats::panicked`] |
//! | `tourbillon_caller_ran_total` | counter | | [`Stats::caller_ran`] |
//! | `tourbillon_pending` | gauge | `shard` | [`Stats::pending`] |
//! | `tourbillon_inbox_depth` | gauge | `shard` | [`Stats::inbox_depth`] |
//! | `tourbillon_linked` | gauge | `shard` | [`ShardStats::linked`] |
//! | `tourbillon_pinned_core` | gauge | `shard` | [`ShardStats::pinned_to`], -1 for none |
//! | `tourbillon_capacity` | gauge | | [`Stats::capacity`] |
//! | `tourbillon_healthy` | gauge | | [`Health::is_healthy`]: 1 if so, else 0 |
//! | `tourbillon_behind_seconds` | gauge | `shard` | [`ShardHealth::behind`] |
//! | `tourbillon_stuck_task_seconds` | gauge | `shard` | [`ShardHealth::stuck_task`], 0 for none |
//! | `tourbillon_shard_lateness_seconds` | gauge | `shard`, `quantile` | [`Lateness::percentile`](crate::Lateness::percentile) of the shard, of the last minute |
//! | `tourbillon_lateness_seconds` | gauge | `quantile` | [`Lateness::percentile`](crate::Lateness::percentile) of the whole engine, of the last minute |
//! | `tourbillon_lateness_histogram_seconds_bucket` | gauge | `shard`, `le` | [`Lateness::count_at_most`](crate::Lateness::count_at_most) `le` seconds, since the start |
//! | `tourbillon_lateness_histogram_seconds_count` | gauge | `shard` | [`Lateness::count`](crate::Lateness::count), since the start |
//! | `tourbillon_lateness_histogram_seconds_sum` | gauge | `shard` | the sum of the values, since the start, exact to a 32nd |
//!
//! Shards are numbered from 0. The exporter computes sums over the shards: `sum without (shard)
//! (tourbillon_pending)`. If a process has two engines, give each a label of its own with
//! [`Publisher::with_labels`]. Otherwise both write to the same metrics.
//!
//! # Lateness
//!
//! [`Lateness`](crate::Lateness#what-lateness-is) says what it is.
//!
//! The quantiles are 0.5, 0.9, 0.99, 0.999 and 1, which is the maximum. They cover the last minute
//! by the engine's clock, and are 0 if nothing ran in it. They are for a look. Quantiles of two
//! shards or two processes can't be added up.
//!
//! The histogram can. For Prometheus the three names are those of one histogram:
//!
//! ```text
//! histogram_quantile(0.99, sum by (le) (rate(tourbillon_lateness_histogram_seconds_bucket[5m])))
//! ```
//!
//! PromQL goes by the names. They are declared as gauges, because a histogram of the facade wants
//! each value by itself. So a collector that goes by the declared type sees no histogram.
//!
//! Its buckets end at each power of two of nanoseconds from 2^14 to 2^33 (16 µs to 8.6 s), less one
//! nanosecond: a bucket of [`Lateness`](crate::Lateness) ends there, so their counts are exact. The
//! engine keeps no sum. That of the histogram takes each value for the middle of its bucket, which
//! is at most a 32nd of the value away.
//!
//! # Health
//!
//! A publisher that runs on the engine, as that of [`publish_every`] does, says nothing if the
//! engine is stuck: its metrics then stand still. Watch that `tourbillon_turns_total` rises, or
//! call [`Publisher::publish`] from a thread of your own, for example when Prometheus asks.

mod lateness;

use std::time::Duration;

use ::metrics::{Counter, Gauge, IntoLabels, Label, Unit, counter, describe_counter, describe_gauge, gauge};

use self::lateness::{Histogram, Quantiles, and};
use crate::timer::{Health, ScheduleError, ShardHealth, ShardStats, Stats, Timeout, Timer, WeakTimer};

/// The source of the values of the whole engine.
type OfEngine = (Stats, Health);

/// The source of the values of one shard.
type OfShard = (ShardStats, ShardHealth);

/// Reads a value.
type Of<S, V> = fn(&S) -> V;

/// A name, its description, and how its value is read.
type Row<S, V> = (&'static str, &'static str, Of<S, V>);

#[rustfmt::skip]
const COUNTERS: &[Row<OfShard, u64>] = &[
    ("tourbillon_scheduled_total", "Timeouts that were accepted", |(shard, _)| shard.scheduled),
    ("tourbillon_fired_total", "Timeouts whose task has begun, futures that were woken, and runs of series", |(shard, _)| shard.fired),
    ("tourbillon_completed_total", "Tasks that have returned or panicked, and futures that were woken", |(shard, _)| shard.completed),
    ("tourbillon_repeated_total", "Runs of series that did not end it", |(shard, _)| shard.repeated),
    ("tourbillon_cancelled_total", "Timeouts that were cancelled", |(shard, _)| shard.cancelled),
    ("tourbillon_returned_total", "Timeouts that a shutdown handed back", |(shard, _)| shard.returned),
    ("tourbillon_rejected_total", "Timeouts that were not accepted", |(shard, _)| shard.rejected),
    ("tourbillon_waits_total", "Calls that have waited for a worker to give memory back", |(shard, _)| shard.waits),
    ("tourbillon_reset_total", "Resets that returned true", |(shard, _)| shard.reset),
    ("tourbillon_relinked_total", "Timeouts that were linked again, as their deadline had been moved", |(shard, _)| shard.relinked),
    ("tourbillon_cascaded_total", "Timeouts that were moved to a lower level of the wheel", |(shard, _)| shard.cascaded),
    ("tourbillon_transferred_total", "Timeouts that the worker took out of its inbox", |(shard, _)| shard.transferred),
    ("tourbillon_wakeups_total", "Times the worker returned from a park", |(shard, _)| shard.wakeups),
    ("tourbillon_turns_total", "Turns", |(shard, _)| shard.turns),
    ("tourbillon_turns_over_budget_total", "Turns that left something over for the next", |(shard, _)| shard.turns_over_budget),
    ("tourbillon_panicked_turns_total", "Turns that panicked", |(shard, _)| shard.panicked_turns),
    ("tourbillon_lateness_recorded_total", "Runs whose lateness was recorded", |(shard, _)| shard.lateness.count()),
];

const ENGINE_COUNTERS: &[Row<OfEngine, u64>] = &[
    ("tourbillon_panicked_total", "Tasks that panicked", |(engine, _)| engine.panicked),
    ("tourbillon_caller_ran_total", "Timeouts whose executor dropped the batch", |(engine, _)| engine.caller_ran),
];

const GAUGES: &[Row<OfShard, f64>] = &[
    ("tourbillon_pending", "Timeouts that are pending", |(shard, _)| shard.pending as f64),
    ("tourbillon_inbox_depth", "Entries that wait for the worker", |(shard, _)| shard.inbox_depth as f64),
    ("tourbillon_linked", "Entries in the wheel", |(shard, _)| shard.linked as f64),
    ("tourbillon_pinned_core", "The core that the worker is pinned to; -1 if none", |(shard, _)| {
        shard.pinned_to.map_or(-1.0, |core| core as f64)
    }),
    ("tourbillon_behind_seconds", "By how much the shard is behind", |(_, health)| health.behind.as_secs_f64()),
    ("tourbillon_stuck_task_seconds", "How long a task of the shard has been stuck; 0 if none is", |(_, health)| {
        health.stuck_task.unwrap_or_default().as_secs_f64()
    }),
];

const ENGINE_GAUGES: &[Row<OfEngine, f64>] = &[
    ("tourbillon_capacity", "Timeouts for which memory is reserved", |(engine, _)| engine.capacity as f64),
    (
        "tourbillon_healthy",
        "1 if every worker that is needed runs and is on time, and neither a task nor the pool is stuck; else 0",
        |(_, health)| f64::from(health.is_healthy()),
    ),
];

/// The metrics of one engine, each with its handle. [`publish`](Self::publish) looks up no name.
#[derive(Debug)]
pub struct Publisher {
    engine: WeakTimer,
    whole: Set<OfEngine>,
    lateness: Quantiles,
    shards: Vec<Shard>,
}

/// The metrics of one shard.
#[derive(Debug)]
struct Shard {
    values: Set<OfShard>,
    lateness: Quantiles,
    histogram: Histogram,
}

impl Publisher {
    /// Describes all metrics of an engine, and registers them with the recorder that is global at
    /// this moment. Without a recorder, published values go nowhere. Publishes nothing yet. The
    /// lateness of the last minute begins with this call. Allocates, some 100 KB for the engine and
    /// for each shard in the course of a minute. Does not keep the engine alive.
    #[must_use = "a Publisher publishes when it is told to"]
    pub fn new(timer: &Timer) -> Self {
        Self::with_labels(timer, Vec::new())
    }

    /// Like [`new`](Self::new), but adds labels to all metrics, which say for example which engine
    /// they belong to.
    ///
    /// ```
    /// use tourbillon::{Timer, metrics::Publisher};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (requests, sessions) = (Timer::new()?, Timer::new()?);
    /// for (name, timer) in [("requests", &requests), ("sessions", &sessions)] {
    ///     Publisher::with_labels(timer, &[("engine", name)]).publish();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "a Publisher publishes when it is told to"]
    pub fn with_labels(timer: &Timer, labels: impl IntoLabels) -> Self {
        let (labels, now, stats) = (labels.into_labels(), timer.now(), timer.stats());
        let of_shard = |(shard, stats): (usize, ShardStats)| {
            let labels = and(&labels, Label::new("shard", shard.to_string()));
            Shard {
                values: Set::new(COUNTERS, GAUGES, &labels),
                lateness: Quantiles::new("tourbillon_shard_lateness_seconds", &labels, now, stats.lateness),
                histogram: Histogram::new(&labels),
            }
        };
        Self {
            engine: WeakTimer::of(timer),
            whole: Set::new(ENGINE_COUNTERS, ENGINE_GAUGES, &labels),
            lateness: Quantiles::new("tourbillon_lateness_seconds", &labels, now, stats.lateness),
            shards: stats.shards.into_iter().enumerate().map(of_shard).collect(),
        }
    }

    /// Publishes what [`Timer::stats`] and [`Timer::health`] return now. Returns `false` if the
    /// engine is gone, and there is nothing more to publish; all metrics then keep their last
    /// values. Costs the producers nothing. Allocates, as `stats` does; the recorder may do more.
    ///
    /// Call it every few seconds: the quantiles of lateness cover the time since the last call if
    /// that is longer than a minute.
    pub fn publish(&self) -> bool {
        let Some((now, engine)) = self.engine.look() else { return false };
        self.whole.publish(&engine);
        let (stats, health) = engine;
        self.lateness.publish(now, stats.lateness);
        for (shard, of_shard) in self.shards.iter().zip(stats.shards.into_iter().zip(health.shards)) {
            shard.values.publish(&of_shard);
            let (ShardStats { lateness, .. }, _) = of_shard;
            shard.histogram.publish(&lateness);
            shard.lateness.publish(now, lateness);
        }
        true
    }
}

/// Publishes at once, and then once in each `period`, by a periodic timeout on the engine itself,
/// which runs where the engine's other tasks run.
///
/// The periodic timeout does not keep the engine alive. It ends with the engine, when the returned
/// handle is [cancelled](Timeout::cancel), or when the recorder panics. Dropping the handle lets it
/// go on. It counts as a pending timeout, and its runs are in the counters.
///
/// For labels, or another schedule, use a [`Publisher`] in a periodic timeout of your own. A
/// publisher does not keep the engine alive either.
///
/// # Errors
/// The errors of [`Timer::schedule_at_fixed_rate`], without the task.
pub fn publish_every(timer: &Timer, period: Duration) -> Result<Timeout, ScheduleError<()>> {
    let publisher = Publisher::new(timer);
    let publish = move || _ = publisher.publish();
    timer.schedule_at_fixed_rate(Duration::ZERO, period, publish).map_err(ScheduleError::without_task)
}

/// The handles of all metrics with the same labels, each with the function that reads its value.
#[derive(Debug)]
struct Set<S> {
    counters: Vec<(Counter, Of<S, u64>)>,
    gauges: Vec<(Gauge, Of<S, f64>)>,
}

impl<S> Set<S> {
    /// A gauge's name ends with its unit, if that is seconds.
    fn new(counters: &[Row<S, u64>], gauges: &[Row<S, f64>], labels: &[Label]) -> Self {
        let counter = |&(name, is, of): &Row<S, u64>| {
            describe_counter!(name, Unit::Count, is);
            (counter!(name, labels.iter()), of)
        };
        let gauge = |&(name, is, of): &Row<S, f64>| {
            let unit = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
            describe_gauge!(name, unit, is);
            (gauge!(name, labels.iter()), of)
        };
        Self { counters: counters.iter().map(counter).collect(), gauges: gauges.iter().map(gauge).collect() }
    }

    fn publish(&self, from: &S) {
        self.counters.iter().for_each(|(counter, of)| counter.absolute(of(from)));
        self.gauges.iter().for_each(|(gauge, of)| gauge.set(of(from)));
    }
}
