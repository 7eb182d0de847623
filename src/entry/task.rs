//! What a timeout runs: a closure, a periodic closure, or the waker of a sleeping future. A closure
//! is inline up to [`INLINE_BYTES`] bytes of captures, and boxed beyond. A periodic closure is
//! always boxed. A waker is always inline.

use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit, align_of, size_of};
use std::task::Waker;

use super::series::{NextDue, Repeat, Series};
use super::sleeper::Sleeper;
use crate::time::{Subtick, Timeline};

const INLINE_WORDS: usize = 3;
/// Captures up to this size need no heap allocation.
pub(crate) const INLINE_BYTES: usize = INLINE_WORDS * size_of::<usize>();
/// Room for the captures and for a [`Sleeper`], which is larger in a model.
const WORDS: usize = if cfg!(loom) { 32 } else { INLINE_WORDS };

const _: () =
    assert!(size_of::<Sleeper>() <= WORDS * size_of::<usize>() && align_of::<Sleeper>() <= align_of::<usize>());

/// What a task has captured, as plain words.
pub(super) type Captures = [MaybeUninit<usize>; WORDS];

/// The captures of an entry that has never had a task.
#[cfg(any(loom, test))]
pub(super) const NO_CAPTURES: Captures = [MaybeUninit::uninit(); WORDS];

/// A type-erased `FnOnce() + Send`, or [`Series`], or [`Sleeper`]. Dropping it drops the closure
/// without running it.
pub(crate) struct Task {
    vtable: &'static TaskVTable,
    captures: Captures,
}

/// The operations on captures, one table per closure type and place (inline or boxed).
pub(super) struct TaskVTable {
    /// Runs for the last time, and uses the captures up.
    run: unsafe fn(*mut u8),
    /// `None` if there is nothing to drop.
    discard: Option<unsafe fn(*mut u8)>,
    /// Runs a periodic closure, and leaves the captures for the next time. `None` for a task that
    /// runs once.
    run_again: Option<RunAgain>,
    /// Only true for [`SLEEPER`], which is known by its address. It makes the bytes of that table
    /// unique, so that no other table can be merged with it.
    _sleeps: bool,
}

impl TaskVTable {
    /// Runs a task for the last time.
    ///
    /// # Safety
    /// This is the table of the task with these captures. They are not used again, even if this
    /// panics: they are moved out.
    #[inline]
    pub(super) unsafe fn run(&self, captures: &mut Captures) {
        // SAFETY: the caller says so.
        unsafe { (self.run)(captures.as_mut_ptr().cast()) };
    }

    /// Drops a task without running it.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    #[inline]
    pub(super) unsafe fn discard(&self, captures: &mut Captures) {
        if let Some(discard) = self.discard {
            // SAFETY: the caller says so.
            unsafe { discard(captures.as_mut_ptr().cast()) };
        }
    }
}

type RunAgain = unsafe fn(*mut u8, Subtick, &Timeline) -> Option<NextDue>;

// SAFETY: a task is built only from closures that are `Send` (see `Task::new`), and holds nothing
// else.
unsafe impl Send for Task {}

const fn is_inline<F>() -> bool {
    size_of::<F>() <= INLINE_BYTES && align_of::<F>() <= align_of::<usize>()
}

/// # Safety
/// `captures` points at a valid `F`, which is moved out.
unsafe fn run_inline<F: FnOnce()>(captures: *mut u8) {
    // SAFETY: the caller says that an `F` is there, and gives it up.
    let task = unsafe { captures.cast::<F>().read() };
    task();
}

/// # Safety
/// `captures` points at a valid `F`, which is dropped.
unsafe fn discard_inline<F>(captures: *mut u8) {
    // SAFETY: the caller says that an `F` is there, and gives it up.
    unsafe { captures.cast::<F>().drop_in_place() };
}

/// # Safety
/// `captures` points at a pointer that came from `Box::<F>::into_raw`, and the box is given up.
unsafe fn run_boxed<F: FnOnce()>(captures: *mut u8) {
    // SAFETY: the caller says that a box's pointer is there, and gives up that box.
    let task = unsafe { unbox::<F>(captures) };
    task();
}

/// # Safety
/// As for [`run_boxed`].
unsafe fn discard_boxed<F>(captures: *mut u8) {
    // SAFETY: the caller says that a box's pointer is there, and gives up that box.
    drop(unsafe { unbox::<F>(captures) });
}

/// # Safety
/// As for [`run_boxed`].
unsafe fn unbox<F>(captures: *mut u8) -> Box<F> {
    // SAFETY: the caller says that a pointer is there.
    let raw = unsafe { captures.cast::<*mut F>().read() };
    // SAFETY: the caller says that the pointer is a box's, and gives up that box.
    unsafe { Box::from_raw(raw) }
}

/// # Safety
/// As for [`run_boxed`], with a `Series` in the box.
unsafe fn run_series_once<R: Repeat>(captures: *mut u8) {
    // SAFETY: the caller says that the pointer of a box with a `Series` is there, and gives up that
    // box.
    let mut series = unsafe { unbox::<Series<R>>(captures) };
    let _ = series.repeat.run();
}

/// # Safety
/// As for [`run_boxed`], with a `Series` in the box, but the box is not given up.
unsafe fn run_series<R: Repeat>(captures: *mut u8, deadline: Subtick, timeline: &Timeline) -> Option<NextDue> {
    // SAFETY: the caller says that a pointer is there.
    let series = unsafe { captures.cast::<*mut Series<R>>().read() };
    // SAFETY: the pointer is a box's, and only the caller has it.
    unsafe { &mut *series }.run(deadline, timeline)
}

/// # Safety
/// `captures` points at a valid sleeper that nobody else can reach any more. It is moved out.
unsafe fn wake_sleeper(captures: *mut u8) {
    // SAFETY: the caller says that a sleeper is there, and gives it up.
    unsafe { captures.cast::<Sleeper>().read() }.into_waker().wake();
}

/// # Safety
/// As for [`wake_sleeper`].
unsafe fn discard_sleeper(captures: *mut u8) {
    // SAFETY: the caller says that a sleeper is there, and gives it up.
    drop(unsafe { captures.cast::<Sleeper>().read() }.into_waker());
}

/// Known by its address. The captures are a [`Sleeper`], whose future may look at them at any time.
pub(super) static SLEEPER: TaskVTable =
    TaskVTable { run: wake_sleeper, discard: Some(discard_sleeper), run_again: None, _sleeps: true };

struct VTables<F>(F);

impl<R: Repeat> VTables<Series<R>> {
    const SERIES: TaskVTable = TaskVTable {
        run: run_series_once::<R>,
        discard: Some(discard_boxed::<Series<R>>),
        run_again: Some(run_series::<R>),
        _sleeps: false,
    };
}

impl<F: FnOnce()> VTables<F> {
    const INLINE: TaskVTable = TaskVTable {
        run: run_inline::<F>,
        discard: if std::mem::needs_drop::<F>() { Some(discard_inline::<F>) } else { None },
        run_again: None,
        _sleeps: false,
    };
    const BOXED: TaskVTable =
        TaskVTable { run: run_boxed::<F>, discard: Some(discard_boxed::<F>), run_again: None, _sleeps: false };
}

impl Task {
    /// Makes a task of a closure. Allocates only if the captures don't fit inline.
    #[inline]
    pub(crate) fn new<F: FnOnce() + Send + 'static>(task: F) -> Self {
        let mut captures = [MaybeUninit::uninit(); WORDS];
        let place: *mut u8 = captures.as_mut_ptr().cast();
        if is_inline::<F>() {
            // SAFETY: `is_inline` says that an `F` fits here in size and alignment.
            unsafe { place.cast::<F>().write(task) };
            Self { vtable: &VTables::<F>::INLINE, captures }
        } else {
            Self::boxed(task, &VTables::<F>::BOXED)
        }
    }

    /// Makes a task of a periodic closure. Allocates once, for all its runs.
    pub(crate) fn series<R: Repeat>(series: Series<R>) -> Self {
        // `into_inner` must find it where it is put here.
        const { assert!(!is_inline::<Series<R>>()) };
        Self::boxed(series, &VTables::<Series<R>>::SERIES)
    }

    /// Makes a task of a sleeping future's waker. Allocates nothing.
    pub(crate) fn sleeper(waker: Waker) -> Self {
        let mut captures = [MaybeUninit::uninit(); WORDS];
        let place: *mut u8 = captures.as_mut_ptr().cast();
        // SAFETY: there is room for it (see `WORDS`).
        unsafe { place.cast::<Sleeper>().write(Sleeper::new(waker)) };
        Self { vtable: &SLEEPER, captures }
    }

    /// Returns the waker of a task that [`sleeper`](Self::sleeper) made.
    ///
    /// # Safety
    /// `sleeper` made the task, its waker was not taken, and nobody else can reach it any more.
    pub(crate) unsafe fn into_waker(self) -> Waker {
        let mut this = ManuallyDrop::new(self);
        let place: *mut u8 = this.captures.as_mut_ptr().cast();
        // SAFETY: the caller says that a sleeper is there, and gives it up.
        unsafe { place.cast::<Sleeper>().read() }.into_waker()
    }

    /// Returns its parts. [`from_parts`](Self::from_parts) makes a task of them again.
    #[inline]
    pub(super) fn into_parts(self) -> (&'static TaskVTable, Captures) {
        let this = ManuallyDrop::new(self);
        (this.vtable, this.captures)
    }

    /// # Safety
    /// The parts are those of one task, and no other task is made of them.
    #[inline]
    pub(super) unsafe fn from_parts(vtable: &'static TaskVTable, captures: Captures) -> Self {
        Self { vtable, captures }
    }

    fn boxed<T>(value: T, vtable: &'static TaskVTable) -> Self {
        let mut captures = [MaybeUninit::uninit(); WORDS];
        let place: *mut u8 = captures.as_mut_ptr().cast();
        // SAFETY: three words have room for one pointer.
        unsafe { place.cast::<*mut T>().write(Box::into_raw(Box::new(value))) };
        Self { vtable, captures }
    }

    /// Runs a periodic closure that expired at `deadline`. Returns when the next run is due, or
    /// `None` if that was the last. For a task that is not periodic, returns `None` and runs
    /// nothing.
    pub(crate) fn run_again(&mut self, deadline: Subtick, timeline: &Timeline) -> Option<NextDue> {
        let run = self.vtable.run_again?;
        // SAFETY: `series` chose `vtable` together with the captures, which are still there.
        unsafe { run(self.captures.as_mut_ptr().cast(), deadline, timeline) }
    }

    /// Runs it; a periodic closure for the last time.
    pub(crate) fn run(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `new` chose `vtable` together with the captures, and they are used up here once.
        unsafe { this.vtable.run(&mut this.captures) };
    }

    /// Returns the closure.
    ///
    /// # Safety
    /// `Task::new::<F>` made the task with this very `F`, or `Task::series` made it with the
    /// `Series` that `F` is.
    pub(crate) unsafe fn into_inner<F>(self) -> F {
        let mut this = ManuallyDrop::new(self);
        let place: *mut u8 = this.captures.as_mut_ptr().cast();
        if is_inline::<F>() {
            // SAFETY: the caller names the right type, and `is_inline` decides as it did in `new`.
            unsafe { place.cast::<F>().read() }
        } else {
            // SAFETY: the caller names the right type, so the pointer of a box with an `F` is
            // there.
            *unsafe { unbox::<F>(place) }
        }
    }
}

impl Drop for Task {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `new` chose `vtable` together with the captures. `run` and `into_inner` forget
        // the task, so the captures are still there.
        unsafe { self.vtable.discard(&mut self.captures) };
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
    fn captures_of_24_bytes_are_inline_and_25_are_not() {
        assert!(is_inline::<[u64; 3]>());
        assert!(!is_inline::<[u8; 25]>());
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
