//! What can be scheduled.

use std::task::Waker;

use super::series::Series;
use super::state::ArmFlags;
use super::task::{self, Captures, Task, TaskVTable};

/// Work that can be scheduled: a closure that runs once, a periodic one, or the waker of a sleeping
/// future. It goes into an entry as a task, and comes back if it is refused.
///
/// # Safety
/// `put` writes a task of this work, and `FLAGS` says of what kind that is. `FROM_TASK` may be
/// called with that task, as long as its entry was never published.
pub(crate) unsafe trait Work: Sized {
    const FLAGS: ArmFlags;

    /// Turns a task that `put` has made back into the work.
    const FROM_TASK: unsafe fn(Task) -> Self;

    /// Makes a task of the work, and writes its captures here. Returns its table. It goes straight
    /// into the entry, because each copy of captures on its way costs a schedule some instructions.
    fn put(self, captures: &mut Captures) -> &'static TaskVTable;
}

impl ArmFlags {
    /// Returns the flags of such work with these owners.
    #[inline(always)]
    pub(super) fn of<W: Work>(self) -> Self {
        self.and(W::FLAGS)
    }
}

// SAFETY: `put_closure` makes a task that runs once and holds an `F`.
unsafe impl<F: FnOnce() + Send + 'static> Work for F {
    const FLAGS: ArmFlags = ArmFlags::NONE;
    const FROM_TASK: unsafe fn(Task) -> Self = Task::into_inner;

    #[inline]
    fn put(self, captures: &mut Captures) -> &'static TaskVTable {
        task::put_closure(self, captures)
    }
}

// SAFETY: `put_series` makes a periodic task that holds the `Series`.
unsafe impl<F: Send + 'static> Work for Series<F> {
    const FLAGS: ArmFlags = ArmFlags::SERIES;
    const FROM_TASK: unsafe fn(Task) -> Self = Task::into_series;

    fn put(self, captures: &mut Captures) -> &'static TaskVTable {
        task::put_series(self, captures)
    }
}

// SAFETY: `put_waker` makes a task that holds a waker.
unsafe impl Work for Waker {
    const FLAGS: ArmFlags = ArmFlags::WAKER;
    const FROM_TASK: unsafe fn(Task) -> Self = Task::into_waker;

    #[inline]
    fn put(self, captures: &mut Captures) -> &'static TaskVTable {
        task::put_waker(self, captures)
    }
}
