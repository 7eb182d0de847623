//! W4: how late timeouts run, by the clock that told their deadline. Corrected for nothing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

use super::delays::{FAR, delay, random};
use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::compare::recorder::{Lateness, Recorder};
use crate::compare::systems::patience::PATIENCE;
use crate::compare::systems::plan::Plan;
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;
use crate::process::CpuTime;

const DUE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

/// Points of the distribution: this many each time the rest of it halves, down to a millionth.
const POINTS_A_HALF: i32 = 5;
const HALVES: i32 = 20;

/// How long after a timeout that ran twice would have run.
const AFTERWARDS: Duration = Duration::from_millis(20);

/// So many, due one to three seconds after each was scheduled; beside them some that are not due.
pub(super) fn run<S: System>(job: &Job, tick_us: u32, timeouts: usize, beside: usize) -> Result<Metrics> {
    let timeouts = u32::try_from(job.sizes.of(timeouts))?;
    let beside = job.sizes.of(beside);
    let plan = Plan { tick: Duration::from_micros(tick_us.into()), ..job.plan(Some(timeouts as usize + beside)) };
    let system = S::start(&plan)?;
    let mut producer = system.producer()?;
    let recorder = Recorder::timing(timeouts);
    let mut random = random(0);

    let mut others: Vec<<S::Producer as Producer>::Handle> = Vec::with_capacity(beside);
    for _ in 0..beside {
        let mut handle = Default::default();
        producer.schedule(delay(&mut random, FAR[0], FAR[1]), recorder.stray(), &mut handle)?;
        others.push(handle);
    }
    if beside > 0 {
        producer.flush()?;
        system.settle()?;
    }

    let mut handles: Vec<<S::Producer as Producer>::Handle> = Vec::with_capacity(timeouts as usize);
    let cpu = CpuTime::now();
    for number in 0..timeouts {
        let delay = job.time(delay(&mut random, DUE[0], DUE[1]));
        let deadline = Instant::now() + delay;
        let mut handle = Default::default();
        producer.fire(deadline, delay, recorder.task_due(number, deadline), &mut handle)?;
        handles.push(handle);
    }
    // If not all have run, that is what there is to say about this system, and not an error.
    let waited = producer.wait(recorder, Instant::now() + PATIENCE / 2);
    let cpu = CpuTime::now().since(cpu);
    std::thread::sleep(AFTERWARDS);
    let mut metrics = describe(&recorder.lateness())?;
    metrics.values.push(("cpu_s", cpu.total_s()));
    metrics.notes = system.notes();
    metrics.notes.extend(waited.err().map(|why| why.to_string()));
    if recorder.strays() > 0 {
        metrics.notes.push(format!("{} of those due later ran", recorder.strays()));
    }
    // A handle that is dropped may cancel: only now.
    drop((handles, others));
    Ok(metrics)
}

/// The distribution, in milliseconds.
fn describe(lateness: &Lateness) -> Result<Metrics> {
    let mut histogram = Histogram::<u64>::new(3).context("no histogram")?;
    for &late in &lateness.late {
        histogram.record(late)?;
    }
    let at = |share: f64| histogram.value_at_quantile(share) as f64 / 1e6;
    let mut metrics = Metrics::of([
        ("p50_ms", at(0.5)),
        ("p99_ms", at(0.99)),
        ("p999_ms", at(0.999)),
        ("max_ms", histogram.max() as f64 / 1e6),
        ("early", lateness.early as f64),
        ("missing", lateness.missing as f64),
        ("twice", lateness.twice as f64),
    ]);
    metrics.percentiles = shares().map(|share| (share, at(share))).collect();
    Ok(metrics)
}

/// From none to all, closer and closer to the end: the usual axis of an HdrHistogram.
fn shares() -> impl Iterator<Item = f64> {
    let steps = (0..=HALVES * POINTS_A_HALF).map(|step| 1.0 - 0.5_f64.powf(f64::from(step) / f64::from(POINTS_A_HALF)));
    steps.chain([1.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_close_in_on_all() {
        let shares: Vec<_> = shares().collect();
        assert_eq!((shares[0], shares[5], shares[10]), (0.0, 0.5, 0.75));
        assert!(shares[100] > 0.999_999 && shares[100] < 1.0 && shares[101] == 1.0);
        assert!(shares.is_sorted());
    }

    #[test]
    fn a_distribution_is_described_in_milliseconds() {
        let late = (1..=1_000).map(|n| n * 1_000_000).collect();
        let metrics = describe(&Lateness { late, early: 3, missing: 2, twice: 1 }).expect("a histogram");
        let get = |key| metrics.values.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let near = |key, value: f64| assert!(get(key).is_some_and(|got| (got / value - 1.0).abs() < 0.01), "{key}");
        near("p50_ms", 500.0);
        near("p99_ms", 990.0);
        near("max_ms", 1_000.0);
        assert_eq!((get("early"), get("missing"), get("twice")), (Some(3.0), Some(2.0), Some(1.0)));
        assert_eq!(metrics.percentiles.len(), 102);
    }
}
