//! Lateness as gauges: quantiles of the last minute, and a histogram since the engine's start.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use ::metrics::{Gauge, Label, Unit, describe_gauge, gauge};

use crate::count::Lateness;
use crate::sync::{Mutex, lock};

/// The quantiles: the label, and the percentage.
const QUANTILES: [(&str, f64); 5] = [("0.5", 50.0), ("0.9", 90.0), ("0.99", 99.0), ("0.999", 99.9), ("1", 100.0)];

/// A bucket of the histogram ends one nanosecond before each of these powers of two, 16 µs to 8.6
/// s, as a bucket of [`Lateness`] does. So its count is exact.
const POWERS: RangeInclusive<u32> = 14..=33;

const BUCKET: &str = "tourbillon_lateness_histogram_seconds_bucket";
const COUNT: &str = "tourbillon_lateness_histogram_seconds_count";
const SUM: &str = "tourbillon_lateness_histogram_seconds_sum";

/// The length of "the last minute", at least.
const SPAN: Duration = Duration::from_secs(60);
/// A snapshot is kept if the one before is at least as old.
const STEP: Duration = Duration::from_secs(5);

/// The quantiles of the last minute.
#[derive(Debug)]
pub(super) struct Quantiles {
    /// One for each quantile.
    gauges: Vec<Gauge>,
    /// Snapshots, the oldest first. There is one at least, and the second is less than a minute
    /// old. The engine's histogram counts from its start, so a bad minute after a good day does not
    /// show there. These are up to 14, of 8 KB each.
    earlier: Mutex<VecDeque<(Instant, Lateness)>>,
}

impl Quantiles {
    /// The last minute begins `now`, with what has been recorded by then. Allocates.
    pub(super) fn new(name: &'static str, labels: &[Label], now: Instant, lateness: Lateness) -> Self {
        describe_gauge!(name, Unit::Seconds, "How late tasks began to run, in the last minute");
        let quantile = |(quantile, _)| gauge!(name, and(labels, Label::from_static_parts("quantile", quantile)));
        Self {
            gauges: QUANTILES.into_iter().map(quantile).collect(),
            earlier: Mutex::new(VecDeque::from([(now, lateness)])),
        }
    }

    pub(super) fn publish(&self, now: Instant, lateness: Lateness) {
        let last_minute = self.last_minute(now, lateness);
        for (gauge, (_, percent)) in self.gauges.iter().zip(QUANTILES) {
            gauge.set(last_minute.percentile(percent).as_secs_f64());
        }
    }

    /// Takes the snapshot of this moment, and returns the lateness of the minute up to `now`.
    /// Allocates.
    ///
    /// In the first minute this is the lateness since the first snapshot. Afterwards it is that of
    /// a little more than a minute: by less than 5 s and the time between two calls. So call it
    /// every few seconds.
    fn last_minute(&self, now: Instant, lateness: Lateness) -> Lateness {
        let mut earlier = lock(&self.earlier);
        let has_age = |age: Duration, (at, _): &(Instant, Lateness)| now.saturating_duration_since(*at) >= age;
        while earlier.get(1).is_some_and(|second| has_age(SPAN, second)) {
            earlier.pop_front();
        }
        let last_minute = earlier.front().map_or_else(Lateness::default, |(_, first)| lateness.since(first));
        if earlier.back().is_none_or(|last| has_age(STEP, last)) {
            earlier.push_back((now, lateness));
        }
        last_minute
    }
}

/// The series of a Prometheus histogram, since the engine's start.
///
/// They are gauges. A histogram of `metrics` wants each value by itself, and an exporter keeps all
/// of them until it is asked. A counter of `metrics` is a whole number, which seconds are not, and
/// Prometheus's exporter can be told to put `_total` behind the name of each counter.
#[derive(Debug)]
pub(super) struct Histogram {
    buckets: Vec<(Duration, Gauge)>,
    /// The bucket without an end, and `_count`, which are the same.
    all: [Gauge; 2],
    sum: Gauge,
}

impl Histogram {
    pub(super) fn new(labels: &[Label]) -> Self {
        describe_gauge!(BUCKET, Unit::Count, "Runs that were at most so late, since the engine's start");
        describe_gauge!(COUNT, Unit::Count, "Runs whose lateness was recorded, since the engine's start");
        describe_gauge!(SUM, Unit::Seconds, "The sum of all lateness since the engine's start, exact to a 32nd");
        let ends = POWERS.map(|power| Duration::from_nanos((1 << power) - 1));
        let le = |le: String| gauge!(BUCKET, and(labels, Label::new("le", le)));
        let name = |end: Duration| format!("{}.{:09}", end.as_secs(), end.subsec_nanos());
        Self {
            buckets: ends.map(|end| (end, le(name(end)))).collect(),
            all: [le("+Inf".to_owned()), gauge!(COUNT, labels.iter())],
            sum: gauge!(SUM, labels.iter()),
        }
    }

    pub(super) fn publish(&self, lateness: &Lateness) {
        for (end, gauge) in &self.buckets {
            gauge.set(lateness.count_at_most(*end) as f64);
        }
        let count = lateness.count() as f64;
        self.all.iter().for_each(|gauge| gauge.set(count));
        self.sum.set(lateness.sum_s());
    }
}

/// Returns these labels and one more.
pub(super) fn and(labels: &[Label], label: Label) -> Vec<Label> {
    labels.iter().cloned().chain([label]).collect()
}
