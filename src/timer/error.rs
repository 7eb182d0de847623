//! The errors, and what to do about each of them.

use std::error::Error;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// A timeout that was not scheduled, with its task. [`kind`](Self::kind) says why. Each [`Refusal`]
/// says what to do about it.
///
/// It is `Send` and `Sync` for every task that can be scheduled, so `?` passes it on:
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// type Task = Box<dyn FnOnce() + Send>; // not `Sync`
///
/// fn arm(timer: &Timer, task: Task) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     timer.schedule_detached(Duration::from_secs(5), task)?;
///     Ok(())
/// }
/// # arm(Timer::global(), Box::new(|| ())).unwrap();
/// ```
///
/// Or the caller takes the task back:
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{Refusal, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::builder().max_pending_timeouts(1).build()?;
/// let only = timer.schedule(Duration::from_secs(5), || println!("too late"))?;
/// let refused = timer.schedule(Duration::from_secs(5), || println!("one too many")).unwrap_err();
/// match refused.kind() {
///     Refusal::Full => refused.into_inner()(),
///     _ => return Err(refused.into()),
/// }
/// # drop(only);
/// # Ok(())
/// # }
/// ```
pub struct ScheduleError<F> {
    kind: Refusal,
    /// Never locked: it is in a `Mutex` because that is `Sync` for a task that is not.
    task: Mutex<F>,
}

/// Why a timeout was not scheduled: the [`kind`](ScheduleError::kind) of a [`ScheduleError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The timeouts would be more than
    /// [`Builder::max_pending_timeouts`](crate::Builder::max_pending_timeouts) allows to be
    /// pending. Shed load, or try again when some have fired or been cancelled.
    ///
    /// A [`schedule_many`](crate::Timer::schedule_many) of more tasks than the limit never fits.
    /// Give it fewer at a time.
    Full,
    /// The engine has been shut down, or its [`Driver`](crate::Driver) is gone. It never takes a
    /// timeout again. Schedule on another engine, or give up.
    Shutdown,
    /// This process was forked off after the engine was made. The engine's threads are in the
    /// parent. Make an engine of the child's own.
    Forked,
    /// The system has no memory for another timeout. Those that are pending go on. Shed load, or
    /// try again when some have fired or been cancelled.
    ///
    /// [`Builder::capacity`](crate::Builder::capacity) reserves memory beforehand. It also says
    /// what takes memory besides the pending timeouts.
    OutOfMemory,
    /// The period of a fixed rate, or the delay of a fixed delay, is zero. Such a periodic timeout
    /// would run without a break. Give a longer one.
    ZeroPeriod,
}

impl<F> ScheduleError<F> {
    pub(crate) fn new(kind: Refusal, task: F) -> Self {
        Self { kind, task: Mutex::new(task) }
    }

    pub(super) fn map<T>(self, change: impl FnOnce(F) -> T) -> ScheduleError<T> {
        ScheduleError::new(self.kind, change(self.into_inner()))
    }

    /// Returns why it was not scheduled.
    #[must_use]
    pub fn kind(&self) -> Refusal {
        self.kind
    }

    /// Returns the task that was not scheduled. After a
    /// [`schedule_many`](crate::Timer::schedule_many) these are all of its tasks.
    pub fn into_inner(self) -> F {
        self.task.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the task, and returns the error without it.
    ///
    /// A function that schedules a closure of its own returns such an error, because the closure's
    /// type has no name.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{ScheduleError, Timeout, Timer};
    ///
    /// fn warn_after(timer: &Timer, limit: Duration) -> Result<Timeout, ScheduleError<()>> {
    ///     timer.schedule(limit, || println!("slow")).map_err(ScheduleError::without_task)
    /// }
    /// # assert!(warn_after(Timer::global(), Duration::from_secs(5)).unwrap().cancel());
    /// ```
    pub fn without_task(self) -> ScheduleError<()> {
        self.map(drop)
    }

    /// Returns whether the engine has been shut down. If so, trying again is of no use.
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.kind == Refusal::Shutdown
    }

    /// Returns whether too many timeouts were pending. If so, trying again later may help.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kind == Refusal::Full
    }
}

impl<F> fmt::Debug for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleError").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl<F> Error for ScheduleError<F> {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => {
                "the timer has no room for that many within max_pending_timeouts: try again when some have fired or been cancelled, \
                 or with fewer at a time"
            }
            Self::Shutdown => "the timer has been shut down, or its driver is gone: it takes no more timeouts",
            Self::Forked => {
                "the timer was made before this process was forked, and its threads are in the parent: make one in \
                 the child, or call Timer::global there"
            }
            Self::OutOfMemory => {
                "there is no memory for another timeout: try again when some have fired or been cancelled, or reserve more \
                 with Builder::capacity"
            }
            Self::ZeroPeriod => "the period, or delay, of a periodic timeout must not be zero",
        })
    }
}

impl Error for Refusal {}

/// A [`Builder`](crate::Builder) value that makes no sense, or that this system cannot provide.
///
/// ```
/// use tourbillon::{BuildError, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let error = Timer::builder().shards(0).build().unwrap_err();
/// assert!(matches!(error, BuildError::Zero { option: "shards" }));
/// println!("{error}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuildError {
    /// The option must be at least 1. A duration must be longer than zero.
    Zero {
        /// The method of the builder, or the part of its argument that is zero.
        option: &'static str,
    },
    /// The option is larger than it may be.
    TooLarge {
        /// The method of the builder.
        option: &'static str,
        /// The value that was given. For a duration, in nanoseconds.
        value: u128,
        /// The largest value that is allowed, in the unit of `value`.
        max: u128,
    },
    /// The option is smaller than it may be.
    TooSmall {
        /// The method of the builder.
        option: &'static str,
        /// The value that was given. For a duration, in nanoseconds.
        value: u128,
        /// The smallest value that is allowed, in the unit of `value`.
        min: u128,
    },
    /// `levels` wheels of `ticks_per_wheel` would count more ticks than the engine has.
    TooManyLevels {
        /// The value that was given.
        levels: usize,
        /// The ticks of a wheel, rounded up to a power of two.
        ticks_per_wheel: usize,
        /// The largest number of levels for this many ticks a wheel.
        max: usize,
    },
    /// More than one level needs at least two ticks a wheel.
    TooFewTicks {
        /// The value that was given.
        levels: usize,
    },
    /// This process may not use the core that a worker should be pinned to, or the core does not
    /// exist.
    UnknownCore {
        /// The value that was given.
        core: usize,
        /// The cores that this process may use.
        allowed: Vec<usize>,
    },
    /// There is no memory for this many timeouts. Or the memory lies at addresses of more than 48
    /// bits, which an engine cannot use.
    Capacity {
        /// The value that was given.
        timeouts: usize,
    },
    /// There is no memory for the shards' wheels.
    Wheels {
        /// The number of shards.
        shards: usize,
        /// The number of levels of each shard.
        levels: usize,
        /// The ticks of a wheel, rounded up to a power of two.
        ticks_per_wheel: usize,
    },
    /// The engines of this process have too many shards together. Those of an engine are free again
    /// some time after its last `Timer`, future and handle have gone. A handle that is forgotten
    /// keeps them, and so do, in a forked child, the parent's engines. Two builds at a time may
    /// both be refused if there is room for one.
    TooManyShards {
        /// The number of shards that the engine should have.
        shards: usize,
        /// The largest number that all engines of a process have together.
        max: usize,
    },
    /// The process has a global engine already: an earlier `build_global`, or a use of
    /// [`Timer::global`](crate::Timer::global), has made it. Call `build_global` before all that
    /// uses timers.
    GlobalExists,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero { option } => write!(f, "{option} must not be zero"),
            Self::TooLarge { option: option @ "tick_duration", value, max } => {
                write!(f, "{option} is {value} ns; it may be {max} ns at most")
            }
            Self::TooSmall { option, value, min } => write!(f, "{option} is {value} ns; it must be {min} ns at least"),
            Self::TooLarge { option, value, max } => write!(f, "{option} is {value}; it may be {max} at most"),
            Self::TooManyLevels { levels, ticks_per_wheel, max } => {
                write!(f, "levels is {levels}; with {ticks_per_wheel} ticks_per_wheel it may be {max} at most")
            }
            Self::TooFewTicks { levels } => {
                write!(f, "ticks_per_wheel is 1; with {levels} levels it must be 2 at least")
            }
            Self::UnknownCore { core, allowed } => {
                write!(f, "core {core} is not one that this process may use; those are {allowed:?}")
            }
            Self::Capacity { timeouts } => {
                write!(f, "there is no memory for a capacity of {timeouts} timeouts, of 64 bytes each")
            }
            Self::Wheels { shards, levels, ticks_per_wheel } => write!(
                f,
                "there is no memory for {shards} shards, each with {levels} levels of {ticks_per_wheel} ticks_per_wheel, which take up \
                 to 256 bytes a tick: less of one of the three will do"
            ),
            Self::TooManyShards { shards, max } => write!(
                f,
                "there is no room for {shards} shards more: all engines of the process may have {max} together, and \
                 one engine for the process is enough"
            ),
            Self::GlobalExists => f.write_str(
                "the process has a global engine already: call build_global first thing in main, or in a forked child \
                 first thing after the fork, and only once",
            ),
        }
    }
}

impl Error for BuildError {}

/// Why [`Timer::shutdown`](crate::Timer::shutdown) returned no timeouts.
///
/// ```
/// use tourbillon::{ShutdownError, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// timer.shutdown()?;
/// assert_eq!(timer.shutdown().unwrap_err(), ShutdownError::AlreadyShutdown);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The caller is one of the engine's own tasks, and the shutdown would have to wait for that
    /// task. Call [`Timer::shutdown_async`](crate::Timer::shutdown_async) and do not wait for it,
    /// or call the shutdown from another thread, or drop the timer.
    FromTask,
    /// The engine has been shut down before.
    AlreadyShutdown,
    /// This process was forked off after the engine was made. Only the parent can shut the engine
    /// down.
    Forked,
    /// The engine is shut down, but there is no memory for the answer. Nothing is lost. Call the
    /// shutdown once more when there is memory.
    OutOfMemory,
    /// The engine is the global one, [`Timer::global`](crate::Timer::global). It ends with the
    /// process.
    Global,
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FromTask => {
                "shutdown was called from one of the timer's own tasks, which it waits for: \
                 call it from another thread, or call shutdown_async and do not wait for it"
            }
            Self::AlreadyShutdown => "the timer has been shut down before",
            Self::Forked => "the timer was made before this process was forked: only the parent can shut it down",
            Self::OutOfMemory => {
                "the timer is shut down, and there is no memory to hand back what was pending: call again later"
            }
            Self::Global => "the process's own timer can't be shut down: other code may rely on it",
        })
    }
}

impl Error for ShutdownError {}

/// Checks that a count is neither zero nor more than `max`.
pub(super) fn check_count(option: &'static str, value: usize, max: usize) -> Result<(), BuildError> {
    check(option, value as u128, 1, max as u128)
}

/// Checks that a value is not zero, and neither less than `min` nor more than `max`.
pub(super) fn check(option: &'static str, value: u128, min: u128, max: u128) -> Result<(), BuildError> {
    match value {
        0 => Err(BuildError::Zero { option }),
        _ if value < min => Err(BuildError::TooSmall { option, value, min }),
        _ if value > max => Err(BuildError::TooLarge { option, value, max }),
        _ => Ok(()),
    }
}
