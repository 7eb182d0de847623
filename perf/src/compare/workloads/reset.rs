//! W3: reset of keep-alives, as packets do.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::delays::random;
use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::compare::race::race;
use crate::compare::recorder::Recorder;
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;

const KEEP_ALIVES: usize = 100_000;
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const RESETS: usize = 4_000_000;

/// Length of the random order, which is gone through again and again: 1 MiB.
const ORDER: usize = 1 << 18;

/// For systems that are given the deadline: time goes on by this much with each operation.
const STEP: Duration = Duration::from_nanos(20);

/// Resets four million random keep-alives per producer to now + 60 s. Each producer has 100,000 of
/// its own.
pub(super) fn run<S: System>(job: &Job) -> Result<Metrics> {
    let keep_alives = job.sizes.of(KEEP_ALIVES);
    let resets = job.sizes.of(RESETS);
    let system = S::start(&job.plan(Some(job.producers * keep_alives)))?;
    let task = Recorder::counting(0).stray();
    let lap = race(
        &system,
        job.producers,
        resets,
        |producer, number| {
            let mut handles: Vec<<S::Producer as Producer>::Handle> = Vec::new();
            handles.resize_with(keep_alives, Default::default);
            for handle in &mut handles {
                producer.schedule(KEEP_ALIVE, task, handle)?;
            }
            // What is measured is a reset in the wheel, where it stays nearly always.
            producer.flush()?;
            system.settle()?;
            let mut random = random(number);
            let order: Vec<usize> = (0..ORDER).map(|_| random.usize(..keep_alives)).collect();
            Ok((handles, order))
        },
        |producer, (handles, order)| {
            let mut refused = 0;
            let mut deadline = Instant::now() + KEEP_ALIVE;
            for &place in order.iter().cycle().take(resets) {
                deadline += STEP;
                refused += usize::from(!producer.reset(KEEP_ALIVE, deadline, &mut handles[place]));
            }
            // Looked at, so that the loop is not for nothing; none of them can have fired.
            ensure!(refused == 0, "{refused} of {resets} resets were refused, and none was due");
            Ok(())
        },
    )?;
    let mut metrics = Metrics::from(lap);
    metrics.notes = system.notes();
    Ok(metrics)
}
