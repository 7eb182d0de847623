//! A copy of an entry's task, for a thread that claims the timeout after it has made the copy.

use super::task::{Captures, Task, TaskInPlace, TaskVTable};

/// A copy of an entry's task, made before it is known whose the task is.
pub(crate) struct TaskCopy {
    /// Set if there is a task.
    table: Option<&'static TaskVTable>,
    captures: Captures,
}

impl TaskCopy {
    #[inline]
    pub(super) fn new(table: Option<&'static TaskVTable>, captures: Captures) -> Self {
        Self { table, captures }
    }

    /// Returns the task.
    ///
    /// # Safety
    /// The caller has taken the entry out of PENDING after it made the copy. The task was not taken
    /// otherwise.
    #[inline]
    pub(crate) unsafe fn into_task(self) -> Task {
        // SAFETY: the entry was pending after the copy, so both parts are of the task that was in
        // the entry, and the caller takes it once.
        unsafe { Task::from_parts(self.table.unwrap_unchecked(), self.captures) }
    }

    /// Returns the task where it is, because a task that is moved on its way to be run costs a copy
    /// each time.
    ///
    /// # Safety
    /// The caller has taken the entry out of PENDING after it made the copy. The task was not taken
    /// otherwise, and the copy is not used again.
    #[inline]
    pub(crate) unsafe fn as_task(&mut self) -> TaskInPlace<'_> {
        // SAFETY: the entry was pending after the copy, so both parts are of the task that was in
        // the entry, and the caller uses it once.
        unsafe { TaskInPlace::new(self.table.unwrap_unchecked(), &mut self.captures) }
    }
}
