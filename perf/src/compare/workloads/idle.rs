//! W6: what a system does while there is nothing to do.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::delays::{delay, random};
use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::compare::recorder::Recorder;
use crate::compare::systems::patience::PATIENCE;
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;
use crate::proc::sleeps_of_others;
use crate::process::CpuTime;

const IDLE: Duration = Duration::from_secs(5);
const DUE: [Duration; 2] = [Duration::from_secs(3_600), Duration::from_secs(3_660)];

/// For whatever was going on to come to its end.
const CALM: Duration = Duration::from_millis(500);

/// Counts wake-ups of all threads but this one, and CPU, in five seconds with `timeouts` due in
/// an hour.
pub(super) fn run<S: System>(job: &Job, timeouts: usize) -> Result<Metrics> {
    let timeouts = job.sizes.of(timeouts);
    let system = S::start(&job.plan(Some(timeouts)))?;
    let mut producer = system.producer()?;
    let recorder = Recorder::counting(1);
    // So that all its threads are there.
    let mut first = Default::default();
    let soon = Duration::from_millis(2);
    producer.fire(Instant::now() + soon, soon, recorder.task(0), &mut first)?;
    producer.wait(recorder, Instant::now() + PATIENCE)?;
    let mut random = random(0);
    let mut handles: Vec<<S::Producer as Producer>::Handle> = Vec::with_capacity(timeouts);
    for _ in 0..timeouts {
        let mut handle = Default::default();
        producer.schedule(delay(&mut random, DUE[0], DUE[1]), recorder.stray(), &mut handle)?;
        handles.push(handle);
    }
    producer.flush()?;
    system.settle()?;
    thread::sleep(job.time(CALM));
    let (cpu, before) = (CpuTime::now(), wakeups_of_others()?);
    thread::sleep(job.time(IDLE));
    let wakeups = wakeups_of_others()?.saturating_sub(before);
    let cpu = CpuTime::now().since(cpu);
    let mut metrics = Metrics::of([("wakeups", wakeups as f64), ("cpu_ms", cpu.total_s() * 1e3)]);
    metrics.notes = system.notes();
    drop((first, handles));
    Ok(metrics)
}

/// How often the other threads of this process have gone to sleep.
fn wakeups_of_others() -> Result<u64> {
    sleeps_of_others().context("wake-ups are counted by way of /proc, on Linux")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_sleeps_ten_times_is_seen() {
        let before = wakeups_of_others().expect("/proc");
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let (answer, answered) = std::sync::mpsc::channel();
        let sleeper = thread::spawn(move || {
            (0..10).for_each(|_| thread::sleep(Duration::from_millis(1)));
            answer.send(()).expect("main waits");
            // Stays, so that it can be counted.
            told.recv().expect("main tells");
        });
        answered.recv().expect("it answers");
        assert!(wakeups_of_others().expect("/proc") >= before + 10);
        tell.send(()).expect("it waits");
        sleeper.join().expect("it ends");
    }
}
