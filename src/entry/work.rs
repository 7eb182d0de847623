//! What can be scheduled. A closure is inline up to [`INLINE_BYTES`](super::task::INLINE_BYTES)
//! bytes of captures, and boxed beyond. A periodic closure is always boxed. A waker is always
//! inline.

use std::mem::needs_drop;
use std::task::Waker;

use super::series::{NextDue, Series};
use super::state::ArmFlags;
use super::task::{Captures, Task, TaskVTable, is_inline, put};
use crate::time::{Subtick, Timeline};

/// Work that can be scheduled: a closure that runs once, a periodic one, or the waker of a sleeping
/// future. It goes into an entry as a task, and comes back if it is refused.
///
/// # Safety
/// It is `Send`. `TABLE` is of the captures that `put` makes, and `FLAGS` says of what kind that
/// is.
pub(crate) unsafe trait Work: Sized {
    const FLAGS: ArmFlags;

    /// What can be done with its captures.
    const TABLE: TaskVTable;

    /// Makes captures of the work, here. They go straight into the entry, because each copy of
    /// captures on its way costs a schedule some instructions.
    fn put(self, captures: &mut Captures);

    /// Makes the work of its task again.
    ///
    /// # Safety
    /// `put` has made the captures of this task.
    unsafe fn of_task(task: Task) -> Self;
}

// SAFETY: `put` makes captures of an `F`, or of its box. Each has a table of its own.
unsafe impl<F: FnOnce() + Send + 'static> Work for F {
    const FLAGS: ArmFlags = ArmFlags::NONE;
    const TABLE: TaskVTable = if is_inline::<F>() { once::<F>() } else { once::<Box<F>>() };

    #[inline(always)]
    fn put(self, captures: &mut Captures) {
        if is_inline::<F>() { put(self, captures) } else { put(Box::new(self), captures) }
    }

    unsafe fn of_task(task: Task) -> Self {
        // SAFETY: `is_inline` depends on `F` only, so it says where `put` has put it.
        unsafe { if is_inline::<F>() { task.read() } else { *task.read::<Box<F>>() } }
    }
}

// SAFETY: `put` makes captures of the box, and its table is that of a periodic task.
unsafe impl<F: Send + 'static> Work for Series<F> {
    const FLAGS: ArmFlags = ArmFlags::SERIES;
    const TABLE: TaskVTable =
        TaskVTable { run: run_series_once::<F>, discard: Some(discard::<Box<Self>>), run_again: Some(run_series::<F>) };

    /// Allocates once, for all runs.
    fn put(self, captures: &mut Captures) {
        put(Box::new(self), captures);
    }

    unsafe fn of_task(task: Task) -> Self {
        // SAFETY: `put` has boxed it.
        unsafe { *task.read::<Box<Self>>() }
    }
}

// SAFETY: `put` makes captures of the waker.
unsafe impl Work for Waker {
    const FLAGS: ArmFlags = ArmFlags::WAKER;
    const TABLE: TaskVTable = TaskVTable { run: wake, discard: Some(discard::<Self>), run_again: None };

    #[inline(always)]
    fn put(self, captures: &mut Captures) {
        put(self, captures);
    }

    unsafe fn of_task(task: Task) -> Self {
        // SAFETY: the captures are a waker.
        unsafe { task.read() }
    }
}

const fn once<F: FnOnce()>() -> TaskVTable {
    let discard = if needs_drop::<F>() { Some(discard::<F> as unsafe fn(*mut u8)) } else { None };
    TaskVTable { run: run_once::<F>, discard, run_again: None }
}

/// # Safety
/// `captures` points at a valid `F`, which is moved out.
unsafe fn run_once<F: FnOnce()>(captures: *mut u8) {
    // SAFETY: this function is only in the table of a closure, with captures that are an `F`.
    // `run` calls it in a `ManuallyDrop`, so nothing else uses or drops the `F`.
    let task = unsafe { captures.cast::<F>().read() };
    task();
}

/// # Safety
/// `captures` points at a valid `T`, which is dropped.
unsafe fn discard<T>(captures: *mut u8) {
    // SAFETY: only the table of captures that are a `T` names this function. It is called by the
    // drop, which `run` and `read` leave out.
    unsafe { captures.cast::<T>().drop_in_place() };
}

/// # Safety
/// `captures` points at the box of a series, which is moved out.
unsafe fn run_series_once<F>(captures: *mut u8) {
    // SAFETY: this is only in the table of a series, with captures that are its box. `run` calls it
    // in a `ManuallyDrop`, so nothing else uses or drops the box.
    let mut series = unsafe { captures.cast::<Box<Series<F>>>().read() };
    let _ = (series.run_task)(&mut series.task);
}

/// # Safety
/// `captures` points at the box of a series, which nobody else uses during the call.
unsafe fn run_series<F>(captures: *mut u8, deadline: Subtick, timeline: &Timeline) -> Option<NextDue> {
    // SAFETY: this is only in the table of a series, with captures that are its box. `run_again`
    // has the task by `&mut`, so nobody else uses the box.
    unsafe { &mut *captures.cast::<Box<Series<F>>>() }.run(deadline, timeline)
}

/// # Safety
/// `captures` points at a valid waker, which is moved out.
unsafe fn wake(captures: *mut u8) {
    // SAFETY: only the table of a waker names this. `run` calls it in a `ManuallyDrop`, so nothing
    // else uses or drops the waker.
    unsafe { captures.cast::<Waker>().read() }.wake();
}
