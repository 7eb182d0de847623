//! The values that the engine publishes through the `metrics` facade, as a recorder sees them.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit, with_local_recorder};
use metrics_exporter_prometheus::PrometheusBuilder;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tourbillon::metrics::{Publisher, publish_every};
use tourbillon::{Inline, Refusal, Stats, Timer};

use common::{Drops, HOUR, MS, driven_by, eventually, settle};

/// The values in a recorder: by name and labels, in the order of their names.
struct Seen(BTreeMap<String, (Option<Unit>, Option<SharedString>, DebugValue)>);

impl Seen {
    fn by(recorder: &DebuggingRecorder) -> Self {
        let seen = recorder.snapshotter().snapshot().into_vec().into_iter().map(|(key, unit, is, value)| {
            let key = key.key();
            let mut labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            labels.sort();
            (format!("{}{{{}}}", key.name(), labels.join(",")), (unit, is, value))
        });
        Self(seen.collect())
    }

    fn counter(&self, key: &str) -> u64 {
        match self.0.get(key) {
            Some((_, _, DebugValue::Counter(value))) => *value,
            other => panic!("{key} is {other:?}"),
        }
    }

    fn gauge(&self, key: &str) -> f64 {
        match self.0.get(key) {
            Some((_, _, DebugValue::Gauge(value))) => value.into_inner(),
            other => panic!("{key} is {other:?}"),
        }
    }

    fn names(&self) -> BTreeSet<&str> {
        self.0.keys().filter_map(|key| key.split('{').next()).collect()
    }
}

/// Asserts that all of these figures are published, by shard where they exist by shard.
fn assert_is_published(seen: &Seen, stats: &Stats) {
    for (index, shard) in stats.shards.iter().enumerate() {
        let counter = |name: &str| seen.counter(&format!("tourbillon_{name}_total{{shard={index}}}"));
        let gauge = |name: &str| seen.gauge(&format!("tourbillon_{name}{{shard={index}}}"));
        let late = |quantile: &str| {
            seen.gauge(&format!("tourbillon_shard_lateness_seconds{{quantile={quantile},shard={index}}}"))
        };
        assert_eq!(
            [counter("scheduled"), counter("fired"), counter("repeated"), counter("cancelled"), counter("returned")],
            [shard.scheduled, shard.fired, shard.repeated, shard.cancelled, shard.returned]
        );
        assert_eq!(
            [counter("rejected"), counter("reset"), counter("relinked"), counter("cascaded"), counter("transferred")],
            [shard.rejected, shard.reset, shard.relinked, shard.cascaded, shard.transferred]
        );
        assert_eq!(
            [counter("wakeups"), counter("turns"), counter("turns_over_budget"), counter("panicked_turns")],
            [shard.wakeups, shard.turns, shard.turns_over_budget, shard.panicked_turns]
        );
        assert_eq!([counter("waits"), counter("lateness_recorded")], [shard.waits, shard.lateness.count()]);
        assert_eq!([gauge("pending"), gauge("inbox_depth")], [shard.pending as f64, shard.inbox_depth as f64]);
        assert_eq!([gauge("linked"), gauge("pinned_core")], [shard.linked as f64, -1.0]);
        assert_eq!(late("0.5"), shard.lateness.percentile(50.0).as_secs_f64());
        assert_eq!(late("1"), shard.lateness.max().as_secs_f64());
        let histogram = |name: &str| gauge(&format!("lateness_histogram_seconds_{name}"));
        assert_eq!(histogram("count"), shard.lateness.count() as f64);
        let sum = histogram("sum");
        let most = shard.lateness.max().as_secs_f64() * shard.lateness.count() as f64;
        assert!(sum <= most && (sum > 0.0 || most == 0.0), "{sum} s of {most} s at most");
    }
    let late = |quantile: &str| seen.gauge(&format!("tourbillon_lateness_seconds{{quantile={quantile}}}"));
    for (quantile, percent) in [("0.5", 50.0), ("0.9", 90.0), ("0.99", 99.0), ("0.999", 99.9), ("1", 100.0)] {
        assert_eq!(late(quantile), stats.lateness.percentile(percent).as_secs_f64());
    }
    assert_eq!(seen.counter("tourbillon_panicked_total{}"), stats.panicked);
    assert_eq!(seen.counter("tourbillon_caller_ran_total{}"), stats.caller_ran);
    assert_eq!(seen.gauge("tourbillon_capacity{}"), stats.capacity as f64);
}

#[test]
fn all_figures_are_published_shard_by_shard() {
    let recorder = DebuggingRecorder::new();
    let builder = Timer::builder().shards(3).ticks_per_wheel(16);
    let (timer, mut driver, clock) = driven_by(builder.max_pending_timeouts(200).expiry_limit(3));
    let publisher = with_local_recorder(&recorder, || Publisher::new(&timer));
    // Each operation at least once, and different numbers on each shard.
    let schedule = |key: u32| {
        let task = move || assert_ne!(key, 7, "as this test wants it");
        timer.shard_for(&key).schedule((1 + key) * 10 * MS, task).expect("accepted")
    };
    let timeouts: Vec<_> = (0..100).map(schedule).collect();
    // The worker links a timeout in the wheel again when it finds that its deadline has moved.
    settle(&mut driver, &clock);
    for (key, timeout) in timeouts.iter().enumerate() {
        if key % 3 == 0 {
            assert!(timeout.reset(HOUR));
        } else if key % 5 == 0 {
            assert!(timeout.cancel());
        }
    }
    drop(timer.schedule_at_fixed_rate(MS, 100 * MS, || ()).expect("accepted"));
    assert!(timer.schedule_many(HOUR, std::iter::repeat_n(|| (), 201)).is_err());
    for _ in 0..20 {
        clock.advance(51 * MS + Duration::from_micros(300));
        settle(&mut driver, &clock);
        assert!(publisher.publish());
        assert_is_published(&Seen::by(&recorder), &timer.stats());
    }
    let stats = timer.stats();
    assert!(
        stats.shards.iter().all(|shard| shard.fired > 0 && shard.pending > 0 && shard.lateness.max() > Duration::ZERO)
    );
    assert!(stats.panicked == 1 && stats.cancelled > 0 && stats.reset > 0 && stats.repeated > 0 && stats.rejected > 0);
    assert!(stats.relinked > 0 && stats.cascaded > 0 && stats.turns_over_budget > 0, "{stats:?}");
}

/// Counts the calls of the recorder, and the calls of its handles.
struct Counting {
    inner: DebuggingRecorder,
    asked: AtomicUsize,
}

impl Counting {
    fn ask(&self) -> &DebuggingRecorder {
        self.asked.fetch_add(1, Ordering::Relaxed);
        &self.inner
    }
}

impl Recorder for Counting {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, is: SharedString) {
        self.ask().describe_counter(key, unit, is);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, is: SharedString) {
        self.ask().describe_gauge(key, unit, is);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, is: SharedString) {
        self.ask().describe_histogram(key, unit, is);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.ask().register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.ask().register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.ask().register_histogram(key, metadata)
    }
}

#[test]
fn publishing_asks_the_recorder_for_nothing() {
    let recorder = Counting { inner: DebuggingRecorder::new(), asked: AtomicUsize::new(0) };
    let timer = Timer::builder().shards(2).build().expect("the options make sense");
    with_local_recorder(&recorder, || {
        let publisher = Publisher::new(&timer);
        let asked = recorder.asked.load(Ordering::Relaxed);
        (0..10).for_each(|_| assert!(publisher.publish()));
        assert_eq!((recorder.asked.load(Ordering::Relaxed), asked > 0), (asked, true));
    });
}

#[test]
fn each_metric_is_described_and_stands_in_the_table_of_the_docs() {
    let recorder = DebuggingRecorder::new();
    let timer = Timer::new().expect("the defaults make sense");
    let publisher = with_local_recorder(&recorder, || Publisher::new(&timer));
    // The debugging recorder shows each metric that has a value.
    assert!(publisher.publish());
    let seen = Seen::by(&recorder);
    for (key, (unit, is, value)) in &seen.0 {
        let counts = ["_seconds_bucket{", "_seconds_count{"].iter().any(|name| key.contains(name));
        let wanted = if key.contains("_seconds") && !counts { Unit::Seconds } else { Unit::Count };
        assert_eq!(*unit, Some(wanted), "{key}");
        assert!(is.as_ref().is_some_and(|is| !is.is_empty()), "{key}");
        assert_eq!(matches!(value, DebugValue::Counter(_)), key.contains("_total{"), "{key}");
    }
    let docs = include_str!("../../src/adapters/metrics.rs").lines();
    let rows = docs.filter_map(|line| line.strip_prefix("//! | `")?.split('`').next());
    assert_eq!(seen.names(), rows.collect());
}

#[test]
fn quantiles_forget_what_was_late_a_minute_ago_and_the_histogram_does_not() {
    let recorder = DebuggingRecorder::new();
    let (timer, mut driver, clock) = driven_by(Timer::builder().shards(1));
    let mut be_late = |by: Duration| {
        timer.schedule_detached(MS, || ()).expect("accepted");
        clock.advance(MS + by);
        assert_eq!(settle(&mut driver, &clock), 1);
    };
    be_late(5_000 * MS);
    let publisher = with_local_recorder(&recorder, || Publisher::new(&timer));
    let publish = || {
        assert!(publisher.publish());
        let seen = Seen::by(&recorder);
        let max = seen.gauge("tourbillon_lateness_seconds{quantile=1}");
        assert_eq!(seen.gauge("tourbillon_shard_lateness_seconds{quantile=1,shard=0}"), max, "it has one shard");
        (max, seen.gauge("tourbillon_lateness_histogram_seconds_count{shard=0}"))
    };
    assert_eq!(publish(), (0.0, 1.0), "it was late before the publisher was there");
    be_late(900 * MS);
    for second in 0..60 {
        let (max, count) = publish();
        assert!((0.899..0.957).contains(&max) && count == 2.0, "{max} in second {second}");
        clock.advance(1_000 * MS);
    }
    (0..6).for_each(|_| {
        publish();
        clock.advance(1_000 * MS);
    });
    assert_eq!(publish(), (0.0, 2.0), "nothing ran in the last minute");
    be_late(2 * MS);
    let (max, count) = publish();
    assert!((0.001_9..0.002_2).contains(&max) && count == 3.0, "{max}");
}

#[test]
fn an_engine_that_is_behind_is_published_as_not_healthy() {
    let recorder = DebuggingRecorder::new();
    let (timer, mut driver, clock) = driven_by(Timer::builder().shards(1));
    let publisher = with_local_recorder(&recorder, || Publisher::new(&timer));
    timer.schedule_detached(MS, || ()).expect("accepted");
    driver.turn();
    let publish = || {
        assert!(publisher.publish());
        let seen = Seen::by(&recorder);
        let of_shard = |name: &str| seen.gauge(&format!("tourbillon_{name}_seconds{{shard=0}}"));
        (seen.gauge("tourbillon_healthy{}"), of_shard("behind"), of_shard("stuck_task"))
    };
    assert_eq!(publish(), (1.0, 0.0, 0.0));
    // Nobody turns it.
    clock.advance(3_000 * MS);
    let behind = timer.health().shards[0].behind;
    assert!(!timer.health().is_healthy() && behind > 2_000 * MS, "{behind:?}");
    assert_eq!(publish(), (0.0, behind.as_secs_f64(), 0.0));
    assert_eq!(settle(&mut driver, &clock), 1);
    assert_eq!(publish(), (1.0, 0.0, 0.0));
}

/// A line of a page for Prometheus: the name, the labels, and the value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Reads a page as Prometheus does. Asserts that each metric has one type, and stands beneath it.
fn read(page: &str) -> Vec<Sample> {
    let (mut types, mut samples) = (BTreeSet::new(), Vec::new());
    let mut family = "";
    for line in page.lines().filter(|line| !line.is_empty() && !line.starts_with("# HELP ")) {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            assert!(matches!(kind, "counter" | "gauge") && types.insert(name), "{line}");
            family = name;
            continue;
        }
        let (metric, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = metric.split_once('{').unwrap_or((metric, "}"));
        assert_eq!(name, family);
        let labels = labels.strip_suffix('}').expect("an end").split(',').filter(|label| !label.is_empty());
        let label = |label: &str| {
            let (key, value) = label.split_once('=').expect("a label");
            (key.to_owned(), value.trim_matches('"').to_owned())
        };
        samples.push((name.to_owned(), labels.map(label).collect(), value.parse().expect("a number")));
    }
    samples
}

#[test]
fn prometheus_reads_a_histogram_whose_buckets_hold_exactly_the_values_below_their_ends() {
    const NAME: &str = "tourbillon_lateness_histogram_seconds";
    for recommended_names in [false, true] {
        let recorder = PrometheusBuilder::new().with_recommended_naming(recommended_names).build_recorder();
        let (timer, mut driver, clock) = driven_by(Timer::builder().shards(2));
        let publisher = with_local_recorder(&recorder, || Publisher::new(&timer));
        // Each ends on a tick, so that what is late is known to the nanosecond.
        let mut exact = Vec::new();
        for key in 0..400_u32 {
            drop(timer.shard_for(&key).schedule(2 * MS, || ()).expect("accepted"));
            let late_ns = u64::from(key).pow(4) * 2 + u64::from(key);
            clock.advance(2 * MS + Duration::from_nanos(late_ns));
            assert_eq!(settle(&mut driver, &clock), 1);
            exact.push(Duration::from_nanos(late_ns));
            clock.advance(MS - Duration::from_nanos(late_ns % 1_000_000));
        }
        assert!(publisher.publish());
        let page = read(&recorder.handle().render());
        let series =
            |suffix: &str| page.iter().filter(|(name, ..)| *name == format!("{NAME}{suffix}")).collect::<Vec<_>>();

        for shard in ["0", "1"] {
            let of_shard = |sample: &&&Sample| sample.1["shard"] == shard;
            let mut buckets: Vec<(f64, f64)> = series("_bucket")
                .iter()
                .filter(of_shard)
                .map(|(_, labels, count)| (labels["le"].parse().expect("a number, or +Inf"), *count))
                .collect();
            buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
            assert!(buckets.len() == 21 && buckets.is_sorted_by(|one, other| one.0 < other.0 && one.1 <= other.1));
            let count = series("_count").iter().filter(of_shard).map(|sample| sample.2).sum::<f64>();
            assert_eq!(buckets[20], (f64::INFINITY, count));
            assert!(count > 100.0, "both shards have runs");
        }
        // `sum by (le)`.
        for (_, labels, _) in series("_bucket").iter().filter(|sample| sample.1["shard"] == "0") {
            let le: f64 = labels["le"].parse().expect("a number, or +Inf");
            let sum: f64 =
                series("_bucket").iter().filter(|sample| sample.1["le"] == labels["le"]).map(|sample| sample.2).sum();
            assert_eq!(sum, exact.iter().filter(|late| late.as_secs_f64() <= le).count() as f64, "{le}");
        }
        let (sum, all): (f64, f64) =
            (series("_sum").iter().map(|sample| sample.2).sum(), exact.iter().map(Duration::as_secs_f64).sum());
        assert!((sum - all).abs() <= all / 32.0, "{sum} s for {all} s");
    }
}

#[test]
fn two_engines_are_told_apart_by_a_label() {
    let recorder = DebuggingRecorder::new();
    let (one, two) = (Timer::new().expect("the defaults make sense"), Timer::new().expect("the defaults make sense"));
    with_local_recorder(&recorder, || {
        for (name, timer) in [("one", &one), ("two", &two)] {
            (0..name.len() - if name == "one" { 1 } else { 0 }).for_each(|_| drop(timer.schedule(HOUR, || ())));
            assert!(Publisher::with_labels(timer, &[("engine", name)]).publish());
        }
    });
    let seen = Seen::by(&recorder);
    let sum = |engine: &str| -> u64 {
        let is_its = |key: &&String| key.starts_with("tourbillon_scheduled_total") && key.contains(engine);
        seen.0.keys().filter(is_its).map(|key| seen.counter(key)).sum()
    };
    assert_eq!((sum("engine=one"), sum("engine=two")), (2, 3));
}

#[test]
fn an_engine_publishes_by_itself_until_its_periodic_timeout_is_cancelled() {
    let recorder = DebuggingRecorder::new();
    let timer = Timer::builder().shards(1).build().expect("the options make sense");
    let periodic = with_local_recorder(&recorder, || publish_every(&timer, 5 * MS)).expect("accepted");
    (0..10).for_each(|_| timer.schedule_detached(MS, || ()).expect("accepted"));
    // The recorder forgets what it has shown, until the next run.
    let published = |name: &str| Seen::by(&recorder).0.remove(&format!("tourbillon_{name}_total{{shard=0}}"));
    let is = |name, wanted: fn(u64) -> bool| {
        eventually(name, || matches!(published(name), Some((_, _, DebugValue::Counter(n))) if wanted(n)));
    };
    is("scheduled", |n| n == 11);
    is("repeated", |n| n > 20);
    is("fired", |n| n > 30);
    // Between two runs, or in one.
    eventually("the periodic timeout ends", || periodic.cancel() || periodic.is_cancelled());
    eventually("nothing is pending", || timer.pending() == 0);
}

#[test]
fn neither_a_publisher_nor_its_periodic_timeout_keeps_the_engine() {
    for inline in [true, false] {
        let builder = Timer::builder().shards(2);
        let builder = if inline { builder.executor(Inline) } else { builder };
        let timer = builder.build().expect("the options make sense");
        let (publisher, drops) = (Publisher::new(&timer), Drops::default());
        drop(publish_every(&timer, MS).expect("accepted"));
        let witness = drops.witness();
        drop(timer.schedule(HOUR, move || drop(witness)).expect("accepted"));
        eventually("it publishes", || timer.stats().repeated > 3);
        assert_eq!((publisher.publish(), drops.count()), (true, 0));
        drop(timer);
        eventually("what was pending is dropped, as the engine ends", || drops.count() == 1);
        eventually("there is nothing to publish", || !publisher.publish());
    }
}

#[test]
fn metrics_are_published_for_an_engine_that_only_futures_hold() {
    let recorder = DebuggingRecorder::new();
    let timer = Timer::builder().shards(1).build().expect("the options make sense");
    let publisher = with_local_recorder(&recorder, || Publisher::new(&timer));
    let sleep = timer.sleep(MS);
    drop(timer);
    pollster::block_on(sleep);
    // The sleep has gone, and the engine with it.
    eventually("there is nothing to publish", || !publisher.publish());
    let timer = Timer::builder().shards(1).build().expect("the options make sense");
    let publisher = with_local_recorder(&recorder, || Publisher::new(&timer));
    let sleep = timer.sleep(MS);
    drop(timer);
    assert!(publisher.publish());
    drop(sleep);
    assert!(!publisher.publish());
}

#[test]
fn a_period_of_nothing_and_an_engine_that_is_shut_down_are_refused() {
    let timer = Timer::new().expect("the defaults make sense");
    assert_eq!(publish_every(&timer, Duration::ZERO).unwrap_err().kind(), Refusal::ZeroPeriod);
    assert!(timer.shutdown().is_ok());
    assert_eq!(publish_every(&timer, MS).unwrap_err().kind(), Refusal::Shutdown);
    // The counts of the engine can still be read.
    let publisher = Arc::new(Publisher::new(&timer));
    assert!(publisher.publish());
}
