//! One case of one system, measured in this process.

use anyhow::{Result, bail};

#[cfg(any(test, feature = "peers"))]
use super::cases::Work;
use super::job::Job;
use super::line::Line;
use super::metrics::Metrics;
use super::systems::names::Name;
use super::{systems, workloads};

/// Measures a case of a system in this process.
pub(crate) fn measure(name: Name, job: &Job) -> Result<Line> {
    if let Some(why) = name.cannot(job.case.work) {
        bail!("{name} can't do it: {why}");
    }
    let metrics = match (name, job.case.work) {
        #[cfg(all(feature = "peers", target_os = "linux"))]
        (_, Work::Sessions { .. }) => systems::sessions::measure(name, job),
        #[cfg(feature = "peers")]
        (_, Work::Server { .. }) => systems::servers::measure(name, job),
        _ => measure_timer(name, job),
    }?;
    let mut line = Line::new(name.id(), job.case, job.producers);
    for (key, value) in metrics.values {
        line.set(key, value);
    }
    line.notes = metrics.notes;
    Ok(line)
}

fn measure_timer(name: Name, job: &Job) -> Result<Metrics> {
    match name {
        Name::Tourbillon => workloads::run::<systems::tourbillon::Pooled>(job),
        Name::TourbillonInline => workloads::run::<systems::tourbillon::OnWorker>(job),
        Name::TourbillonFuture => workloads::run::<systems::tourbillon_futures::Engine>(job),
        Name::Tourbillon2Shards => workloads::run::<systems::tourbillon::Pooled>(&job.with_shards(2)),
        Name::TourbillonLocal => workloads::run::<systems::local::Engines>(job),
        Name::TourbillonWheel => workloads::run::<systems::wheel::Wheels>(job),
        Name::Heap => workloads::run::<systems::heap::Heap>(job),
        #[cfg(feature = "peers")]
        Name::Tokio => workloads::run::<systems::tokio::Sleeps>(job),
        #[cfg(feature = "peers")]
        Name::DelayQueue => workloads::run::<systems::delay_queue::Queues>(job),
        #[cfg(feature = "peers")]
        Name::Pingora => workloads::run::<systems::pingora::Pingora>(job),
        #[cfg(feature = "peers")]
        Name::AsyncIo => workloads::run::<systems::async_io::AsyncIo>(job),
        #[cfg(feature = "peers")]
        Name::HierarchicalHashWheel => workloads::run::<systems::hierarchical::ThreadTimer>(job),
        #[cfg(feature = "peers")]
        Name::Nexus => workloads::run::<systems::nexus::Wheels>(job),
        #[cfg(feature = "peers")]
        Name::NexusQueue => workloads::run::<systems::nexus_queue::Queues>(job),
        #[cfg(feature = "peers")]
        Name::Bitwheel => workloads::run::<systems::bitwheel::Wheels>(job),
        _ => bail!("{name} is not part of this program"),
    }
}

#[cfg(test)]
mod tests;
