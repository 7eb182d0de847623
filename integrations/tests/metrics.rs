//! What the engine publishes through the `metrics` facade, as a recorder sees it.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit, with_local_recorder};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tourbillon::metrics::{Publisher, publish_every};
use tourbillon::{Inline, Refusal, Stats, Timer};

use common::{Drops, HOUR, MS, driven_by, eventually, settle};

/// What a recorder holds: by name and labels, in the order of their names.
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
        assert_eq!(counter("lateness_recorded"), shard.lateness.count());
        assert_eq!([gauge("pending"), gauge("inbox_depth")], [shard.pending as f64, shard.inbox_depth as f64]);
        assert_eq!([gauge("linked"), gauge("pinned_core")], [shard.linked as f64, -1.0]);
        assert_eq!(late("0.5"), shard.lateness.percentile(50.0).as_secs_f64());
        assert_eq!(late("1"), shard.lateness.max().as_secs_f64());
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
        let wanted = if key.contains("_seconds") { Unit::Seconds } else { Unit::Count };
        assert_eq!(*unit, Some(wanted), "{key}");
        assert!(is.as_ref().is_some_and(|is| !is.is_empty()), "{key}");
        assert_eq!(matches!(value, DebugValue::Counter(_)), key.contains("_total{"), "{key}");
    }
    let docs = include_str!("../../src/adapters/metrics.rs").lines();
    let rows = docs.filter_map(|line| line.strip_prefix("//! | `")?.split('`').next());
    assert_eq!(seen.names(), rows.collect());
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
