//! What users touch.

mod alarm;
mod build;
mod builder;
mod bulk;
mod clock;
mod driver;
mod engine;
mod error;
mod given_back;
mod group;
mod health;
mod instances;
mod keyed;
mod members;
mod schedule;
mod shutdown;
mod stats;
mod step;
mod timeout;
#[cfg(feature = "metrics")]
mod weak;

use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub use builder::Builder;
pub use driver::Driver;
pub use error::{BuildError, Refusal, ScheduleError, ShutdownError};
pub use group::Group;
pub use health::{Health, ShardHealth, WorkerState};
pub use keyed::Shard;
pub use shutdown::{Shutdown, Unfired};
pub use stats::{LevelStats, ShardStats, Stats};
pub use timeout::{Timeout, TimeoutGuard};

pub(crate) use alarm::{Alarm, NoAlarm, Ring};
#[cfg(feature = "metrics")]
pub(crate) use weak::WeakTimer;

use crate::entry::{MissedTicks, Schedule};
use engine::{Engine, Owner};
use schedule::Target;

/// A timer engine: arm a timeout, push it out, cancel it, from any thread.
///
/// Clones are cheap and share one engine. When the last is dropped, and no [`Sleep`](crate::Sleep), `WithTimeout` or `Interval` of it is
/// left, the workers stop, without anybody waiting for them, and what is pending is dropped unrun; see [`shutdown`](Self::shutdown) to get
/// it back. (A pending task that has captured a `Timer`, or a [`Group`], of its own engine keeps that engine until it has run, or is
/// cancelled.)
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

/// The process's own.
static GLOBAL: OnceLock<Timer> = OnceLock::new();

impl Timer {
    /// A builder with the defaults.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// An engine with the defaults: see [`Builder`].
    ///
    /// # Errors
    /// [`BuildError::Wheels`] if there is no memory for the wheels, some 500 KB a shard. All other
    /// defaults can be had on every system.
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// The process's own engine, with the defaults, made at the first call and never dropped: for whatever needs a timer now and
    /// then and has none at hand. Its threads start with its first timeout, and don't keep the process from ending.
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
    /// If the first call finds no memory for the wheels, see [`new`](Self::new).
    pub fn global() -> &'static Timer {
        Self::try_global().expect("memory for the wheels of the process's own timer")
    }

    /// None if there is no memory for it.
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

    /// Runs `task` after `delay`, rounded up to a tick: never early. No delay runs it at once; `Duration::MAX`, or anything
    /// else that is more than 2^55 ticks or 584 years after the engine's start, never.
    ///
    /// Takes no lock. Waits only if the thread has no free memory left while more than 16,384 entries wait for a worker that is
    /// running, to let that catch up, for [`Builder::max_wait`] at most; and while another thread is in the midst of
    /// [`pause`](Self::pause), for its one look at the clock. Allocates only if the captures are larger
    /// than 24 bytes (or aligned to more than 8), if more timeouts are pending than ever before (see [`Builder::capacity`]),
    /// or at a thread's first use of the engine, or of a shard that is not its own; the first timeout of a shard starts its
    /// worker. Wakes the worker only if this timeout is due before the worker would wake by itself, or if 8,192 wait to be taken in.
    /// (Of a driven engine that is a call of [`on_earlier`](Driver::on_earlier), and looking it up takes a lock.)
    ///
    /// # Errors
    /// [`Refusal::Full`], [`Refusal::Shutdown`], [`Refusal::Forked`] or [`Refusal::OutOfMemory`], in a [`ScheduleError`] with the
    /// task. (Of what is allocated, only the memory for timeouts is refused so; a closure that has to be boxed aborts without memory,
    /// as everywhere.)
    #[inline]
    pub fn schedule<F>(&self, delay: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.target().schedule(delay, task)
    }

    /// As [`schedule`](Self::schedule), at a point in time. One that has passed runs at once.
    ///
    /// # Errors
    /// As for [`schedule`](Self::schedule).
    pub fn schedule_at<F>(&self, deadline: Instant, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.target().schedule_at(deadline, task)
    }

    /// As [`schedule`](Self::schedule), for a timeout that is never cancelled or reset: no handle, and no cost for one.
    ///
    /// # Errors
    /// As for [`schedule`](Self::schedule).
    #[inline]
    pub fn schedule_detached<F>(&self, delay: Duration, task: F) -> Result<(), ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.target().schedule_detached(delay, task)
    }

    /// As [`schedule`](Self::schedule), anywhere between two delays from now, wherever it suits the engine: at a tick that
    /// others have taken whose ranges overlap, so that the worker wakes less often, but not at one that a thousand have
    /// taken, so that they don't all run at once. For whatever need not be exact: idle timeouts, retries, reports.
    ///
    /// Never before `earliest`; not for after `latest`, unless that is less than a tick from `earliest`, or before it: then as
    /// `schedule(earliest, ..)`. A [`reset`](Timeout::reset) of it is exact. (After the timer slack of Linux, and the range
    /// timers of Envoy.)
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let idle = timer.schedule_between(Duration::from_secs(60), Duration::from_secs(65), || println!("idle"))?;
    /// # drop(idle);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`schedule`](Self::schedule).
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
        self.target().schedule_many(delay, tasks)
    }

    /// Runs `task` again and again: the first time after `initial`, the k-th time k `period`s after that. Deadlines come from
    /// this schedule and not from when runs end, so a series does not drift; if a run ends when the next one was already
    /// due, what was missed is [skipped](MissedTicks::Skip): a task of 110 ms at a rate of 100 ms runs every 200 ms.
    /// [`schedule_at_fixed_rate_with`](Self::schedule_at_fixed_rate_with) has the other answers.
    ///
    /// Runs of one series never overlap. A panic ends it. Its handle stops it ([`cancel`](Timeout::cancel)) and moves its
    /// next run ([`reset`](Timeout::reset)). It counts as one timeout that is pending, also while it runs. Allocates once, for
    /// all its runs.
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
    /// let heartbeat = timer.schedule_at_fixed_rate(second, second, move || _ = count.fetch_add(1, Ordering::Relaxed))?;
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
    /// As for [`schedule`](Self::schedule), and [`Refusal::ZeroPeriod`].
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

    /// As [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate), with a choice of what happens to runs that were missed.
    ///
    /// # Errors
    /// As there.
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

    /// As [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate), but each run comes `delay` after the one before has ended.
    ///
    /// # Errors
    /// As there.
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

    /// As [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate), but the task answers each time how long after that answer to
    /// run it next (with no delay: on the next tick), or none if it is done. For schedules of one's own: retries that back
    /// off, calendars.
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
    /// As for [`schedule`](Self::schedule).
    pub fn schedule_repeating<F>(&self, initial: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnMut() -> Option<Duration> + Send + 'static,
    {
        self.target().schedule_repeating(initial, task)
    }

    /// The shard of a key, to schedule on: all timeouts of one key live there, so that they expire in the order of their ticks, and no two
    /// workers ever handle them. (In the order of their ticks they also *run* only with an executor that keeps it:
    /// [`Inline`](crate::Inline), or a pool of one thread. And of an inbox that holds more than [`Builder::transfer_limit`], what is left
    /// for the next turn may come after what is due later.) The shards are the same in each run of a program, as far as the key hashes the
    /// same.
    ///
    /// The answer borrows the timer, and costs a hash: ask each time. (A group's timeouts can't be given a shard.)
    ///
    /// Otherwise a timeout goes to the home shard of the thread that schedules it, which is what costs least.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().shards(4).build()?;
    /// let connection_id = 4711;
    /// timer.shard_for(&connection_id).schedule_detached(Duration::from_secs(1), || println!("first"))?;
    /// timer.shard_for(&connection_id).schedule_detached(Duration::from_secs(2), || println!("second"))?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn shard_for<K: Hash + ?Sized>(&self, key: &K) -> Shard<'_> {
        Shard::of_key(&self.engine.shared, key)
    }

    /// How many timeouts are pending: scheduled, and neither fired nor cancelled; a series counts as one. Calls that are in progress on other
    /// threads may be missing.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.engine.shared.pending()
    }

    /// A snapshot of the counters. Allocates; costs the producers nothing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(&self.engine)
    }

    /// Gives memory back to the system that no timeout uses, after a spike, say. Returns how many bytes.
    ///
    /// It goes back by pages, of 64 timeouts as a schedule: a page stays as long as one of its timeouts is pending, or has a handle, or is
    /// one of the free ones that each thread keeps (up to 256). What was reserved by [`Builder::capacity`] stays, too. The engine takes
    /// the memory again when it needs it; timeouts that are scheduled meanwhile may take new memory. Takes some nanoseconds for each
    /// free entry; takes no lock, and allocates two bytes for each page of the engine. Does nothing but on Linux, and in a child
    /// that was forked off since the engine was made.
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

    /// How many shards there are.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.engine.shared.remotes().len()
    }

    /// How many ticks one wheel spans: as given to the builder, rounded up to a power of two.
    #[must_use]
    pub fn ticks_per_wheel(&self) -> usize {
        self.engine.ticks_per_wheel
    }

    /// How the workers and the tasks are doing. Allocates; costs the producers nothing.
    #[must_use]
    pub fn health(&self) -> Health {
        Health::of(&self.engine)
    }

    /// Shuts the engine down: nothing is accepted any more, what is pending is cancelled and returned, the workers end. Waits for them, and
    /// for tasks that are already running; with the built-in executors also for those that have expired and not yet begun to run (but not
    /// from a task of another engine, on whose thread those may be waiting). Every timeout that was ever accepted has then run, or was
    /// cancelled, or is in the answer, or waits in an executor that is not built in, which runs it when it comes to it.
    ///
    /// Futures that sleep are not in the answer: they are ready now, and say so
    /// ([`Sleep::ended_by_shutdown`](crate::Sleep::ended_by_shutdown)).
    ///
    /// # Errors
    /// [`ShutdownError::FromTask`] from one of the engine's own tasks, and [`ShutdownError::AlreadyShutdown`] for all calls
    /// after the first, which then may still be at it; [`ShutdownError::Forked`] in a child process;
    /// [`ShutdownError::Global`] for [`global`](Self::global). [`ShutdownError::OutOfMemory`] if there is no memory for the answer: the
    /// engine is shut down then, and another call gives the answer.
    pub fn shutdown(&self) -> Result<Vec<Unfired>, ShutdownError> {
        self.shutdown_with(Shutdown::Cancel)
    }

    /// As [`shutdown`](Self::shutdown), with a choice of what becomes of what is pending. What is left is returned.
    ///
    /// # Errors
    /// As for [`shutdown`](Self::shutdown).
    pub fn shutdown_with(&self, how: Shutdown) -> Result<Vec<Unfired>, ShutdownError> {
        if self.is_global() { Err(ShutdownError::Global) } else { self.engine.shutdown(how) }
    }

    /// Whether nothing is accepted any more, and never will be: a shutdown has closed all shards (it may still wait for tasks that run), or
    /// the driver has gone.
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.engine.shared.remotes().iter().all(|remote| remote.is_closed())
    }
}
