//! W4: what timeouts cost that are pushed out again and again, before they are due, and which
//! threads they wake.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::delays::{delay, random};
use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::compare::recorder::Recorder;
use crate::compare::systems::patience::PATIENCE;
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;
use crate::proc::{ThreadUse, other_threads};
use crate::process::CpuTime;

const TIMEOUTS: usize = 1_000_000;
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What is left of them at first, as if they had been reset last over the ten seconds before. Else
/// a system that moves a timeout only when its old deadline comes would have nothing to do for
/// 15 s, and then all at once.
const LEFT: [Duration; 2] = [Duration::from_secs(5), KEEP_ALIVE];

/// How long they are reset before that is measured, so that each has been.
const BEFORE: Duration = Duration::from_secs(1);

/// How long they are reset: each once in as many steps as a second has.
const LENGTH: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(1);
const STEPS_A_SECOND: usize = 1_000;

/// Timeouts that run before, so that all threads are there, a pool's too.
const FIRST: u32 = 1_000;
const FIRST_DELAY: Duration = Duration::from_millis(20);

/// A loop that took this many times its length is worth a note.
const TOO_LONG: f64 = 1.01;

/// Pushes a million out to 15 s, each of them once a second, for ten seconds.
pub(super) fn run<S: System>(job: &Job) -> Result<Metrics> {
    let timeouts = job.sizes.of(TIMEOUTS);
    let system = S::start(&job.plan(Some(timeouts + FIRST as usize)))?;
    let mut producer = system.producer()?;
    run_first(&mut producer)?;
    let recorder = Recorder::counting(0);
    let mut handles: Vec<<S::Producer as Producer>::Handle> = Vec::new();
    handles.resize_with(timeouts, Default::default);
    let mut random = random(0);
    for handle in &mut handles {
        producer.schedule(delay(&mut random, LEFT[0], LEFT[1]), recorder.stray(), handle)?;
    }
    producer.flush()?;
    system.settle()?;
    // Packets come in no order.
    let mut order: Vec<usize> = (0..timeouts).collect();
    random.shuffle(&mut order);
    let mut places = order.iter().cycle();
    let mut reset = |length: Duration| {
        let mut refused = 0;
        let since = Instant::now();
        let mut until = Duration::ZERO;
        while until < length {
            until += STEP;
            let deadline = Instant::now() + KEEP_ALIVE;
            for &place in places.by_ref().take(timeouts.div_ceil(STEPS_A_SECOND)) {
                refused += usize::from(!producer.reset(KEEP_ALIVE, deadline, &mut handles[place]));
            }
            thread::sleep((since + until).saturating_duration_since(Instant::now()));
        }
        ensure!(refused == 0, "{refused} resets were refused, and none was due");
        Ok(since.elapsed())
    };
    reset(BEFORE)?;
    let (cpu, before) = (CpuTime::now(), Used::now::<S>()?);
    let took = reset(job.time(LENGTH))?;
    let (used, cpu) = (Used::now::<S>()?.since(&before), CpuTime::now().since(cpu));
    ensure!(recorder.strays() == 0, "{} ran, and none was due", recorder.strays());
    let mut metrics = Metrics::of([
        ("cpu_s", cpu.total_s()),
        ("worker_cpu_s", used.worker.cpu.as_secs_f64()),
        ("wakeups", used.worker.wakeups as f64),
        ("pool_cpu_s", used.pool.cpu.as_secs_f64()),
        ("pool_wakeups", used.pool.wakeups as f64),
        ("pool_threads", used.pool.threads as f64),
    ]);
    metrics.notes = system.notes();
    let length = job.time(LENGTH).as_secs_f64();
    if took.as_secs_f64() > length * TOO_LONG {
        metrics.notes.push(format!("the resets of {length:.1} s took {:.1} s", took.as_secs_f64()));
    }
    drop(handles);
    Ok(metrics)
}

/// Runs some timeouts to their end.
fn run_first<P: Producer>(producer: &mut P) -> Result<()> {
    let recorder = Recorder::counting(FIRST);
    let deadline = Instant::now() + FIRST_DELAY;
    let mut handles: Vec<P::Handle> = Vec::with_capacity(FIRST as usize);
    for number in 0..FIRST {
        let mut handle = Default::default();
        let delay = deadline.saturating_duration_since(Instant::now());
        producer.fire(deadline, delay, recorder.task(number), &mut handle)?;
        handles.push(handle);
    }
    producer.wait(recorder, deadline + PATIENCE)
}

/// What some threads have used.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    threads: usize,
    cpu: Duration,
    wakeups: u64,
}

impl Sum {
    fn add(&mut self, thread: &ThreadUse) {
        self.threads += 1;
        self.cpu += thread.on_cpu;
        self.wakeups += thread.sleeps;
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            threads: self.threads,
            cpu: self.cpu.saturating_sub(earlier.cpu),
            wakeups: self.wakeups.saturating_sub(earlier.wakeups),
        }
    }
}

/// What all threads but this one have used: those of a pool that runs tasks, and the others, which
/// keep the time.
#[derive(Debug, Default)]
struct Used {
    worker: Sum,
    pool: Sum,
}

impl Used {
    fn now<S: System>() -> Result<Self> {
        let mut used = Self::default();
        for thread in &other_threads().context("threads are told apart by way of /proc, on Linux")? {
            let sum = if S::is_pool_thread(&thread.name) { &mut used.pool } else { &mut used.worker };
            sum.add(thread);
        }
        Ok(used)
    }

    fn since(&self, earlier: &Self) -> Self {
        Self { worker: self.worker.since(earlier.worker), pool: self.pool.since(earlier.pool) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cases::{Sizes, find};
    use crate::compare::systems::tourbillon::Pooled;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_threads_of_the_pool_are_told_from_the_worker() {
        let job = Job::new(find("w4-keepalives").expect("a case"), 1, Sizes::scaled(0.0), 0.01);
        let metrics = run::<Pooled>(&job).expect("a result");
        assert!(metrics.get("pool_threads").is_ok_and(|threads| threads >= 1.0));
        let own = ["tourbillon-0", "tourbillon-pool"].map(Pooled::is_pool_thread);
        assert_eq!(own, [false, true]);
    }
}
