//! W4 to W7: what happens, or what is used, while nobody schedules.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;

use super::{FAR, Handle, delay, fill, random};
use crate::compare::child::Metrics;
use crate::compare::job::Job;
use crate::compare::recorder::{Lateness, Recorder};
use crate::compare::systems::system::{PATIENCE, Producer, System};
use crate::process::{CpuTime, resident_bytes, sleeps_of_others};

/// How long after a timeout that ran twice would have run.
const AFTERWARDS: Duration = Duration::from_millis(20);

/// W6: how long the system has to come to rest, and how long it is watched.
const CALM: Duration = Duration::from_millis(500);
const IDLE: Duration = Duration::from_secs(5);

/// W7: from the scheduling of the first to the deadline, and as much more for each of them.
const AHEAD: Duration = Duration::from_millis(500);
const AHEAD_EACH: Duration = Duration::from_micros(3);

/// W4: how late timeouts run, by the clock that told their deadline. Corrected for nothing.
pub(super) fn lateness<S: System>(system: &S, job: &Job) -> Result<Metrics> {
    let (timeouts, delays) = (u32::try_from(job.timeouts())?, job.delays());
    let mut producer = system.producer()?;
    let recorder = Recorder::timing(timeouts);
    let others = fill::<S>(&mut producer, job.beside(), FAR, recorder.stray())?;
    if job.beside() > 0 {
        producer.flush()?;
        system.settle()?;
    }
    let mut random = random(0);
    let mut handles: Vec<Handle<S>> = Vec::with_capacity(timeouts as usize);
    let cpu = CpuTime::now();
    for number in 0..timeouts {
        let delay = delay(&mut random, delays);
        let deadline = Instant::now() + delay;
        let mut handle = Default::default();
        producer.fire(deadline, delay, recorder.task_due(number, deadline), &mut handle)?;
        handles.push(handle);
    }
    // If not all have run, that is what there is to say about this system, and not an error.
    let waited = producer.wait(recorder, Instant::now() + PATIENCE / 2);
    let cpu = CpuTime::now().since(cpu);
    thread::sleep(AFTERWARDS);
    let mut metrics = describe(&recorder.lateness()?);
    metrics.values.push(("cpu_s", cpu.total_s()));
    metrics.notes.extend(waited.err().map(|why| why.to_string()));
    if recorder.strays() > 0 {
        metrics.notes.push(format!("{} of those due later ran", recorder.strays()));
    }
    // A handle that is dropped may cancel: only now.
    drop((handles, others));
    Ok(metrics)
}

/// W5: what the process has grown by since before the system was started, over the number of
/// timeouts. Handles and closures are a part of it.
pub(super) fn memory<S: System>(system: &S, job: &Job, before: u64) -> Result<Metrics> {
    let mut producer = system.producer()?;
    let recorder = Recorder::counting(0);
    let handles = fill::<S>(&mut producer, job.timeouts(), job.delays(), recorder.stray())?;
    producer.flush()?;
    system.settle()?;
    let grown = resident_bytes().context("it was read before")?.saturating_sub(before);
    ensure!(recorder.strays() == 0, "{} ran, and none was due", recorder.strays());
    drop(handles);
    Ok(Metrics::of([("bytes", grown as f64 / job.timeouts() as f64)]))
}

/// W6: wake-ups of all threads but this one, and CPU, in five seconds with nothing due.
pub(super) fn idle<S: System>(system: &S, job: &Job) -> Result<Metrics> {
    let mut producer = system.producer()?;
    let recorder = Recorder::counting(1);
    // So that all its threads are there.
    let mut first = Default::default();
    let soon = Duration::from_millis(2);
    producer.fire(Instant::now() + soon, soon, recorder.task(0), &mut first)?;
    producer.wait(recorder, Instant::now() + PATIENCE)?;
    let handles = fill::<S>(&mut producer, job.timeouts(), job.delays(), recorder.stray())?;
    producer.flush()?;
    system.settle()?;
    thread::sleep(job.time(CALM));
    let (cpu, before) = (CpuTime::now(), wakeups_of_others()?);
    thread::sleep(job.time(IDLE));
    let wakeups = wakeups_of_others()?.saturating_sub(before);
    let cpu = CpuTime::now().since(cpu);
    drop((first, handles));
    Ok(Metrics::of([("wakeups", wakeups as f64), ("cpu_ms", cpu.total_s() * 1e3)]))
}

/// How often the other threads of this process have gone to sleep.
fn wakeups_of_others() -> Result<u64> {
    sleeps_of_others().context("wake-ups are counted by way of /proc, on Linux")
}

/// W7: from a deadline of 100,000 until the last of them has run. With `clock` each task reads the
/// clock and keeps how late it is, as a server's often do.
pub(super) fn burst<S: System>(system: &S, job: &Job, clock: bool) -> Result<Metrics> {
    let tasks = u32::try_from(job.timeouts())?;
    let mut producer = system.producer()?;
    // Neighbouring tasks write side by side, and a thread gets neighbours.
    let recorder = if clock { Recorder::timing(tasks) } else { Recorder::counting(tasks) };
    let deadline = Instant::now() + AHEAD + AHEAD_EACH * tasks;
    // Held until the end, as the owners of connections hold theirs.
    let mut handles: Vec<Handle<S>> = Vec::with_capacity(tasks as usize);
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
    thread::sleep(AFTERWARDS);
    recorder.check()?;
    let last = recorder.last_ran().context("the last has not run")?;
    let mut metrics = if clock { describe(&recorder.lateness()?) } else { Metrics::default() };
    // Where all are early, the last is, too: less than nothing, and shown as nothing.
    let late = last.checked_duration_since(deadline);
    if late.is_none() {
        let early = deadline.duration_since(last).as_secs_f64() * 1e3;
        metrics.notes.push(format!("the last ran {early:.2} ms before the deadline"));
    }
    metrics.values.push(("ms", late.unwrap_or_default().as_secs_f64() * 1e3));
    metrics.values.push(("cpu_ns", cpu.total_s() * 1e9 / f64::from(tasks)));
    drop(handles);
    Ok(metrics)
}

/// How late timeouts ran.
pub(in crate::compare) fn describe(lateness: &Lateness) -> Metrics {
    let counts = [("early", lateness.early), ("missing", lateness.missing), ("twice", lateness.twice)];
    let counts = counts.map(|(key, count)| (key, count as f64));
    Metrics { values: [&quantiles_ms(&lateness.late_ns)[..], &counts].concat(), notes: Vec::new() }
}

/// The quantiles of nanoseconds that cases report, in milliseconds.
pub(in crate::compare) fn quantiles_ms(of: &Histogram<u64>) -> [(&'static str, f64); 4] {
    [("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999), ("max_ms", 1.0)]
        .map(|(key, share)| (key, of.value_at_quantile(share) as f64 / 1e6))
}
