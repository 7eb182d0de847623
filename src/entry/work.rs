//! What can be scheduled.

use std::task::Waker;

use super::series::{Repeat, Series};
use super::state::ArmFlags;
use super::task::Task;

/// Work that can be scheduled: a closure that runs once, a periodic one, or the waker of a sleeping
/// future. It goes into an entry as a task, and comes back if it is refused.
///
/// # Safety
/// `FLAGS` says of what kind the task of `into_task` is, and `FROM_TASK` may be called with that
/// task, as long as its entry was never published.
pub(crate) unsafe trait Work: Sized {
    const FLAGS: ArmFlags;

    /// Turns a task of `into_task` back into the work.
    const FROM_TASK: unsafe fn(Task) -> Self;

    fn into_task(self) -> Task;
}

impl ArmFlags {
    /// Returns the flags of such work with these owners.
    #[inline(always)]
    pub(super) fn of<W: Work>(self) -> Self {
        self.and(W::FLAGS)
    }
}

// SAFETY: `Task::new` makes a task that runs once and holds an `F`.
unsafe impl<F: FnOnce() + Send + 'static> Work for F {
    const FLAGS: ArmFlags = ArmFlags::NONE;
    const FROM_TASK: unsafe fn(Task) -> Self = Task::into_inner;

    #[inline]
    fn into_task(self) -> Task {
        Task::new(self)
    }
}

// SAFETY: `Task::series` makes a periodic task that holds the `Series`.
unsafe impl<R: Repeat> Work for Series<R> {
    const FLAGS: ArmFlags = ArmFlags::SERIES;
    const FROM_TASK: unsafe fn(Task) -> Self = Task::into_inner;

    fn into_task(self) -> Task {
        Task::series(self)
    }
}

// SAFETY: `Task::waker` makes a task that holds a waker.
unsafe impl Work for Waker {
    const FLAGS: ArmFlags = ArmFlags::WAKER;
    const FROM_TASK: unsafe fn(Task) -> Self = Task::into_waker;

    #[inline]
    fn into_task(self) -> Task {
        Task::waker(self)
    }
}
