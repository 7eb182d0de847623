//! W2: schedule + cancel over a ring, as request deadlines do.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::compare::race::race;
use crate::compare::recorder::{Recorder, Task};
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;

const RING: usize = 1_000;
const STEPS: usize = 1_000_000;

/// Far enough that none expires.
const DELAY: Duration = Duration::from_secs(60);

/// Takes a million steps per producer: each cancels the oldest of its ring and schedules a new one.
pub(super) fn run<S: System>(job: &Job) -> Result<Metrics> {
    let steps = job.sizes.of(STEPS);
    let system = S::start(&job.plan(Some(job.producers * RING * 4)))?;
    let task = Recorder::counting(0).stray();
    let lap = race(
        &system,
        job.producers,
        steps,
        |producer, _| {
            let mut ring: Vec<<S::Producer as Producer>::Handle> = Vec::new();
            ring.resize_with(RING, Default::default);
            for handle in &mut ring {
                producer.schedule(DELAY, task, handle)?;
            }
            // As many as the ring is long, so that nothing happens for the first time in the race.
            turn(producer, &mut ring, RING, task)?;
            Ok(ring)
        },
        |producer, ring| turn(producer, ring, steps, task),
    )?;
    let mut metrics = Metrics::from(lap);
    metrics.notes = system.notes();
    Ok(metrics)
}

fn turn<P: Producer>(producer: &mut P, ring: &mut [P::Handle], steps: usize, task: Task) -> Result<()> {
    let mut left = steps;
    let mut cancelled = 0;
    while left > 0 {
        for handle in ring.iter_mut().take(left) {
            cancelled += usize::from(producer.cancel(handle));
            producer.schedule(DELAY, task, handle)?;
        }
        left = left.saturating_sub(RING);
    }
    ensure!(cancelled == steps, "{} of {steps} were not cancelled, and none was due", steps - cancelled);
    Ok(())
}
