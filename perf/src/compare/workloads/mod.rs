//! What the systems are given to do: W1 to W9. Delays are random with a fixed seed, the same for
//! every system.

mod distribution;
mod loops;
mod prepared;
mod scaling;
mod waits;

use anyhow::{Context, Result, bail};

use super::cases::Work;
use super::job::Job;
use super::metrics::Metrics;
use super::systems::system::System;
use crate::proc::resident_bytes;
use prepared::start;

/// Gives the case's work to a system.
pub(crate) fn run<S: System>(job: &Job) -> Result<Metrics> {
    let resident = resident_bytes();
    let system = start::<S>(job)?;
    let mut metrics = match job.case.work {
        Work::Schedule { reserved } => loops::schedule(&system, job, reserved),
        Work::Ring => loops::ring(&system, job),
        Work::Reset => loops::reset(&system, job),
        Work::Future { ready } => loops::future(&system, job, ready),
        Work::Lateness { .. } => waits::lateness(&system, job),
        Work::Memory => {
            waits::memory(&system, job, resident.context("this system does not say how much memory is resident")?)
        }
        Work::Idle => waits::idle(&system, job),
        Work::Burst { clock } => waits::burst(&system, job, clock),
        Work::Pending => scaling::pending(&system, job),
        Work::Producers => scaling::producers(&system, job),
        Work::Server { .. } | Work::Sessions { .. } => bail!("a server is no system of this kind"),
    }?;
    metrics.notes.extend(system.notes());
    Ok(metrics)
}
