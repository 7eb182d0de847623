//! What users touch.

mod builder;
mod driver;
mod engine;
mod error;
mod schedule;
mod shutdown;
mod stats;
mod timeout;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use builder::Builder;
pub use driver::Driver;
pub use error::{BuildError, ScheduleError, ShutdownError};
pub use shutdown::Unfired;
pub use stats::{ShardStats, Stats};
pub use timeout::{Timeout, TimeoutGuard};

use engine::Engine;

/// A timer engine: arm a timeout, push it out, cancel it, from any thread.
///
/// Clones are cheap and share one engine. When the last is dropped the workers stop, without anybody waiting for them, and
/// what is pending is dropped unrun; see [`shutdown`](Self::shutdown) to get it back.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let idle = timer.schedule(Duration::from_secs(30), || println!("idle for 30 s: closing"))?;
/// idle.reset(Duration::from_secs(30)); // at every packet
/// idle.cancel();                       // on close
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Timer {
    engine: Arc<Engine>,
}

impl Timer {
    /// A builder with the defaults.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// An engine with the defaults: see [`Builder`].
    ///
    /// # Errors
    /// None of today's, as the defaults make sense everywhere.
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    fn new_on(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Runs `task` after `delay`, rounded up to a tick: never early. No delay runs it at once; `Duration::MAX`, or anything
    /// else that is more than 2^56 ticks or 584 years after the engine's start, never.
    ///
    /// Takes no lock. Pauses only if it would need new memory while more than 16,384 entries wait for a worker that is
    /// running, to let that catch up: for as long as it makes progress, or 20 ms. Allocates only if the captures are larger than 24 bytes (or aligned to more than 8), if more
    /// timeouts are pending than ever before (see [`Builder::capacity`]), or at the first use of the engine on a thread;
    /// the first timeout of a shard starts its worker. Wakes the worker only if this timeout is due before the worker
    /// would wake by itself.
    ///
    /// # Errors
    /// [`ScheduleError::Full`] or [`ScheduleError::Shutdown`], with the task.
    #[inline]
    pub fn schedule<F>(&self, delay: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let hub = &self.engine.hub;
        let deadline = hub.timeline().tick_after(delay);
        let entry = schedule::schedule(hub, deadline, true, task)?;
        // SAFETY: just armed with a handle, and this is the one.
        Ok(unsafe { Timeout::new(entry) })
    }

    /// As [`schedule`](Self::schedule), at a point in time. One that has passed runs at once.
    ///
    /// # Errors
    /// As for [`schedule`](Self::schedule).
    pub fn schedule_at<F>(&self, deadline: Instant, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let hub = &self.engine.hub;
        let deadline = hub.timeline().tick_at_or_now(deadline);
        let entry = schedule::schedule(hub, deadline, true, task)?;
        // SAFETY: just armed with a handle, and this is the one.
        Ok(unsafe { Timeout::new(entry) })
    }

    /// As [`schedule`](Self::schedule), for a timeout that is never cancelled or reset: no handle, and no cost for one.
    ///
    /// # Errors
    /// As for [`schedule`](Self::schedule).
    pub fn schedule_detached<F>(&self, delay: Duration, task: F) -> Result<(), ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let hub = &self.engine.hub;
        let deadline = hub.timeline().tick_after(delay);
        schedule::schedule(hub, deadline, false, task).map(drop)
    }

    /// Schedules many tasks with one delay: all of them or none. One clock read and one exchange on the shard's inbox for
    /// all together. Allocates two vectors.
    ///
    /// # Errors
    /// As for [`schedule`](Self::schedule), with all the tasks.
    pub fn schedule_many<F>(
        &self,
        delay: Duration,
        tasks: impl IntoIterator<Item = F>,
    ) -> Result<Vec<Timeout>, ScheduleError<Vec<F>>>
    where
        F: FnOnce() + Send + 'static,
    {
        let tasks = tasks.into_iter().collect();
        let hub = &self.engine.hub;
        let deadline = hub.timeline().tick_after(delay);
        let entries = schedule::schedule_many(hub, deadline, tasks)?;
        // SAFETY: just armed with a handle each, and these are the ones.
        Ok(entries.into_iter().map(|entry| unsafe { Timeout::new(entry) }).collect())
    }

    /// How many timeouts are pending: scheduled, and neither fired nor cancelled. Calls that are in progress on other
    /// threads may be missing.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.engine.hub.pending()
    }

    /// A snapshot of the counters. Allocates; costs the producers nothing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(&self.engine)
    }

    /// How many shards there are.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.engine.hub.mailboxes().len()
    }

    /// How long a tick is.
    #[must_use]
    pub fn tick_duration(&self) -> Duration {
        self.engine.hub.timeline().scale().tick_duration()
    }

    /// How many ticks one wheel spans: as given to the builder, rounded up to a power of two.
    #[must_use]
    pub fn ticks_per_wheel(&self) -> usize {
        self.engine.ticks_per_wheel
    }

    /// The last tick that has come, by the engine's clock; the first is 0.
    #[must_use]
    pub fn current_tick(&self) -> u64 {
        self.engine.hub.timeline().current_tick().get()
    }

    /// Shuts the engine down: nothing is accepted any more, what is pending is cancelled and returned, the workers end. Waits
    /// for them, and for tasks that are already running; with the built-in executors also for those that have expired and
    /// not yet begun to run (but not from a task of another engine, on whose thread those may be waiting). Every timeout that was ever accepted has then run, or was cancelled, or is in the answer.
    ///
    /// # Errors
    /// [`ShutdownError::FromTask`] from one of the engine's own tasks, and [`ShutdownError::AlreadyShutdown`] for all calls
    /// after the first, which then may still be at it.
    pub fn shutdown(&self) -> Result<Vec<Unfired>, ShutdownError> {
        self.engine.shutdown()
    }

    /// Whether a shutdown has begun.
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.engine.has_ended() || self.engine.hub.mailboxes().iter().all(|mailbox| mailbox.is_closed())
    }
}
