//! One measurement: what it took, as the callers saw it and for the whole process.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use tourbillon::Timer;

use crate::duration::nanos;
use crate::process::CpuTime;

/// How long an engine may take to take in what it was given.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// One measurement of one case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lap {
    /// In the case's own unit.
    pub(crate) value: f64,
    pub(crate) cpu_ns_per_op: f64,
}

/// Runs `work` on each of `producers` threads at once. Each prepares first, in `prepare`, which is not measured; then all
/// start together. The CPU is measured until the engine has taken in what it was given.
pub(crate) fn race<P>(
    timer: &Timer,
    producers: usize,
    operations_each: usize,
    prepare: impl Fn(usize) -> P + Sync,
    work: impl Fn(&mut P) -> Result<()> + Sync,
) -> Result<Lap> {
    let ready = Barrier::new(producers + 1);
    let start = Barrier::new(producers + 1);
    // What was prepared is dropped only when the CPU has been read.
    let done = Barrier::new(producers + 1);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..producers)
            .map(|number| {
                let (ready, start, done) = (&ready, &start, &done);
                let (prepare, work) = (&prepare, &work);
                scope.spawn(move || {
                    let mut prepared = prepare(number);
                    ready.wait();
                    start.wait();
                    let since = Instant::now();
                    let result = work(&mut prepared);
                    let took = since.elapsed();
                    nudge(timer);
                    done.wait();
                    // A second time: main has read the CPU between the two.
                    done.wait();
                    result.map(|()| took)
                })
            })
            .collect();
        ready.wait();
        let cpu = CpuTime::now();
        start.wait();
        done.wait();
        let settled = settle(timer);
        let cpu = CpuTime::now().since(cpu);
        done.wait();
        let mut sum = Duration::ZERO;
        for thread in threads {
            sum += thread.join().map_err(|_| anyhow!("a producer panicked"))??;
        }
        settled?;
        let operations = (producers * operations_each) as f64;
        Ok(Lap { value: nanos(sum) as f64 / operations, cpu_ns_per_op: cpu.total_s() * 1e9 / operations })
    })
}

/// Gives the calling thread's shard something that is due, so that its worker wakes: a worker that sleeps until a far
/// deadline leaves what is no earlier in its inbox until then.
pub(crate) fn nudge(timer: &Timer) {
    // Refused only after shutdown, and then nobody waits for it.
    let _ = timer.schedule_detached(Duration::ZERO, || ());
}

/// Waits until the engine has taken all from its inboxes.
pub(crate) fn settle(timer: &Timer) -> Result<()> {
    let limit = Instant::now() + SETTLED_WITHIN;
    while timer.stats().inbox_depth > 0 {
        ensure!(
            Instant::now() < limit,
            "{} timeouts are still in the engine's inboxes after {} s",
            timer.stats().inbox_depth,
            SETTLED_WITHIN.as_secs()
        );
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
