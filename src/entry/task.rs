//! What a timeout runs: a closure, a periodic closure, or the waker of a sleeping future. A closure
//! is inline up to [`INLINE_BYTES`] bytes of captures, and boxed beyond. A periodic closure is
//! always boxed. A waker is always inline.

use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit, align_of, size_of};
use std::task::Waker;

use super::series::{NextDue, Series};
use crate::time::{Subtick, Timeline};

const INLINE_WORDS: usize = 4;
/// Captures up to this size need no heap allocation.
pub(crate) const INLINE_BYTES: usize = INLINE_WORDS * size_of::<usize>();

const _: () = assert!(is_inline::<Waker>());

/// What a task has captured, as plain words.
pub(crate) type Captures = [MaybeUninit<usize>; INLINE_WORDS];

/// None yet.
#[cfg(any(loom, test))]
pub(super) const NO_CAPTURES: Captures = [MaybeUninit::uninit(); INLINE_WORDS];

/// A type-erased `FnOnce() + Send`, or [`Series`], or [`Waker`].
/// Dropping it drops the closure without running it.
pub(crate) struct Task {
    vtable: &'static TaskVTable,
    captures: Captures,
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
pub(crate) struct TaskVTable {
    /// Runs for the last time, and uses the captures up.
    run: unsafe fn(*mut u8),
    /// `None` if there is nothing to drop.
    discard: Option<unsafe fn(*mut u8)>,
    /// Runs a periodic closure, and leaves the captures for the next time. `None` for a task that
    /// runs once.
    run_again: Option<RunAgain>,
    /// Only true for [`WAKER`], which is known by its address. It makes the bytes of that table
    /// unique, so that no other table can be merged with it.
    _wakes: bool,
}

type RunAgain = unsafe fn(*mut u8, Subtick, &Timeline) -> Option<NextDue>;

// SAFETY: a task is built only from closures that are `Send` (see `put_closure`), and holds nothing
// else.
unsafe impl Send for Task {}

const fn is_inline<F>() -> bool {
    size_of::<F>() <= INLINE_BYTES && align_of::<F>() <= align_of::<usize>()
}

/// # Safety
/// `captures` points at a valid `F`, which is moved out.
unsafe fn run_once<F: FnOnce()>(captures: *mut u8) {
    // SAFETY: this function is only in `VTables::ONCE`, which `put_closure` puts beside an `F`.
    // `run` calls it in a `ManuallyDrop`, so nothing else uses or drops the `F`.
    let task = unsafe { captures.cast::<F>().read() };
    task();
}

/// # Safety
/// `captures` points at a valid `T`, which is dropped.
unsafe fn discard<T>(captures: *mut u8) {
    // SAFETY: only the table that one of the `put_*` functions puts beside a `T` names this
    // function. It is called by the drop, which `run` and `read` leave out.
    unsafe { captures.cast::<T>().drop_in_place() };
}

/// # Safety
/// `captures` points at the box of a series, which is moved out.
unsafe fn run_series_once<F>(captures: *mut u8) {
    // SAFETY: this is only in `VTables::BOXED`, which `put_series` puts beside such a box. `run`
    // calls it in a `ManuallyDrop`, so nothing else uses or drops the box.
    let mut series = unsafe { captures.cast::<Box<Series<F>>>().read() };
    let _ = (series.run_task)(&mut series.task);
}

/// # Safety
/// `captures` points at the box of a series, which nobody else uses during the call.
unsafe fn run_series<F>(captures: *mut u8, deadline: Subtick, timeline: &Timeline) -> Option<NextDue> {
    // SAFETY: this is only in `VTables::BOXED`, which `put_series` puts beside such a box.
    // `run_again` has the task by `&mut`, so nobody else uses the box.
    unsafe { &mut *captures.cast::<Box<Series<F>>>() }.run(deadline, timeline)
}

/// # Safety
/// `captures` points at a valid waker, which is moved out.
unsafe fn wake(captures: *mut u8) {
    // SAFETY: only `WAKER` names this, which `put_waker` puts beside a waker. `run` calls it in a
    // `ManuallyDrop`, so nothing else uses or drops the waker.
    unsafe { captures.cast::<Waker>().read() }.wake();
}

/// Known by its address.
pub(super) static WAKER: TaskVTable =
    TaskVTable { run: wake, discard: Some(discard::<Waker>), run_again: None, _wakes: true };

struct VTables<T>(T);

impl<F> VTables<Series<F>> {
    const BOXED: TaskVTable = TaskVTable {
        run: run_series_once::<F>,
        discard: Some(discard::<Box<Series<F>>>),
        run_again: Some(run_series::<F>),
        _wakes: false,
    };
}

impl<F: FnOnce()> VTables<F> {
    const ONCE: TaskVTable = TaskVTable {
        run: run_once::<F>,
        discard: if std::mem::needs_drop::<F>() { Some(discard::<F>) } else { None },
        run_again: None,
        _wakes: false,
    };
}

/// Makes a task of a closure of its captures here, and returns its table. Allocates only if they
/// don't fit inline.
#[inline(always)]
pub(super) fn put_closure<F: FnOnce() + Send + 'static>(task: F, captures: &mut Captures) -> &'static TaskVTable {
    if is_inline::<F>() {
        put(task, captures);
        &VTables::<F>::ONCE
    } else {
        put(Box::new(task), captures);
        &VTables::<Box<F>>::ONCE
    }
}

/// The same of a periodic closure. Allocates once, for all its runs.
pub(super) fn put_series<F: Send + 'static>(series: Series<F>, captures: &mut Captures) -> &'static TaskVTable {
    put(Box::new(series), captures);
    &VTables::<Series<F>>::BOXED
}

/// The same of a sleeping future's waker. Allocates nothing.
#[inline(always)]
pub(super) fn put_waker(waker: Waker, captures: &mut Captures) -> &'static TaskVTable {
    put(waker, captures);
    &WAKER
}

#[inline(always)]
fn put<T>(value: T, captures: &mut Captures) {
    // The compiler knows the answer.
    assert!(size_of::<T>() <= size_of::<Captures>() && align_of::<T>() <= align_of::<Captures>());
    // SAFETY: it fits in size and alignment.
    unsafe { captures.as_mut_ptr().cast::<T>().write(value) };
}

impl Task {
    /// Returns its parts. [`from_parts`](Self::from_parts) makes a task of them again.
    #[inline]
    pub(super) fn into_parts(self) -> (&'static TaskVTable, Captures) {
        let this = ManuallyDrop::new(self);
        (this.vtable, this.captures)
    }

    /// # Safety
    /// The parts are those of one task. Of all tasks that are made of them one is used, or dropped.
    #[inline]
    pub(super) unsafe fn from_parts(vtable: &'static TaskVTable, captures: Captures) -> Self {
        Self { vtable, captures }
    }

    /// Runs a periodic closure that expired at `deadline`. Returns when the next run is due, or
    /// `None` if that was the last. For a task that is not periodic, returns `None` and runs
    /// nothing.
    pub(crate) fn run_again(&mut self, deadline: Subtick, timeline: &Timeline) -> Option<NextDue> {
        let run = self.vtable.run_again?;
        // SAFETY: `put_series` chose `vtable` together with the captures, which are still there.
        unsafe { run(self.captures.as_mut_ptr().cast(), deadline, timeline) }
    }

    /// Runs it; a periodic closure for the last time.
    pub(crate) fn run(self) {
        let mut this = ManuallyDrop::new(self);
        TaskInPlace { vtable: this.vtable, captures: &mut this.captures }.run();
    }

    /// Returns the closure.
    ///
    /// # Safety
    /// `put_closure::<F>` made the task with this very `F`.
    pub(crate) unsafe fn into_inner<F>(self) -> F {
        // SAFETY: `F` is what `put_closure` was given. `is_inline` depends on `F` only, so it says
        // where that has put it.
        unsafe { if is_inline::<F>() { self.read() } else { *self.read::<Box<F>>() } }
    }

    /// Returns the periodic closure.
    ///
    /// # Safety
    /// `put_series::<F>` made the task with this very `F`.
    pub(crate) unsafe fn into_series<F>(self) -> Series<F> {
        // SAFETY: `put_series` has boxed it.
        unsafe { *self.read::<Box<Series<F>>>() }
    }

    /// Returns the waker.
    ///
    /// # Safety
    /// `put_waker` made the task.
    pub(crate) unsafe fn into_waker(self) -> Waker {
        // SAFETY: the captures are a waker.
        unsafe { self.read() }
    }

    /// # Safety
    /// The captures are a `T`.
    unsafe fn read<T>(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: the functions above name the type that was put, and `this` is not
        // dropped. So the `T` is moved out once.
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

/// Tasks outside of an entry, for tests and models.
#[cfg(any(loom, test))]
impl Task {
    /// Makes a task by one of the `put_*` functions.
    #[inline(always)]
    fn by(put: impl FnOnce(&mut Captures) -> &'static TaskVTable) -> Self {
        let mut captures = NO_CAPTURES;
        let vtable = put(&mut captures);
        Self { vtable, captures }
    }

    /// Makes a task of a closure. Allocates only if the captures don't fit inline.
    #[inline]
    pub(crate) fn new<F: FnOnce() + Send + 'static>(task: F) -> Self {
        Self::by(|captures| put_closure(task, captures))
    }

    /// Makes a task of a sleeping future's waker.
    #[cfg(loom)]
    pub(crate) fn waker(waker: Waker) -> Self {
        Self::by(|captures| put_waker(waker, captures))
    }
}

impl fmt::Debug for TaskVTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskVTable")
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn runs_and_drops<F: FnOnce() + Send + 'static>(make: impl Fn(Arc<()>) -> F) {
        let witness = Arc::new(());
        Task::new(make(Arc::clone(&witness))).run();
        assert_eq!(Arc::strong_count(&witness), 1, "run uses the captures up");
        drop(Task::new(make(Arc::clone(&witness))));
        assert_eq!(Arc::strong_count(&witness), 1, "a drop drops the captures");
        // SAFETY: the type is the one that went in.
        let back = unsafe { Task::new(make(Arc::clone(&witness))).into_inner::<F>() };
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
        let task = Task::new(move || {
            let _keep = &inner;
            panic!("on purpose");
        });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.run())).is_err());
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
