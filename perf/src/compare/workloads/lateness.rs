//! W4: how late timeouts run, by the clock that told their deadline. Corrected for nothing.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::delays::{FAR, delay, random};
use super::distribution::describe;
use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::compare::recorder::Recorder;
use crate::compare::systems::patience::PATIENCE;
use crate::compare::systems::plan::Plan;
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;
use crate::process::CpuTime;

const DUE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

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
