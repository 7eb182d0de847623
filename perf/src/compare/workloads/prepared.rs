//! What the workloads prepare: systems, handles, and random numbers with a fixed seed.

use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;

use crate::compare::cases::Work;
use crate::compare::job::Job;
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;

/// What a thread holds of a timeout.
pub(super) type Handle<S> = <<S as System>::Producer as Producer>::Handle;

/// Delays of timeouts that must not expire while they are measured.
pub(super) const FAR: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(60)];

/// Starts a system for the timeouts of a job.
pub(super) fn start<S: System>(job: &Job) -> Result<S> {
    let (timeouts, producers) = (job.timeouts(), job.producers);
    let capacity = match job.case.work {
        // Two more each: one warms up, one ends the race.
        Work::Schedule { reserved: true } => producers * (timeouts + 2),
        Work::Producers => timeouts + 3 * producers,
        Work::Schedule { reserved: false } | Work::Memory => return S::start(&job.plan(None)),
        Work::Ring | Work::Future { .. } => producers * 4_000,
        Work::Reset => producers * timeouts,
        // Those that are cancelled keep their memory until the system has taken them out.
        Work::Pending => timeouts + 2 * batch(timeouts),
        _ => timeouts + job.beside(),
    };
    S::start(&job.plan(Some(capacity)))
}

/// So many handles of nothing. They are written to, so that their pages are there before the clock
/// is read.
pub(super) fn handles<S: System>(count: usize) -> Vec<Handle<S>> {
    let mut handles = Vec::new();
    handles.resize_with(count, Default::default);
    handles
}

/// A delay between the two, to the microsecond.
pub(super) fn delay(random: &mut Rng, [from, to]: [Duration; 2]) -> Duration {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random.u64(micros(from)..=micros(to)))
}

/// Each producer's own random numbers, the same in every run.
pub(super) fn random(producer: usize) -> Rng {
    Rng::with_seed(0x0a02_bd1f ^ producer as u64)
}

/// A batch is at most a tenth of what is pending, so that the number pending hardly changes.
pub(super) fn batch(timeouts: usize) -> usize {
    (timeouts / 10).clamp(1, 10_000)
}
