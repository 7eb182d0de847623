//! What can go wrong, and what to do about it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A timeout that was not scheduled. The task comes back in it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError<F> {
    /// `max_pending_timeouts` are pending. Passing: shed load, or try again when some have fired or been cancelled.
    Full(F),
    /// The engine has been shut down. For good: schedule on another, or give up.
    Shutdown(F),
}

impl<F> ScheduleError<F> {
    /// The task (or tasks) that were not scheduled.
    pub fn into_inner(self) -> F {
        match self {
            Self::Full(task) | Self::Shutdown(task) => task,
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
        })
    }
}

impl<F> fmt::Display for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => {
                "the timer has max_pending_timeouts pending: try again when some have fired or been cancelled"
            }
            Self::Shutdown(_) => "the timer has been shut down: it takes no more timeouts",
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
        /// The builder's method.
        option: &'static str,
    },
    /// The option is larger than it may be.
    TooLarge {
        /// The builder's method.
        option: &'static str,
        /// What was given.
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
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FromTask => {
                "shutdown was called from one of the timer's own tasks, which it waits for: call it from another thread"
            }
            Self::AlreadyShutdown => "the timer has been shut down before",
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
