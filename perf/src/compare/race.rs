//! A loop that several producers run at once, timed as each of them saw it and as the whole process
//! paid for it.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::child::Metrics;
use super::systems::system::{Producer, System};
use crate::duration::nanos;
use crate::process::CpuTime;

/// The result of a race.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lap {
    /// Per operation as a producer saw it; the mean of them.
    pub(crate) ns: f64,
    /// Per operation, of the whole process, until what was scheduled has been taken in.
    pub(crate) cpu_ns: f64,
    /// Millions of operations a second, of all producers together.
    pub(crate) mops: f64,
}

impl From<Lap> for Metrics {
    fn from(lap: Lap) -> Self {
        Self::of([("ns", lap.ns), ("cpu_ns", lap.cpu_ns), ("mops", lap.mops)])
    }
}

/// Runs `work` on each of `producers` threads at once. Each prepares first, in `prepare`, which is
/// not measured; then all start together.
pub(crate) fn race<S: System, P>(
    system: &S,
    producers: usize,
    operations_each: usize,
    prepare: impl Fn(&mut S::Producer, usize) -> Result<P> + Sync,
    work: impl Fn(&mut S::Producer, &mut P) -> Result<()> + Sync,
) -> Result<Lap> {
    let ready = Barrier::new(producers + 1);
    let start = Barrier::new(producers + 1);
    // The producers drop what they prepared only when the CPU has been read.
    let done = Barrier::new(producers + 1);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..producers)
            .map(|number| {
                let (ready, start, done) = (&ready, &start, &done);
                let (prepare, work) = (&prepare, &work);
                // Even a producer that fails passes all barriers, so that none is left waiting.
                let body = move || {
                    let mut prepared = system.producer().and_then(|mut producer| {
                        let prepared = prepare(&mut producer, number)?;
                        Ok((producer, prepared))
                    });
                    ready.wait();
                    start.wait();
                    let lap = prepared.as_mut().map(|(producer, prepared)| {
                        let since = Instant::now();
                        work(producer, prepared)?;
                        let until = Instant::now();
                        producer.flush()?;
                        anyhow::Ok((since, until))
                    });
                    done.wait();
                    // A second time: main has read the CPU between the two.
                    done.wait();
                    lap.map_err(|why| anyhow!("{why:#}"))?
                };
                thread::Builder::new().name("perf-producer".to_owned()).spawn_scoped(scope, body)
            })
            .collect::<std::io::Result<_>>()?;
        ready.wait();
        let cpu = CpuTime::now();
        start.wait();
        done.wait();
        let settled = system.settle();
        let cpu = CpuTime::now().since(cpu);
        done.wait();
        let mut sum = Duration::ZERO;
        let mut whole: Option<(Instant, Instant)> = None;
        for thread in threads {
            let (since, until) = thread.join().map_err(|_| anyhow!("a producer panicked"))??;
            sum += until - since;
            let (first, last) = whole.unwrap_or((since, until));
            whole = Some((first.min(since), last.max(until)));
        }
        settled?;
        let (first, last) = whole.ok_or_else(|| anyhow!("a race needs a producer"))?;
        let operations = (producers * operations_each) as f64;
        Ok(Lap {
            ns: nanos(sum) as f64 / operations,
            cpu_ns: cpu.total_s() * 1e9 / operations,
            mops: operations * 1e3 / nanos(last - first) as f64,
        })
    })
}
