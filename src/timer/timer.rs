//! The timer itself: how a user makes one, and what it is made of.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::builder::Builder;
use super::engine::Owner;
use super::error::BuildError;
use super::schedule::Shard;
use crate::engine::EngineRef;
use crate::sys::fork;
use crate::time::Timeline;

/// A timer engine: schedule a timeout, reset it, cancel it, from any thread.
///
/// Clones are cheap and share one engine. When the last clone is dropped, and no
/// [`Sleep`](crate::Sleep), [`TimeoutFuture`](crate::TimeoutFuture) or
/// [`Interval`](crate::Interval) of the engine is left, the workers stop, and pending timeouts are
/// dropped unrun. The drop does not wait for the workers. [`shutdown`](Self::shutdown) hands the
/// pending timeouts back.
///
/// A pending task that has captured a `Timer` of its own engine keeps that engine alive until the
/// task has run or is cancelled.
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
#[derive(Clone)]
pub struct Timer {
    pub(super) owner: Arc<Owner>,
}

impl Timer {
    /// Returns a builder with the defaults.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().shards(2).tick_duration(Duration::from_micros(100)).build()?;
    /// assert_eq!(timer.shards(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Makes an engine with the defaults: see [`Builder`].
    ///
    /// The call allocates, and does not block. It starts no thread.
    ///
    /// ```
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let same = timer.clone(); // for another thread, or another part of the program
    /// assert_eq!((timer.pending(), same.pending()), (0, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns [`BuildError::Wheels`] if there is no memory for the wheels, some 0.4 MB a shard.
    /// Every system can provide all other defaults.
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// Returns the global engine of the process.
    ///
    /// The first call makes the engine with the defaults, unless
    /// [`Builder::build_global`](crate::Builder::build_global) has made it before. It is never
    /// dropped. It is for code that needs a timer now and then and has none at hand; `compat` and
    /// the free functions, such as [`sleep`](crate::sleep), use it. Its threads start with its
    /// first timeout, so a call before a fork is harmless. They do not keep the process from
    /// ending. Call this again in a forked child: it has a global engine of its own, with the
    /// defaults unless it has called `build_global`.
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

    /// Returns how long a tick is. It neither blocks nor allocates.
    #[must_use]
    pub fn tick_duration(&self) -> Duration {
        self.timeline().scale().tick_duration()
    }

    /// Returns the number of the last tick that has come, by the engine's clock. The first tick is
    /// 0.
    ///
    /// The call reads the clock, and does not allocate.
    #[must_use]
    pub fn current_tick(&self) -> u64 {
        let timeline = self.timeline();
        timeline.scale().last_tick(timeline.current())
    }

    /// Returns the time now, by the engine's clock: the real one, or that of
    /// [`Builder::clock`](crate::Builder::clock).
    ///
    /// Deadlines count from this time. [`schedule_at`](Self::schedule_at) with `timer.now() +
    /// delay` is [`schedule`](Self::schedule) with `delay`. [`Instant::now`] is not the same: an
    /// engine in a test knows its [`ManualClock`](crate::ManualClock) only.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{ManualClock, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let deadline = timer.now() + Duration::from_secs(5); // of a request in two steps
    /// let first = timer.schedule_at(deadline, || println!("no answer to the first"))?;
    /// clock.advance(Duration::from_secs(2));
    /// assert!(first.cancel()); // answered: the second step has the 3 s that are left
    /// let second = timer.schedule_at(deadline, || println!("no answer to the second"))?;
    /// clock.advance(Duration::from_secs(3));
    /// assert!(second.is_expired());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn now(&self) -> Instant {
        self.timeline().now()
    }

    /// Gives memory that no timeout uses back to the system, and returns how many bytes. Use it
    /// after a spike.
    ///
    /// Memory goes back by pages, usually of 64 timeouts. A page stays as long as one of its
    /// timeouts is pending, or has a handle, or is one of the entries that each thread keeps: up to
    /// 192 free ones, a worker 128 more, and up to 64 that it has given up. Memory that
    /// [`Builder::capacity`](crate::Builder::capacity) reserved stays, too. The engine takes the
    /// memory again when it needs it. Timeouts that are scheduled during the call may take new
    /// memory.
    ///
    /// The worker gives the unused cells of its wheel back in its next turn. They are not counted.
    ///
    /// The call takes some nanoseconds for each free entry. It takes no lock, and allocates
    /// 20 to 40 bytes for each page of the engine. It does nothing on systems other than Linux, nor
    /// in a child process that was forked off after the engine was made.
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
        self.owner.shared.shrink()
    }

    /// Returns the global engine, or `None` if there is no memory for it.
    pub(crate) fn try_global() -> Option<&'static Timer> {
        let here = Global::here();
        here.get().or_else(|| Timer::new().ok().map(|timer| here.get_or_init(|| timer)))
    }

    /// Makes this engine the global one. Gives it back if there is one already.
    pub(super) fn set_global(self) -> Result<&'static Timer, Timer> {
        Global::here().set(self)?;
        Ok(Self::global())
    }

    pub(super) fn is_global(&self) -> bool {
        Global::here().get().is_some_and(|global| Arc::ptr_eq(&global.owner, &self.owner))
    }

    #[inline]
    pub(crate) fn home_shard(&self) -> Shard<'_> {
        Shard::home(&self.owner.shared)
    }

    /// The engine's time.
    pub(crate) fn timeline(&self) -> &Timeline {
        self.owner.shared.timeline()
    }

    /// A counted reference to the engine, which a future holds.
    pub(crate) fn engine_ref(&self) -> EngineRef {
        // SAFETY: this is a timer of the engine.
        unsafe { self.owner.shared.engine_ref() }
    }
}

/// The global engine of one process, and those of its forked children.
#[derive(Default)]
struct Global {
    timer: OnceLock<Timer>,
    /// In a child process: the child's own. A child has no use for its parent's: the threads are
    /// not there, and a thread of the parent may have been making it during the fork.
    child: OnceLock<Box<Global>>,
}

/// The global engine of the first process that asked for one.
static FIRST: Global = Global { timer: OnceLock::new(), child: OnceLock::new() };

impl Global {
    /// Returns the place of this process's global engine.
    fn here() -> &'static OnceLock<Timer> {
        let child = |global: &'static Self, _| &**global.child.get_or_init(Box::default);
        &(0..fork::ancestors()).fold(&FIRST, child).timer
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut this = f.debug_struct("Timer");
        this.field("shards", &self.shards()).field("is_shutdown", &self.is_shutdown());
        if !self.owner.shared.is_forked() {
            this.field("pending", &self.pending());
        }
        this.finish()
    }
}
