//! The workloads of the systems: W1 to W9, and W13. Delays are random with a fixed seed, the same
//! for every system.

mod loops;
mod scaling;
mod tail;
mod waits;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use fastrand::Rng;

use super::cases::Work;
use super::child::Metrics;
use super::job::Job;
use super::recorder::Task;
use super::systems::system::{Producer, System};
use crate::process::resident_bytes;
#[cfg(feature = "peers")]
pub(super) use waits::{describe, quantiles_ms};

/// Gives the case's work to a system.
pub(crate) fn run<S: System>(job: &Job) -> Result<Metrics> {
    let resident = resident_bytes();
    let system = start::<S>(job)?;
    let mut metrics = match job.case.work {
        Work::Schedule { reserved } => {
            loops::schedule(&system, job.producers, job.timeouts(), job.delays(), reserved).map(Metrics::from)
        }
        Work::Ring => loops::ring(&system, job),
        Work::Reset => loops::reset(&system, job),
        Work::Future { ready } => loops::future(&system, job, ready),
        Work::Lateness { .. } => waits::lateness(&system, job),
        Work::Memory => {
            waits::memory(&system, job, resident.context("this system does not say how much memory is resident")?)
        }
        Work::Idle => waits::idle(&system, job),
        Work::Burst { clock } => waits::burst(&system, job, clock),
        Work::Producers => scaling::producers(&system, job),
        Work::Tail => tail::calls(&system, job),
        Work::Sessions { .. } | Work::Client { .. } | Work::Blocked => bail!("not by a system of this kind"),
    }?;
    metrics.notes.extend(system.notes());
    Ok(metrics)
}

/// A thread's handle of a timeout.
type Handle<S> = <<S as System>::Producer as Producer>::Handle;

/// Delays of timeouts that must not expire while they are measured.
const FAR: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(60)];

/// Starts a system for the timeouts of a job.
fn start<S: System>(job: &Job) -> Result<S> {
    let (timeouts, producers) = (job.timeouts(), job.producers);
    let capacity = match job.case.work {
        // Two more each: one warms up, one ends the race.
        Work::Schedule { reserved: true } => producers * (timeouts + 2),
        Work::Producers => timeouts + 3 * producers,
        Work::Schedule { reserved: false } | Work::Memory => return S::start(&job.plan(None)),
        Work::Ring | Work::Future { .. } | Work::Tail => producers * 4_000,
        Work::Reset => producers * timeouts,
        _ => timeouts + job.beside(),
    };
    S::start(&job.plan(Some(capacity)))
}

/// So many handles of nothing. They are written to, so that their pages are there before the clock
/// is read.
fn handles<S: System>(count: usize) -> Vec<Handle<S>> {
    let mut handles = Vec::new();
    handles.resize_with(count, Default::default);
    handles
}

/// Schedules so many that are not to run.
fn fill<S: System>(
    producer: &mut S::Producer,
    count: usize,
    delays: [Duration; 2],
    task: Task,
) -> Result<Vec<Handle<S>>> {
    let mut random = random(1);
    let mut handles = handles::<S>(count);
    for handle in &mut handles {
        producer.schedule(delay(&mut random, delays), task, handle)?;
    }
    Ok(handles)
}

/// A delay between the two, to the microsecond.
fn delay(random: &mut Rng, [from, to]: [Duration; 2]) -> Duration {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random.u64(micros(from)..=micros(to)))
}

/// Each producer's own random numbers, the same in every run.
fn random(producer: usize) -> Rng {
    Rng::with_seed(0x0a02_bd1f ^ producer as u64)
}
