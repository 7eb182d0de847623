//! W9: what an asynchronous server does for each request that is answered in time.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::compare::race::race;
use crate::compare::recorder::Recorder;
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;

const STEPS: usize = 2_000_000;
const LIMIT: Duration = Duration::from_secs(60);

/// Two million times per producer: a limit round a future that is ready at once, or a sleep that is
/// armed and dropped.
pub(super) fn run<S: System>(job: &Job, ready: bool) -> Result<Metrics> {
    let steps = job.sizes.of(STEPS);
    let system = S::start(&job.plan(Some(job.producers * 4_096)))?;
    let task = Recorder::counting(0).stray();
    let turn = |producer: &mut S::Producer, handle: &mut <S::Producer as Producer>::Handle, steps| {
        let mut done = 0;
        for _ in 0..steps {
            done += usize::from(if ready {
                producer.limit_ready(LIMIT)
            } else {
                producer.schedule(LIMIT, task, handle)?;
                producer.cancel(handle)
            });
        }
        ensure!(done == steps, "{} of {steps} did not end as they should", steps - done);
        Ok(())
    };
    let lap = race(
        &system,
        job.producers,
        steps,
        |producer, _| {
            let mut handle = Default::default();
            turn(producer, &mut handle, steps.min(1_000))?;
            Ok(handle)
        },
        |producer, handle| turn(producer, handle, steps),
    )?;
    let mut metrics = Metrics::from(lap);
    metrics.notes = system.notes();
    Ok(metrics)
}
