//! A copy of an entry's task, for a thread that claims the timeout after it has made the copy.

use std::mem::ManuallyDrop;

use super::task::{Captures, Task, TaskVTable};

/// A copy of an entry's task, made before it is known whose the task is.
pub(crate) struct TaskCopy {
    table: *const (),
    captures: Captures,
}

impl TaskCopy {
    /// `table` is a table, or what a canceller has written over it.
    #[inline]
    pub(super) fn new(table: *const (), captures: Captures) -> Self {
        Self { table, captures }
    }

    /// Returns the task.
    ///
    /// # Safety
    /// The caller has taken the entry out of PENDING after it made the copy. The task was not taken
    /// otherwise.
    #[inline]
    pub(crate) unsafe fn into_task(self) -> Task {
        // SAFETY: the caller says that the copy is the task.
        let table = unsafe { self.table() };
        // SAFETY: both parts are of the task that was in the entry, and the caller takes it once.
        unsafe { Task::from_parts(table, self.captures) }
    }

    /// Returns the task where it is, because a task that is moved on its way to be run costs a copy
    /// each time.
    ///
    /// # Safety
    /// As for [`into_task`](Self::into_task). The copy is not used again.
    #[inline]
    pub(crate) unsafe fn as_task(&mut self) -> TaskInPlace<'_> {
        TaskInPlace(self)
    }

    /// # Safety
    /// The caller took the entry out of PENDING after it made the copy.
    unsafe fn table(&self) -> &'static TaskVTable {
        // SAFETY: the entry was pending after the copy, so no canceller had written a link yet, and
        // `put_task` had stored the table.
        unsafe { &*self.table.cast() }
    }
}

/// A task in the place of its copy. Dropping it drops the closure without running it.
pub(crate) struct TaskInPlace<'a>(&'a mut TaskCopy);

impl TaskInPlace<'_> {
    fn table(&self) -> &'static TaskVTable {
        // SAFETY: the caller of `as_task` has promised that the copy is the task.
        unsafe { self.0.table() }
    }

    /// Runs it.
    #[inline]
    pub(crate) fn run(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: both parts are of one task, and they are used up here once.
        unsafe { this.table().run(&mut this.0.captures) };
    }
}

impl Drop for TaskInPlace<'_> {
    fn drop(&mut self) {
        // SAFETY: both parts are of one task, which `run` would have used up without this drop.
        unsafe { self.table().discard(&mut self.0.captures) };
    }
}
