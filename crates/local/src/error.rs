//! A timeout that was not scheduled.

use std::error::Error;
use std::fmt;

use tourbillon::Refusal;

/// A timeout that was not scheduled, with its task. [`kind`](Self::kind) says why, and each
/// [`Refusal`] what to do about it.
pub struct ScheduleError<F> {
    kind: Refusal,
    task: F,
}

impl<F> ScheduleError<F> {
    /// Returns why it was not scheduled.
    #[must_use]
    pub fn kind(&self) -> Refusal {
        self.kind
    }

    /// Returns whether the driver is gone. If so, trying again is of no use.
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.kind == Refusal::Shutdown
    }

    /// Returns whether too many timeouts were pending. A local engine has no limit.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kind == Refusal::Full
    }

    /// Returns the task that was not scheduled.
    pub fn into_inner(self) -> F {
        self.task
    }

    /// Drops the task, and returns the error without it. A function that schedules a closure of its
    /// own returns such an error, because the closure's type has no name.
    pub fn without_task(self) -> ScheduleError<()> {
        ScheduleError { kind: self.kind, task: () }
    }
}

impl<F> From<(Refusal, F)> for ScheduleError<F> {
    fn from((kind, task): (Refusal, F)) -> Self {
        Self { kind, task }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_says_what_it_is_and_no_other() {
        for kind in [Refusal::Shutdown, Refusal::Full, Refusal::OutOfMemory] {
            let error = ScheduleError::from((kind, 5));
            assert_eq!((error.kind(), error.is_shutdown()), (kind, kind == Refusal::Shutdown));
            assert_eq!((error.is_full(), error.into_inner()), (kind == Refusal::Full, 5));
        }
    }
}
