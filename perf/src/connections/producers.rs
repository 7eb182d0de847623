//! The producers' threads: each builds its part of the population, waits, and keeps up the load.
//!
//! The thread that builds is the thread that runs, because an engine may keep what it recycles by
//! the thread that scheduled it.

use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tourbillon::Timer;

use super::lane::Control;
use super::population::{Producer, ProducerOutcome, Throughput};
use crate::process::OWN_THREADS;

/// See the module.
#[derive(Debug)]
pub(crate) struct Producers {
    start: Arc<Barrier>,
    threads: Vec<JoinHandle<ProducerOutcome>>,
}

impl Producers {
    /// Starts the threads, and returns when the whole population is there.
    pub(crate) fn build(
        producers: Vec<Producer>,
        timer: &Timer,
        control: &Arc<Control>,
        run: Duration,
        shown: &Arc<Throughput>,
    ) -> Result<Self> {
        let built = Arc::new(Barrier::new(producers.len() + 1));
        let start = Arc::new(Barrier::new(producers.len() + 1));
        let mut threads = Vec::with_capacity(producers.len());
        for (number, mut producer) in producers.into_iter().enumerate() {
            let (built, start) = (Arc::clone(&built), Arc::clone(&start));
            let (timer, control, shown) = (timer.clone(), Arc::clone(control), Arc::clone(shown));
            let work = move || {
                producer.build(&timer);
                built.wait();
                start.wait();
                let begun = control.begun().unwrap_or_else(Instant::now);
                producer.run(&timer, begun + run, &shown)
            };
            let thread = thread::Builder::new()
                .name(format!("{OWN_THREADS}producer-{number}"))
                .spawn(work)
                .context("cannot start a producer's thread")?;
            threads.push(thread);
        }
        built.wait();
        Ok(Self { start, threads })
    }

    /// Lets the load begin; the run's clock must have been started.
    pub(crate) fn start(&self) {
        self.start.wait();
    }

    /// Waits for the load to end, and adds up what the producers did.
    pub(crate) fn join(self) -> Result<ProducerOutcome> {
        let mut sum = ProducerOutcome::default();
        for thread in self.threads {
            sum.merge(&thread.join().map_err(|_| anyhow!("a producer's thread panicked"))?);
        }
        Ok(sum)
    }
}
