//! One case of one system, measured in this process.

use anyhow::{Result, bail};

#[cfg(any(test, feature = "peers"))]
use super::cases::Work;
use super::child::{Line, Metrics};
use super::job::Job;
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
        (_, Work::Client { .. } | Work::Blocked) => super::client::measure(name, job),
        _ => measure_timer(name, job),
    }?;
    Ok(Line::new(name.id(), job.case, job.producers, metrics))
}

fn measure_timer(name: Name, job: &Job) -> Result<Metrics> {
    match name {
        Name::Tourbillon => workloads::run::<systems::tourbillon::Pooled>(job),
        Name::TourbillonInline => workloads::run::<systems::tourbillon::OnWorker>(job),
        Name::TourbillonFuture => workloads::run::<systems::tourbillon::Sleeps>(job),
        Name::Tourbillon2Shards => workloads::run::<systems::tourbillon::TwoShards>(job),
        Name::TourbillonLocal => workloads::run::<systems::local::Engines>(job),
        Name::TourbillonWheel => workloads::run::<systems::wheel::Wheels>(job),
        Name::Heap => workloads::run::<systems::heap::Heap>(job),
        #[cfg(feature = "peers")]
        _ => systems::peers::measure(name, job),
        #[cfg(not(feature = "peers"))]
        _ => bail!("{name} is not part of this program"),
    }
}

#[cfg(test)]
mod tests;
