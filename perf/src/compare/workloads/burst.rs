//! W7: many timeouts on one deadline, from the deadline until the last has run. The tasks do
//! nothing, or each of them reads the clock, as a server's often do.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::distribution::describe;
use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::compare::recorder::Recorder;
use crate::compare::systems::patience::PATIENCE;
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;
use crate::process::CpuTime;

const TASKS: usize = 100_000;

/// From the scheduling of the first to the deadline, and as much more for each of them.
const AHEAD: Duration = Duration::from_millis(500);
const AHEAD_EACH: Duration = Duration::from_micros(3);

/// How long after a timeout that ran twice would have run.
const AFTERWARDS: Duration = Duration::from_millis(20);

/// Schedules 100,000 for one deadline. With `clock` each reads the clock and keeps how late it is.
pub(super) fn run<S: System>(job: &Job, clock: bool) -> Result<Metrics> {
    let tasks = u32::try_from(job.sizes.of(TASKS))?;
    let system = S::start(&job.plan(Some(tasks as usize)))?;
    let mut producer = system.producer()?;
    // What a task writes lies beside what its neighbours write, and a thread gets neighbours.
    let recorder = if clock { Recorder::timing(tasks) } else { Recorder::counting(tasks) };
    let deadline = Instant::now() + AHEAD + AHEAD_EACH * tasks;
    // Held until the end, as the owners of connections hold theirs.
    let mut handles: Vec<<S::Producer as Producer>::Handle> = Vec::with_capacity(tasks as usize);
    for number in 0..tasks {
        let mut handle = Default::default();
        let delay = deadline.saturating_duration_since(Instant::now());
        let task = if clock { recorder.task_due(number, deadline) } else { recorder.task(number) };
        producer.fire(deadline, delay, task, &mut handle)?;
        handles.push(handle);
    }
    ensure!(Instant::now() < deadline, "this machine is too slow: the deadline had passed when the last was scheduled");
    let cpu = CpuTime::now();
    producer.wait(recorder, deadline + PATIENCE)?;
    let cpu = CpuTime::now().since(cpu);
    std::thread::sleep(AFTERWARDS);
    recorder.check()?;
    let last = recorder.last_ran().context("the last has not run")?;
    let mut metrics = if clock { describe(&recorder.lateness())? } else { Metrics::default() };
    // Where all are early, the last is, too: less than nothing, and shown as nothing.
    let late = last.checked_duration_since(deadline);
    if late.is_none() {
        let early = deadline.duration_since(last).as_secs_f64() * 1e3;
        metrics.notes.push(format!("the last ran {early:.2} ms before the deadline"));
    }
    metrics.values.push(("ms", late.unwrap_or_default().as_secs_f64() * 1e3));
    metrics.values.push(("cpu_ns", cpu.total_s() * 1e9 / f64::from(tasks)));
    metrics.notes.extend(system.notes());
    drop(handles);
    Ok(metrics)
}
