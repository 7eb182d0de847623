//! The public API: the timer, its builder, its handles and its errors.

mod alarm;
mod build;
mod builder;
mod bulk;
mod clock;
mod driver;
mod end;
mod engine;
mod error;
mod given_back;
mod group;
mod health;
mod instances;
mod keyed;
mod members;
mod reusable;
mod schedule;
mod shutdown;
mod stats;
mod step;
mod timeout;
mod unwind_safe;
#[cfg(feature = "metrics")]
mod weak;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub use builder::Builder;
pub use driver::Driver;
pub use end::ShutdownFuture;
pub use error::{BuildError, Refusal, ScheduleError, ShutdownError};
pub use group::Group;
pub use health::{Health, ShardHealth, WorkerState};
pub use keyed::Shard;
pub use reusable::Reusable;
pub use shutdown::{Shutdown, Unfired};
pub use stats::{LevelStats, ShardStats, Stats};
pub use timeout::{Timeout, TimeoutGuard};

pub(crate) use alarm::{Alarm, NoAlarm, Ring};
#[cfg(feature = "metrics")]
pub(crate) use weak::WeakTimer;

use crate::entry::{MissedTicks, Schedule};
use engine::{Engine, Owner};
use schedule::Target;

/// A timer engine: schedule a timeout, reset it, cancel it, from any thread.
///
/// Clones are cheap and share one engine. When the last clone is dropped, and no
/// [`Sleep`](crate::Sleep), [`WithTimeout`](crate::WithTimeout) or [`Interval`](crate::Interval) of
/// the engine is left, the workers stop, and pending timeouts are dropped unrun. The drop does not
/// wait for the workers. [`shutdown`](Self::shutdown) hands the pending timeouts back.
///
/// A pending task that has captured a `Timer` or a [`Group`] of its own engine keeps that engine
/// alive until the task has run or is cancelled.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let idle = timer.schedule(Duration::from_secs(30), || println!("idle for 30 s: closing"))?;
/// // At every packet:
/// if !idle.reset(Duration::from_secs(30)) {
///     return Ok(()); // it has just fired, and closes the connection: stop serving
/// }
/// // On close:
/// idle.cancel();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Timer {
    engine: Arc<Owner>,
}

/// The global engine of the process.
static GLOBAL: OnceLock<Timer> = OnceLock::new();

impl Timer {
    /// Returns a builder with the defaults.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Makes an engine with the defaults: see [`Builder`].
    ///
    /// The call allocates, and does not block. It starts no thread.
    ///
    /// # Errors
    /// Returns [`BuildError::Wheels`] if there is no memory for the wheels, some 1 MB a shard.
    /// Every system can provide all other defaults.
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// Returns the global engine of the process, with the defaults.
    ///
    /// The first call makes the engine, which is never dropped. It is for code that needs a timer
    /// now and then and has none at hand. Its threads start with its first timeout. They do not
    /// keep the process from ending.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timeout = Timer::global().schedule(Duration::from_secs(5), || println!("too late"))?;
    /// assert!(timeout.cancel());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Panics if the first call finds no memory for the wheels: see [`new`](Self::new).
    pub fn global() -> &'static Timer {
        Self::try_global().expect("memory for the wheels of the process's own timer")
    }

    /// Returns the global engine, or `None` if there is no memory for it.
    pub(crate) fn try_global() -> Option<&'static Timer> {
        GLOBAL.get().or_else(|| Timer::new().ok().map(|timer| GLOBAL.get_or_init(|| timer)))
    }

    fn is_global(&self) -> bool {
        GLOBAL.get().is_some_and(|global| Arc::ptr_eq(&global.engine, &self.engine))
    }

    fn new_on(engine: Arc<Engine>) -> Self {
        Self { engine: Arc::new(Owner::of(engine)) }
    }

    #[inline]
    fn target(&self) -> Target<'_> {
        Target { shared: &self.engine.shared, shard: None, group: None }
    }

    /// Runs `task` once, after `delay`.
    ///
    /// The task never runs early. The delay is rounded up to a part of a tick, and the
    /// task may wait for others of its tick: see [`Builder::tick_duration`]. A delay of zero runs
    /// it at once. `Duration::MAX`, or any other delay that ends centuries after the engine's
    /// start, never runs it.
    ///
    /// The call takes no lock, except on a thread that has destroyed its thread-locals. Such
    /// threads share one state under a lock. Otherwise the call waits in two cases:
    ///
    /// * The thread has no free memory left while more than 16,384 entries wait for a worker that
    ///   runs. The call then waits for the worker to catch up, for [`Builder::max_wait`] at most.
    /// * Another thread is inside [`pause`](Self::pause). The call waits for its one look at the
    ///   clock.
    ///
    /// The call allocates in these cases:
    ///
    /// * The captures are larger than 24 bytes, or aligned to more than 8.
    /// * More timeouts are pending than ever before: see [`Builder::capacity`].
    /// * The thread uses the engine, or a shard that is not its own, for the first time.
    ///
    /// The first timeout of a shard starts its worker. The call wakes the worker only if this
    /// timeout is due before the worker would wake by itself, or if 8,192 timeouts wait to be taken
    /// in. In a driven engine it calls [`on_earlier`](Driver::on_earlier) instead, and takes a lock
    /// to look the callback up.
    ///
    /// # Errors
    /// Returns a [`ScheduleError`] with the task. Its kind is [`Refusal::Full`],
    /// [`Refusal::Shutdown`], [`Refusal::Forked`] or [`Refusal::OutOfMemory`]. Only the memory for
    /// timeouts is refused with an error. A closure that has to be boxed aborts the process if
    /// there is no memory, as everywhere in Rust.
    #[inline]
    pub fn schedule<F>(&self, delay: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.target().schedule(delay, task)
    }

    /// Runs `task` once, at `deadline`. It is [`schedule`](Self::schedule) with a point in time.
    ///
    /// A task whose deadline has passed runs at once.
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule).
    pub fn schedule_at<F>(&self, deadline: Instant, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.target().schedule_at(deadline, task)
    }

    /// Runs `task` once, after `delay`, and makes no handle.
    ///
    /// It is [`schedule`](Self::schedule) for a timeout that is never cancelled or reset, without
    /// the cost of a handle.
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule).
    #[inline]
    pub fn schedule_detached<F>(&self, delay: Duration, task: F) -> Result<(), ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.target().schedule_detached(delay, task)
    }

    /// Runs `task` once, at a tick between two delays that the engine chooses.
    ///
    /// The engine chooses a tick that other timeouts with overlapping ranges have taken, so that
    /// the worker wakes less often. It does not choose a tick that a thousand timeouts have taken,
    /// so that they do not all run at once. Use it for timeouts that need not be exact: idle
    /// timeouts, retries, reports.
    ///
    /// The task never runs before `earliest`, and is not scheduled for a time after `latest`. If
    /// `latest` is less than a tick after `earliest`, or before it, the call is a
    /// [`schedule`](Self::schedule) with `earliest`. A [`reset`](Timeout::reset) of the timeout is
    /// exact. The idea is that of Linux's timer slack and of Envoy's range timers.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let (earliest, latest) = (Duration::from_secs(60), Duration::from_secs(65));
    /// let idle = timer.schedule_between(earliest, latest, || println!("idle"))?;
    /// # drop(idle);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule).
    pub fn schedule_between<F>(
        &self,
        earliest: Duration,
        latest: Duration,
        task: F,
    ) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.target().schedule_between(earliest, latest, task)
    }

    /// Schedules many tasks with one delay: all of them or none.
    ///
    /// The call reads the clock once, and makes one exchange on the shard's inbox for all tasks. It
    /// allocates two vectors. Otherwise it allocates and waits as [`schedule`](Self::schedule)
    /// does.
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule), with all the tasks.
    pub fn schedule_many<F>(
        &self,
        delay: Duration,
        tasks: impl IntoIterator<Item = F>,
    ) -> Result<Vec<Timeout>, ScheduleError<Vec<F>>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.target().schedule_many(delay, tasks)
    }

    /// Runs `task` periodically: first after `initial`, and the k-th time k `period`s after that.
    ///
    /// Deadlines come from this schedule and not from the ends of runs, so a periodic timeout does
    /// not drift. If a run ends when the next one is already due, the missed runs are
    /// [skipped](MissedTicks::Skip): a task of 110 ms at a rate of 100 ms runs every 200 ms.
    /// [`schedule_at_fixed_rate_with`](Self::schedule_at_fixed_rate_with) has the other choices.
    ///
    /// Runs of one periodic timeout never overlap. A panic of the task ends it. Its handle ends it
    /// by [`cancel`](Timeout::cancel), and moves its next run by [`reset`](Timeout::reset). It
    /// counts as one pending timeout, also while it runs. The call allocates once, for all runs.
    /// Otherwise it allocates and waits as [`schedule`](Self::schedule) does.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::Duration;
    /// use tourbillon::{ManualClock, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let runs = Arc::new(AtomicU32::new(0));
    /// let count = Arc::clone(&runs);
    /// let second = Duration::from_secs(1);
    /// let beat = move || _ = count.fetch_add(1, Ordering::Relaxed);
    /// let heartbeat = timer.schedule_at_fixed_rate(second, second, beat)?;
    /// for _ in 0..3 {
    ///     clock.advance(second);
    /// }
    /// assert_eq!(runs.load(Ordering::Relaxed), 3);
    /// assert!(heartbeat.cancel());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule), and [`Refusal::ZeroPeriod`] if `period`
    /// is zero.
    pub fn schedule_at_fixed_rate<F>(
        &self,
        initial: Duration,
        period: Duration,
        task: F,
    ) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.schedule_at_fixed_rate_with(initial, period, MissedTicks::default(), task)
    }

    /// Runs `task` periodically at a fixed rate, and `missed` decides what happens to missed runs.
    ///
    /// Otherwise it is [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    ///
    /// # Errors
    /// Returns the errors of [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    pub fn schedule_at_fixed_rate_with<F>(
        &self,
        initial: Duration,
        period: Duration,
        missed: MissedTicks,
        task: F,
    ) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.target().schedule_fn_repeat(initial, Schedule::fixed_rate(period, missed), task)
    }

    /// Runs `task` periodically: first after `initial`, and then `delay` after each run has ended.
    ///
    /// Otherwise it is [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule), and [`Refusal::ZeroPeriod`] if `delay`
    /// is zero.
    pub fn schedule_with_fixed_delay<F>(
        &self,
        initial: Duration,
        delay: Duration,
        task: F,
    ) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.target().schedule_fn_repeat(initial, Schedule::fixed_delay(delay), task)
    }

    /// Runs `task` first after `initial`, and then whenever its last run said.
    ///
    /// Each run returns how long after its end the next run is due, or `None` if there is none. A
    /// delay of zero means the next tick. Use it for schedules of your own, such as retries that
    /// back off, and calendars. Otherwise it is
    /// [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let mut pause = Duration::from_millis(100);
    /// let retries = timer.schedule_repeating(Duration::ZERO, move || {
    ///     let done = false; // try something here
    ///     pause *= 2;
    ///     (!done).then_some(pause)
    /// })?;
    /// # drop(retries);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule).
    pub fn schedule_repeating<F>(&self, initial: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnMut() -> Option<Duration> + Send + 'static,
    {
        self.target().schedule_repeating(initial, task)
    }

    /// Returns how many timeouts are pending: scheduled, and neither fired nor cancelled. A
    /// periodic timeout counts as one.
    ///
    /// Calls in progress on other threads may be missing, and timeouts that they are about to
    /// cancel too late. The call sums the counters of all threads; with
    /// [`Builder::max_pending_timeouts`] it reads one. It does not allocate.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.engine.shared.pending()
    }

    /// Returns a snapshot of the counters. The call allocates. It costs the producers nothing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(&self.engine)
    }

    /// Gives memory that no timeout uses back to the system, and returns how many bytes. Use it
    /// after a spike.
    ///
    /// Memory goes back by pages, usually of 64 timeouts. A page stays as long as one of its
    /// timeouts is pending, or has a handle, or is one of the free entries that each thread keeps
    /// (up to 256). Memory that [`Builder::capacity`] reserved stays, too. The engine takes the
    /// memory again when it needs it. Timeouts that are scheduled during the call may take new
    /// memory.
    ///
    /// The call takes some nanoseconds for each free entry. It takes no lock, and allocates two
    /// bytes for each page of the engine. It does nothing on systems other than Linux. It does
    /// nothing in a child process that was forked off after the engine was made.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// // ... at night, when the day's connections have gone:
    /// println!("{} bytes given back", timer.shrink());
    /// # Ok(())
    /// # }
    /// ```
    pub fn shrink(&self) -> usize {
        self.engine.shared.shrink()
    }

    /// Returns how many shards the engine has.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.engine.shared.remotes().len()
    }

    /// Returns how many ticks one wheel spans: the value that the builder got, rounded up to a
    /// power of two.
    #[must_use]
    pub fn ticks_per_wheel(&self) -> usize {
        self.engine.ticks_per_wheel
    }

    /// Returns a snapshot of the health of the workers and the tasks. The call allocates. It costs
    /// the producers nothing. It tries again to start a worker that the system gave no thread for.
    #[must_use]
    pub fn health(&self) -> Health {
        Health::of(&self.engine)
    }
}
