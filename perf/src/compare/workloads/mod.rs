//! What the systems are given to do: W1 to W10. Delays are random with a fixed seed, the same for every system.

mod burst;
mod futures;
mod idle;
mod lateness;
mod memory;
mod pending;
mod producers;
mod reset;
mod ring;
mod schedule;

use std::time::Duration;

use anyhow::{Result, bail};
use fastrand::Rng;

use super::cases::{Case, Sizes, Work};
use super::systems::{Plan, System};

/// A case that is to be measured in this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) case: &'static Case,
    pub(crate) producers: usize,
    pub(crate) sizes: Sizes,
    /// How long the times of lateness and idleness are, of their full length.
    pub(crate) pace: f64,
}

impl Job {
    fn plan(&self, capacity: Option<usize>) -> Plan {
        Plan { capacity, producers: self.producers, tick: Duration::from_millis(1) }
    }

    pub(super) fn time(&self, full: Duration) -> Duration {
        full.mul_f64(self.pace)
    }
}

/// What a workload found.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) values: Vec<(&'static str, f64)>,
    pub(crate) percentiles: Vec<(f64, f64)>,
    pub(crate) notes: Vec<String>,
}

impl Metrics {
    pub(crate) fn of<const N: usize>(values: [(&'static str, f64); N]) -> Self {
        Self { values: values.to_vec(), ..Self::default() }
    }
}

/// Gives the case's work to a system.
pub(crate) fn run<S: System>(job: &Job) -> Result<Metrics> {
    match job.case.work {
        Work::Schedule { reserved } => schedule::run::<S>(job, reserved),
        Work::Ring => ring::run::<S>(job),
        Work::Reset => reset::run::<S>(job),
        Work::Lateness { tick_us, beside } => lateness::run::<S>(job, tick_us, beside),
        Work::Memory { timeouts } => memory::run::<S>(job, timeouts),
        Work::Idle { timeouts } => idle::run::<S>(job, timeouts),
        Work::Burst => burst::run::<S>(job),
        Work::Pending { timeouts } => pending::run::<S>(job, timeouts),
        Work::Producers => producers::run::<S>(job),
        Work::Future { ready } => futures::run::<S>(job, ready),
        Work::Server { .. } => bail!("a server is no system of this kind"),
    }
}

/// A delay between the two, to the microsecond.
fn delay(random: &mut Rng, from: Duration, to: Duration) -> Duration {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random.u64(micros(from)..micros(to)))
}

/// Each producer's own random numbers, the same in every run.
fn random(producer: usize) -> Rng {
    Rng::with_seed(0x0a02_bd1f ^ producer as u64)
}

const FAR: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(60)];
