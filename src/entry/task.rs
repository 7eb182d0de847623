//! The task of a timeout: up to [`INLINE_BYTES`] bytes of captures, and the operations on them.
//!
//! A [`Work`] is what can be scheduled. A closure is inline up to that size, and boxed beyond. A
//! periodic closure is always boxed. A waker is always inline.

use std::mem::{ManuallyDrop, MaybeUninit, align_of, needs_drop, size_of};
use std::task::Waker;

use super::series::{NextDue, Series};
use super::state::ArmFlags;
use crate::time::{Subtick, Timeline};

const INLINE_WORDS: usize = 4;
/// Captures up to this size need no heap allocation.
pub(crate) const INLINE_BYTES: usize = INLINE_WORDS * size_of::<usize>();

/// The captures of a task, as plain words.
pub(crate) type Captures = [MaybeUninit<usize>; INLINE_WORDS];

/// None yet.
#[cfg(any(loom, test))]
pub(super) const NO_CAPTURES: Captures = [MaybeUninit::uninit(); INLINE_WORDS];

/// A type-erased [`Work`]. Dropping it drops the closure without running it.
///
/// Both parts are of one task. Only [`Entry::copy_task`](super::Entry::copy_task) makes one of
/// parts, and its caller uses one of the two copies.
#[derive(Debug)]
pub(crate) struct Task {
    pub(super) vtable: &'static TaskVTable,
    pub(super) captures: Captures,
}

/// Where a thread keeps a copy of an entry's task, which it makes before it claims the timeout. If
/// it then takes the entry out of PENDING, the copy is the task, and otherwise it is worth nothing.
pub(crate) type TaskPlace = MaybeUninit<Task>;

/// A task where it is, because a task that is moved on its way to be run costs a copy each time.
/// Nobody uses the place again. Dropping it drops the closure without running it.
pub(crate) struct TaskInPlace<'a> {
    vtable: &'static TaskVTable,
    captures: &'a mut Captures,
}

/// The operations on captures, one table per type that is in them: a closure, or the box of one.
#[derive(Debug)]
pub(crate) struct TaskVTable {
    /// Runs for the last time, and uses the captures up.
    run: unsafe fn(*mut u8),
    /// `None` if there is nothing to drop.
    discard: Option<unsafe fn(*mut u8)>,
    /// Runs a periodic closure, and leaves the captures for the next time. `None` for a task that
    /// runs once.
    run_again: Option<RunAgain>,
}

type RunAgain = unsafe fn(*mut u8, Subtick, &Timeline) -> Option<NextDue>;

// SAFETY: a task is made of work, which is `Send`, and holds nothing else.
unsafe impl Send for Task {}

const fn is_inline<F>() -> bool {
    size_of::<F>() <= INLINE_BYTES && align_of::<F>() <= align_of::<usize>()
}

/// Makes captures of a value that fits.
#[inline(always)]
fn put<T>(value: T, captures: &mut Captures) {
    // The compiler knows the answer.
    assert!(size_of::<T>() <= size_of::<Captures>() && align_of::<T>() <= align_of::<Captures>());
    // SAFETY: it fits in size and alignment.
    unsafe { captures.as_mut_ptr().cast::<T>().write(value) };
}

impl Task {
    /// Runs a periodic closure that expired at `deadline`. Returns when the next run is due, or
    /// `None` if that was the last. For a task that is not periodic, returns `None` and runs
    /// nothing.
    pub(crate) fn run_again(&mut self, deadline: Subtick, timeline: &Timeline) -> Option<NextDue> {
        let run = self.vtable.run_again?;
        // SAFETY: this is the table of the task with these captures, which are still there.
        unsafe { run(self.captures.as_mut_ptr().cast(), deadline, timeline) }
    }

    /// Runs it; a periodic closure for the last time.
    pub(crate) fn run(self) {
        let mut this = ManuallyDrop::new(self);
        TaskInPlace { vtable: this.vtable, captures: &mut this.captures }.run();
    }

    /// Returns the value that [`put`] has made captures of.
    ///
    /// # Safety
    /// The captures are a `T`.
    #[inline]
    unsafe fn read<T>(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: the captures are a `T`, and `this` is not dropped. So the `T` is moved out once.
        unsafe { this.captures.as_ptr().cast::<T>().read() }
    }
}

impl Drop for Task {
    #[inline]
    fn drop(&mut self) {
        drop(TaskInPlace { vtable: self.vtable, captures: &mut self.captures });
    }
}

impl<'a> TaskInPlace<'a> {
    /// # Safety
    /// A task is in the place: the copy of one whose entry the caller has taken out of PENDING. The
    /// task was not taken otherwise, and the place is not used again.
    #[inline]
    pub(super) unsafe fn new(place: &'a mut TaskPlace) -> Self {
        // SAFETY: a task is in the place.
        let Task { vtable, captures } = unsafe { place.assume_init_mut() };
        Self { vtable, captures }
    }

    /// Runs it; a periodic closure for the last time.
    #[inline]
    pub(crate) fn run(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: this is the table of the task with these captures. They are used up here once,
        // even if this panics.
        unsafe { (this.vtable.run)(this.captures.as_mut_ptr().cast()) };
    }
}

impl Drop for TaskInPlace<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(discard) = self.vtable.discard {
            // SAFETY: this is the table of the task with these captures, which `run` would have
            // used up without this drop.
            unsafe { discard(self.captures.as_mut_ptr().cast()) };
        }
    }
}

/// Work that can be scheduled: a closure that runs once, a periodic one, or the waker of a sleeping
/// future. It goes into an entry as a task, and comes back if it is refused.
///
/// # Safety
/// It is `Send`. `TABLE` is of the captures that `put` makes, and `FLAGS` says of what kind that
/// is.
pub(crate) unsafe trait Work: Sized {
    const FLAGS: ArmFlags;

    /// The operations on its captures.
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
    const TABLE: TaskVTable = if is_inline::<F>() { table::<F>(None) } else { table::<Box<F>>(None) };

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
    const TABLE: TaskVTable = table::<Box<Self>>(Some(run_again::<F>));

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
    const TABLE: TaskVTable = table::<Self>(None);

    #[inline(always)]
    fn put(self, captures: &mut Captures) {
        put(self, captures);
    }

    unsafe fn of_task(task: Task) -> Self {
        // SAFETY: the captures are a waker.
        unsafe { task.read() }
    }
}

/// The type that captures hold. The last run takes it by value.
trait Captured {
    fn run_last(self);
}

impl<F: FnOnce()> Captured for F {
    fn run_last(self) {
        self();
    }
}

impl<F> Captured for Box<Series<F>> {
    fn run_last(mut self) {
        let _ = (self.run_task)(&mut self.task);
    }
}

impl Captured for Waker {
    fn run_last(self) {
        self.wake();
    }
}

/// Returns the table of captures that are a `T`.
const fn table<T: Captured>(run_again: Option<RunAgain>) -> TaskVTable {
    let discard = if needs_drop::<T>() { Some(discard::<T> as unsafe fn(*mut u8)) } else { None };
    TaskVTable { run: run::<T>, discard, run_again }
}

/// # Safety
/// `captures` points at a valid `T`, which is moved out.
unsafe fn run<T: Captured>(captures: *mut u8) {
    // SAFETY: only the table of captures that are a `T` names this function. `TaskInPlace::run`
    // calls it in a `ManuallyDrop`, so nothing else uses or drops the `T`.
    unsafe { captures.cast::<T>().read() }.run_last();
}

/// # Safety
/// `captures` points at a valid `T`, which is dropped.
unsafe fn discard<T>(captures: *mut u8) {
    // SAFETY: only the table of captures that are a `T` names this function. It is called by the
    // drop, which `run` and `read` leave out.
    unsafe { captures.cast::<T>().drop_in_place() };
}

/// # Safety
/// `captures` points at the box of a series, which nobody else uses during the call.
unsafe fn run_again<F>(captures: *mut u8, deadline: Subtick, timeline: &Timeline) -> Option<NextDue> {
    // SAFETY: this is only in the table of a series, with captures that are its box.
    // `Task::run_again` has the task by `&mut`, so nobody else uses the box.
    unsafe { &mut *captures.cast::<Box<Series<F>>>() }.run(deadline, timeline)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn task_of<W: Work>(work: W) -> Task {
        let mut captures = NO_CAPTURES;
        work.put(&mut captures);
        Task { vtable: &W::TABLE, captures }
    }

    fn runs_and_drops<F: FnOnce() + Send + 'static>(make: impl Fn(Arc<()>) -> F) {
        let witness = Arc::new(());
        task_of(make(Arc::clone(&witness))).run();
        assert_eq!(Arc::strong_count(&witness), 1, "run uses the captures up");
        drop(task_of(make(Arc::clone(&witness))));
        assert_eq!(Arc::strong_count(&witness), 1, "a drop drops the captures");
        // SAFETY: the type is the one that went in.
        let back: F = unsafe { Work::of_task(task_of(make(Arc::clone(&witness)))) };
        assert_eq!(Arc::strong_count(&witness), 2, "the closure comes back whole");
        back();
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn a_task_runs_or_drops_its_captures_exactly_once_inline_and_boxed() {
        runs_and_drops(|w| move || drop(w));
        let large = [7_u64; 8];
        runs_and_drops(move |w| {
            move || {
                assert_eq!(large.iter().sum::<u64>(), 56);
                drop(w);
            }
        });
    }

    #[test]
    fn captures_of_32_bytes_are_inline_and_33_are_not() {
        assert!(is_inline::<[u64; 4]>());
        assert!(!is_inline::<[u8; 33]>());
        assert!(!is_inline::<u128>(), "an over-aligned capture can't be inline");
    }

    #[test]
    fn a_panicking_task_drops_its_captures_once() {
        let witness = Arc::new(());
        let inner = Arc::clone(&witness);
        let task = task_of(move || {
            let _keep = &inner;
            panic!("on purpose");
        });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.run())).is_err());
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
