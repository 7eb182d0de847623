//! One case of one system, measured in this process.

use anyhow::{Result, bail};

use super::job::Job;
use super::line::Line;
use super::systems::names::Name;
use super::{systems, workloads};

/// Measures a case of a system in this process.
pub(crate) fn measure(name: Name, job: &Job) -> Result<Line> {
    if let Some(why) = name.cannot(job.case.work) {
        bail!("{name} can't do it: {why}");
    }
    let metrics = match name {
        #[cfg(all(feature = "peers", target_os = "linux"))]
        _ if job.case.work.is_of_sessions() => systems::sessions::measure(name, job),
        #[cfg(feature = "peers")]
        Name::TourbillonFuture | Name::Tokio | Name::NoTimers if job.case.work.is_of_servers() => {
            systems::servers::measure(name, job)
        }
        Name::Tourbillon => workloads::run::<systems::tourbillon::Pooled>(job),
        Name::TourbillonInline => workloads::run::<systems::tourbillon::OnWorker>(job),
        Name::TourbillonAt => workloads::run::<systems::tourbillon::At>(job),
        Name::TourbillonFuture => workloads::run::<systems::tourbillon_futures::Engine>(job),
        Name::Tourbillon2Shards => workloads::run::<systems::tourbillon::Pooled>(&job.with_shards(2)),
        Name::Tourbillon8Shards => workloads::run::<systems::tourbillon::Pooled>(&job.with_shards(8)),
        Name::TourbillonUnpinned => workloads::run::<systems::tourbillon::Unpinned>(job),
        Name::TourbillonLocal => workloads::run::<systems::local::Engines>(job),
        Name::TourbillonLocalRounds => workloads::run::<systems::local::EnginesInRounds>(job),
        Name::BareCas => workloads::run::<systems::floor::BareCas>(job),
        Name::BareCalls => workloads::run::<systems::floor::BareCalls>(job),
        Name::Heap => workloads::run::<systems::heap::Heap>(job),
        #[cfg(feature = "peers")]
        Name::Tokio => workloads::run::<systems::tokio::Sleeps>(job),
        #[cfg(feature = "peers")]
        Name::TokioTimeout => workloads::run::<systems::tokio::Timeouts>(job),
        #[cfg(feature = "peers")]
        Name::TokioTask => workloads::run::<systems::tokio::Tasks>(job),
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
        Name::NexusRounds => workloads::run::<systems::nexus::WheelsInRounds>(job),
        #[cfg(feature = "peers")]
        Name::NexusQueue => workloads::run::<systems::nexus_queue::Queues>(job),
        #[cfg(feature = "peers")]
        Name::Bitwheel => workloads::run::<systems::bitwheel::Wheels>(job),
        #[cfg(all(feature = "peers", target_os = "linux"))]
        Name::IoUring => workloads::run::<systems::io_uring::Rings>(job),
        #[cfg(feature = "peers")]
        Name::HashedWheel => workloads::run::<systems::hashed::Hashed>(job),
        _ => bail!("{name} is not part of this program"),
    }?;
    let mut line = Line::new(name.id(), job.case, job.producers);
    for (key, value) in metrics.values {
        line.set(key, value);
    }
    line.percentiles = metrics.percentiles;
    line.notes = metrics.notes;
    Ok(line)
}

#[cfg(test)]
mod tests;
