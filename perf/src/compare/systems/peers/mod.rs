//! Other timers that are Rust crates.

mod bitwheel;
mod delay_queue;
mod futures;
mod hierarchical;
mod nexus;

use anyhow::{Result, bail};

use super::names::Name;
use crate::compare::child::Metrics;
use crate::compare::job::Job;
use crate::compare::workloads::run;

/// Gives the case's work to one of them.
pub(crate) fn measure(name: Name, job: &Job) -> Result<Metrics> {
    match name {
        Name::Tokio => run::<futures::Sleeps>(job),
        Name::Pingora => run::<futures::Pingora>(job),
        Name::AsyncIo => run::<futures::AsyncIo>(job),
        Name::DelayQueue => run::<delay_queue::Queues>(job),
        Name::HierarchicalHashWheel => run::<hierarchical::ThreadTimer>(job),
        Name::Nexus => run::<nexus::Wheels>(job),
        Name::Bitwheel => run::<bitwheel::Wheels>(job),
        _ => bail!("{name} is not part of this program"),
    }
}
