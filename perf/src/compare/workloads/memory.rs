//! W5: resident memory of a pending timeout, its handle and its closure included.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::delays::{delay, random};
use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::compare::recorder::Recorder;
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;
use crate::proc::resident_bytes;

/// Far enough that none is due by the time the last is scheduled.
const DUE: [Duration; 2] = [Duration::from_secs(600), Duration::from_secs(630)];

/// What the process has grown by since before the system was started, over the number of timeouts.
pub(super) fn run<S: System>(job: &Job, timeouts: usize) -> Result<Metrics> {
    let timeouts = job.sizes.of(timeouts);
    let resident = || resident_bytes().context("this system does not say how much memory is resident");
    let before = resident()?;
    let system = S::start(&job.plan(None))?;
    let mut producer = system.producer()?;
    let recorder = Recorder::counting(0);
    let task = recorder.stray();
    let mut random = random(0);
    let mut handles: Vec<<S::Producer as Producer>::Handle> = Vec::with_capacity(timeouts);
    for _ in 0..timeouts {
        let mut handle = Default::default();
        producer.schedule(delay(&mut random, DUE[0], DUE[1]), task, &mut handle)?;
        handles.push(handle);
    }
    producer.flush()?;
    system.settle()?;
    let grown = resident()?.saturating_sub(before);
    ensure!(recorder.strays() == 0, "{} ran, and none was due", recorder.strays());
    let mut metrics = Metrics::of([("bytes", grown as f64 / timeouts as f64)]);
    metrics.notes = system.notes();
    drop(handles);
    Ok(metrics)
}
