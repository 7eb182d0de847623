//! W8: what the operations cost with more and more pending, all over the memory.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::delays::{delay, random};
use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::compare::recorder::Recorder;
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;
use crate::duration::nanos;

const DUE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(120)];
/// At least this many of each operation.
const OPERATIONS: usize = 200_000;
/// A batch is at most a tenth of what is pending, so that the number pending hardly changes, and at
/// most this many.
const BATCH: usize = 10_000;

/// Cancels a batch at random, schedules as many anew, resets as many at random; again and again.
pub(super) fn run<S: System>(job: &Job, timeouts: usize) -> Result<Metrics> {
    let timeouts = job.sizes.of(timeouts);
    let batch = (timeouts / 10).clamp(1, BATCH);
    let rounds = job.sizes.of(OPERATIONS).div_ceil(batch);
    let system = S::start(&job.plan(Some(timeouts + 2 * batch)))?;
    let mut producer = system.producer()?;
    let task = Recorder::counting(0).stray();
    let mut random = random(0);
    let mut handles: Vec<<S::Producer as Producer>::Handle> = Vec::new();
    handles.resize_with(timeouts, Default::default);
    for handle in &mut handles {
        producer.schedule(delay(&mut random, DUE[0], DUE[1]), task, handle)?;
    }
    producer.flush()?;
    system.settle()?;

    let mut refused = 0;
    let [mut cancelling, mut scheduling, mut resetting] = [Duration::ZERO; 3];
    let mut places: Vec<usize> = Vec::with_capacity(batch);
    let mut delays: Vec<Duration> = Vec::with_capacity(batch);
    for _ in 0..rounds {
        // One of each stretch, so that none is cancelled twice; in any order.
        let stretch = timeouts / batch;
        places.clear();
        places.extend((0..batch).map(|at| at * stretch + random.usize(..stretch)));
        random.shuffle(&mut places);
        delays.clear();
        delays.extend((0..batch).map(|_| delay(&mut random, DUE[0], DUE[1])));

        let since = Instant::now();
        for &place in &places {
            refused += usize::from(!producer.cancel(&mut handles[place]));
        }
        let cancelled = Instant::now();
        for (&place, &delay) in places.iter().zip(&delays) {
            producer.schedule(delay, task, &mut handles[place])?;
        }
        let scheduled = Instant::now();
        cancelling += cancelled - since;
        scheduling += scheduled - cancelled;

        let others: Vec<usize> = (0..batch).map(|_| random.usize(..timeouts)).collect();
        let since = Instant::now();
        let deadline = since + DUE[1];
        for &place in &others {
            refused += usize::from(!producer.reset(DUE[1], deadline, &mut handles[place]));
        }
        resetting += since.elapsed();
    }
    ensure!(refused == 0, "{refused} cancels and resets were refused, and none was due");
    let each = |time: Duration| nanos(time) as f64 / (rounds * batch) as f64;
    let mut metrics = Metrics::of([
        ("schedule_ns", each(scheduling)),
        ("cancel_ns", each(cancelling)),
        ("reset_ns", each(resetting)),
        ("pending", timeouts as f64),
    ]);
    metrics.notes = system.notes();
    drop(handles);
    Ok(metrics)
}
