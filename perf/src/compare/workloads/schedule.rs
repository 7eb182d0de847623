//! W1: schedule, into memory that was reserved or into memory never touched before.

use std::time::Duration;

use anyhow::Result;

use super::delays::{FAR, delay, random};
use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::compare::race::race;
use crate::compare::recorder::Recorder;
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;

const TIMEOUTS: usize = 1_000_000;

/// What a producer has prepared: delays, and room for the handles.
struct Prepared<H> {
    delays: Vec<Duration>,
    handles: Vec<H>,
}

/// Schedules a million per producer, due in 30 s to 60 s.
pub(super) fn run<S: System>(job: &Job, reserved: bool) -> Result<Metrics> {
    let each = job.sizes.of(TIMEOUTS);
    // Two more each: one warms up, one ends the race.
    let capacity = reserved.then_some(job.producers * (each + 2));
    let system = S::start(&job.plan(capacity))?;
    let task = Recorder::counting(0).stray();
    let lap = race(
        &system,
        job.producers,
        each,
        |producer, number| {
            let mut random = random(number);
            let delays = (0..each).map(|_| delay(&mut random, FAR[0], FAR[1])).collect();
            // Written to, so that the pages are there before the clock is read.
            let mut handles: Vec<<S::Producer as Producer>::Handle> = Vec::new();
            handles.resize_with(each, Default::default);
            if reserved {
                handles.iter_mut().for_each(|handle| producer.reserve(handle));
            }
            // Starts the threads, and whatever the system keeps for each of the callers'.
            let mut warm = Default::default();
            producer.schedule(FAR[1], task, &mut warm)?;
            producer.cancel(&mut warm);
            Ok(Prepared { delays, handles })
        },
        |producer, prepared| {
            for (&delay, handle) in prepared.delays.iter().zip(&mut prepared.handles) {
                producer.schedule(delay, task, handle)?;
            }
            Ok(())
        },
    )?;
    let mut metrics = Metrics::from(lap);
    metrics.notes = system.notes();
    Ok(metrics)
}
