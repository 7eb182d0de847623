//! What can go wrong, and what to do about it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A timeout that was not scheduled. The task comes back in it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError<F> {
    /// There is no room within `max_pending_timeouts`. Passing: shed load, or try again when some have fired or been cancelled.
    /// (Or for good, if `schedule_many` was given more than that at once.)
    Full(F),
    /// The engine has been shut down. For good: schedule on another, or give up.
    Shutdown(F),
    /// The period of a fixed rate, or the delay of a fixed delay, is zero: it would run without end. Give a longer one.
    ZeroPeriod(F),
    /// This process was forked off after the engine was made, and the engine's threads stayed with the parent. For good: make
    /// an engine of the child's own.
    Forked(F),
    /// The system has no more memory for timeouts: those that are pending go on. Perhaps passing: shed load, or try again when some
    /// have fired or been cancelled. To be safe from it, reserve with [`Builder::capacity`](crate::Builder::capacity) what may be
    /// pending at once, and what is said there to come on top of it.
    OutOfMemory(F),
}

impl<F> ScheduleError<F> {
    /// The task (or tasks) that were not scheduled.
    pub fn into_inner(self) -> F {
        match self {
            Self::Full(task)
            | Self::Shutdown(task)
            | Self::ZeroPeriod(task)
            | Self::Forked(task)
            | Self::OutOfMemory(task) => task,
        }
    }

    /// The same error without the task, which may not be what an error that is handed on has to be (`Sync`, or `'static`).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// fn arm(timer: &Timer, task: Box<dyn FnOnce() + Send>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ///     timer.schedule_detached(Duration::from_secs(5), task).map_err(|refused| refused.without_task())?;
    ///     Ok(())
    /// }
    /// # arm(Timer::global(), Box::new(|| ())).unwrap();
    /// ```
    pub fn without_task(self) -> ScheduleError<()> {
        match self {
            Self::Full(_) => ScheduleError::Full(()),
            Self::Shutdown(_) => ScheduleError::Shutdown(()),
            Self::ZeroPeriod(_) => ScheduleError::ZeroPeriod(()),
            Self::Forked(_) => ScheduleError::Forked(()),
            Self::OutOfMemory(_) => ScheduleError::OutOfMemory(()),
        }
    }

    /// Whether the engine has been shut down, so that trying again is of no use.
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        matches!(self, Self::Shutdown(_))
    }

    /// Whether too many timeouts were pending, so that trying again later may help.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

impl<F> fmt::Debug for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Shutdown(_) => "Shutdown(..)",
            Self::ZeroPeriod(_) => "ZeroPeriod(..)",
            Self::Forked(_) => "Forked(..)",
            Self::OutOfMemory(_) => "OutOfMemory(..)",
        })
    }
}

impl<F> fmt::Display for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => {
                "the timer has no room for so many within max_pending_timeouts: try again when some have fired or been cancelled, \
                 or with fewer at a time"
            }
            Self::Shutdown(_) => "the timer has been shut down, or its driver is gone: it takes no more timeouts",
            Self::ZeroPeriod(_) => "the period, or delay, of a series must not be zero",
            Self::Forked(_) => {
                "the timer was made before this process was forked, and its threads are in the parent: make one in the child"
            }
            Self::OutOfMemory(_) => {
                "there is no memory for another timeout: try again when some have fired or been cancelled, or reserve more \
                 with Builder::capacity"
            }
        })
    }
}

impl<F> Error for ScheduleError<F> {}

/// A [`Builder`](crate::Builder) value that makes no sense, or can't be had on this system.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The option must be at least 1 (for a duration: longer than nothing).
    Zero {
        /// The builder's method, or what of it.
        option: &'static str,
    },
    /// The option is larger than it may be.
    TooLarge {
        /// The builder's method.
        option: &'static str,
        /// What was given; a duration in nanoseconds.
        value: u128,
        /// The largest value that would do.
        max: u128,
    },
    /// `levels` wheels of `ticks_per_wheel` would count more ticks than there are.
    TooManyLevels {
        /// What was given.
        levels: usize,
        /// After rounding up to a power of two.
        ticks_per_wheel: usize,
        /// The most levels for this many ticks a wheel.
        max: usize,
    },
    /// More than one level needs at least two ticks a wheel.
    TooFewTicks {
        /// What was given.
        levels: usize,
    },
    /// A core to pin a worker to that this process may not use, or that does not exist.
    UnknownCore {
        /// What was given.
        core: usize,
        /// The cores that this process may use.
        allowed: Vec<usize>,
    },
    /// There is no memory for so many timeouts.
    Capacity {
        /// What was given.
        timeouts: usize,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero { option } => write!(f, "{option} must not be zero"),
            Self::TooLarge { option: option @ "tick_duration", value, max } => {
                write!(f, "{option} is {value} ns; it may be {max} ns at most")
            }
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
        }
    }
}

impl Error for BuildError {}

/// Why [`Timer::shutdown`](crate::Timer::shutdown) did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownError {
    /// It was called from one of the engine's own tasks, for which it would have to wait. Call it from another thread, or
    /// drop the timer.
    FromTask,
    /// The engine has been shut down before.
    AlreadyShutdown,
    /// This process was forked off after the engine was made: the engine is the parent's to shut down.
    Forked,
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FromTask => {
                "shutdown was called from one of the timer's own tasks, which it waits for: call it from another thread"
            }
            Self::AlreadyShutdown => "the timer has been shut down before",
            Self::Forked => "the timer was made before this process was forked: it is for the parent to shut it down",
        })
    }
}

impl Error for ShutdownError {}

/// Checks a count against zero and a bound.
pub(super) fn check_count(option: &'static str, value: usize, max: usize) -> Result<(), BuildError> {
    match value {
        0 => Err(BuildError::Zero { option }),
        _ if value > max => Err(BuildError::TooLarge { option, value: value as u128, max: max as u128 }),
        _ => Ok(()),
    }
}

/// Checks a duration against zero and what 64 bits of nanoseconds hold.
pub(super) fn check_duration(option: &'static str, value: Duration) -> Result<(), BuildError> {
    let (ns, max) = (value.as_nanos(), u128::from(u64::MAX));
    match ns {
        0 => Err(BuildError::Zero { option }),
        _ if ns > max => Err(BuildError::TooLarge { option, value: ns, max }),
        _ => Ok(()),
    }
}
