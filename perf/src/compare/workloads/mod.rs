//! What the systems are given to do: W1 to W10. Delays are random with a fixed seed, the same for
//! every system.

mod burst;
mod delays;
mod distribution;
mod futures;
mod idle;
mod keep_alives;
mod lateness;
mod memory;
mod pending;
mod producers;
mod reset;
mod ring;
mod schedule;
mod storm;

use anyhow::{Result, bail};

use super::cases::Work;
use super::job::Job;
use super::metrics::Metrics;
use super::systems::system::System;

/// Gives the case's work to a system.
pub(crate) fn run<S: System>(job: &Job) -> Result<Metrics> {
    match job.case.work {
        Work::Schedule { reserved } => schedule::run::<S>(job, reserved),
        Work::Ring => ring::run::<S>(job),
        Work::Reset => reset::run::<S>(job),
        Work::Lateness { tick_us, timeouts, beside } => lateness::run::<S>(job, tick_us, timeouts, beside),
        Work::Storm => storm::run::<S>(job),
        Work::KeepAlives => keep_alives::run::<S>(job),
        Work::Memory { timeouts } => memory::run::<S>(job, timeouts),
        Work::Idle { timeouts } => idle::run::<S>(job, timeouts),
        Work::Burst { clock } => burst::run::<S>(job, clock),
        Work::Pending { timeouts } => pending::run::<S>(job, timeouts),
        Work::Producers => producers::run::<S>(job),
        Work::Future { ready } => futures::run::<S>(job, ready),
        Work::Server { .. } | Work::Sessions { .. } => bail!("a server is no system of this kind"),
    }
}
