//! The systems that are compared, each behind the same few operations, and each used as its documentation tells a
//! demanding user to.

#[cfg(feature = "peers")]
mod async_io;
#[cfg(feature = "peers")]
mod delay_queue;
mod floor;
#[cfg(feature = "peers")]
mod futures;
#[cfg(feature = "peers")]
mod hashed;
mod heap;
#[cfg(feature = "peers")]
mod hierarchical;
mod names;
#[cfg(feature = "peers")]
mod nexus;
#[cfg(feature = "peers")]
mod pingora;
#[cfg(feature = "peers")]
mod servers;
#[cfg(feature = "peers")]
mod tokio;
mod tourbillon;
mod tourbillon_futures;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::line::Line;
use super::recorder::{Recorder, Task};
use super::workloads::{self, Job};

pub(crate) use names::{How, Name, SYSTEMS};
#[cfg(feature = "peers")]
pub(crate) use servers::{EchoArgs, run_echo_load};

/// How long a system may take to take in what it was given.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a workload tells a system before it starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Timeouts to reserve memory for, of all producers together, where it can be done.
    pub(crate) capacity: Option<usize>,
    pub(crate) producers: usize,
    /// Where it can be chosen.
    pub(crate) tick: Duration,
}

impl Plan {
    /// Memory to reserve where each producer has a queue of its own; 0 if none.
    #[cfg(feature = "peers")]
    pub(crate) fn capacity_each(self) -> usize {
        self.capacity.unwrap_or(0).div_ceil(self.producers)
    }
}

/// A timer under test: one in the process, as long as that lives.
pub(crate) trait System: Sync + Sized + 'static {
    type Producer: Producer;

    fn start(plan: &Plan) -> Result<Self>;

    /// What a thread needs to schedule; called on that thread.
    fn producer(&self) -> Result<Self::Producer>;

    /// Waits until what has been scheduled has been taken in by who keeps it. By default until a timeout that is scheduled
    /// last, and due soon, has run: queues are in order.
    fn settle(&self) -> Result<()> {
        let mut producer = self.producer()?;
        let marker = Recorder::counting(1);
        let delay = Duration::from_millis(1);
        let mut handle = Default::default();
        producer.fire(Instant::now() + delay, delay, marker.task(0), &mut handle)?;
        producer.wait(marker, Instant::now() + PATIENCE)
    }

    /// What else is to be known about it.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The operations, as one thread calls them. A handle stays where it is: what has been scheduled through it is found there.
pub(crate) trait Producer {
    type Handle: Default;

    /// Touches the memory that a timeout needs, where it is the caller's.
    fn reserve(&mut self, _handle: &mut Self::Handle) {}

    /// Schedules what is not expected to run; of an asynchronous system what a task would keep, without the task.
    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()>;

    /// Schedules what will run. Of `deadline` and `delay` it takes what the system takes.
    fn fire(&mut self, _deadline: Instant, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        self.schedule(delay, task, handle)
    }

    /// Whether it was cancelled; true where the system does not say.
    fn cancel(&mut self, handle: &mut Self::Handle) -> bool;

    /// Pushes it out, to `delay` from now. Who can take a deadline that is known already may take that instead.
    fn reset(&mut self, delay: Duration, deadline: Instant, handle: &mut Self::Handle) -> bool;

    /// Puts a limit round a future that is ready at once, and polls it; whether it was. Of who has futures.
    fn limit_ready(&mut self, _limit: Duration) -> bool {
        false
    }

    /// Called when a loop is over, before it is settled.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Until all have run; where the calling thread is the one that runs them, it does so here.
    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        recorder.wait(limit)
    }
}

/// Measures a case of a system in this process.
pub(crate) fn measure(name: Name, job: &Job) -> Result<Line> {
    if let Some(why) = name.cannot(job.case.work) {
        bail!("{name} can't do it: {why}");
    }
    let metrics = match name {
        #[cfg(feature = "peers")]
        Name::TourbillonFuture | Name::Tokio | Name::NoTimers if job.case.work.is_of_servers() => {
            servers::measure(name, job)
        }
        Name::Tourbillon => workloads::run::<tourbillon::Pooled>(job),
        Name::TourbillonInline => workloads::run::<tourbillon::OnWorker>(job),
        Name::TourbillonResetAt => workloads::run::<tourbillon::ResetAt>(job),
        Name::TourbillonFuture => workloads::run::<tourbillon_futures::Engine>(job),
        Name::BareCas => workloads::run::<floor::BareCas>(job),
        Name::Heap => workloads::run::<heap::Heap>(job),
        #[cfg(feature = "peers")]
        Name::Tokio => workloads::run::<tokio::Sleeps>(job),
        #[cfg(feature = "peers")]
        Name::TokioTimeout => workloads::run::<tokio::Timeouts>(job),
        #[cfg(feature = "peers")]
        Name::TokioTask => workloads::run::<tokio::Tasks>(job),
        #[cfg(feature = "peers")]
        Name::DelayQueue => workloads::run::<delay_queue::Queues>(job),
        #[cfg(feature = "peers")]
        Name::Pingora => workloads::run::<pingora::Pingora>(job),
        #[cfg(feature = "peers")]
        Name::AsyncIo => workloads::run::<async_io::AsyncIo>(job),
        #[cfg(feature = "peers")]
        Name::HierarchicalHashWheel => workloads::run::<hierarchical::ThreadTimer>(job),
        #[cfg(feature = "peers")]
        Name::Nexus => workloads::run::<nexus::Wheels>(job),
        #[cfg(feature = "peers")]
        Name::NexusRounds => workloads::run::<nexus::WheelsInRounds>(job),
        #[cfg(feature = "peers")]
        Name::HashedWheel => workloads::run::<hashed::Hashed>(job),
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
