//! W13: how long single calls take, the slowest ones above all. A mean hides who waits for a lock.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;

use super::fill;
use crate::compare::child::Metrics;
use crate::compare::job::Job;
use crate::compare::race::race;
use crate::compare::recorder::Recorder;
use crate::compare::systems::system::{Producer, System};
use crate::duration::nanos;

/// Each step schedules a timeout, pushes another of the thread's ring out, and cancels a third.
/// Each call is timed, with one look at the clock.
pub(super) fn calls<S: System>(system: &S, job: &Job) -> Result<Metrics> {
    let (length, delay) = (job.timeouts(), job.delays()[0]);
    let steps = job.operations().div_ceil(job.producers);
    let task = Recorder::counting(0).stray();
    let step = |producer: &mut S::Producer, ring: &mut [_], step: usize| {
        let (place, other) = (step % length, (step + length / 2) % length);
        let begin = Instant::now();
        let cancelled = producer.cancel(&mut ring[place]);
        let then = Instant::now();
        producer.schedule(delay, task, &mut ring[place])?;
        let next = Instant::now();
        let reset = producer.reset(delay, next + delay, &mut ring[other]);
        let end = Instant::now();
        ensure!(cancelled && reset, "a call was refused, and none was due");
        Ok([next - then, then - begin, end - next])
    };
    let all = Mutex::new(histograms()?);
    let lap = race(
        system,
        job.producers,
        steps,
        |producer, _| {
            let mut ring = fill::<S>(producer, length, job.delays(), task)?;
            for number in 0..length {
                step(producer, &mut ring, number)?;
            }
            Ok((ring, histograms()?))
        },
        |producer, (ring, mine)| {
            for number in 0..steps {
                let took = step(producer, ring, number)?;
                mine.iter_mut().zip(took).for_each(|(calls, took)| calls.saturating_record(nanos(took)));
            }
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter_mut().zip(mine).try_for_each(|(all, mine)| all.add(&*mine)).map_err(Into::into)
        },
    )?;
    let mut metrics = Metrics::of([("cpu_ns", lap.cpu_ns)]);
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The case has three figures for each call.
    for (figures, calls) in job.case.work.metrics().chunks(3).zip(&all) {
        let micros = [0.99, 0.999, 1.0].map(|quantile| calls.value_at_quantile(quantile) as f64 / 1e3);
        metrics.values.extend(figures.iter().map(|figure| figure.key).zip(micros));
    }
    Ok(metrics)
}

/// One for each of the three calls, in nanoseconds, up to a minute.
fn histograms() -> Result<[Histogram<u64>; 3]> {
    let new = || Histogram::new_with_max(60_000_000_000, 3);
    Ok([new()?, new()?, new()?])
}
