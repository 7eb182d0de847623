//! What a timeout runs: a closure, inline up to [`INLINE_BYTES`] bytes of captures, boxed beyond; or a series, boxed; or, for a
//! future that sleeps, its waker, in place.

use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit, align_of, size_of};
use std::ptr;
use std::task::Waker;

use super::series::{NextDue, Repeat, Series};
use super::sleeper::Sleeper;
use crate::time::{Tick, Timeline};

const INLINE_WORDS: usize = 3;
/// Captures up to this size need no heap allocation.
pub(crate) const INLINE_BYTES: usize = INLINE_WORDS * size_of::<usize>();
/// Room for them, and for a [`Sleeper`], which is larger in a model.
const WORDS: usize = if cfg!(loom) { 32 } else { INLINE_WORDS };

const _: () =
    assert!(size_of::<Sleeper>() <= WORDS * size_of::<usize>() && align_of::<Sleeper>() <= align_of::<usize>());

/// A type-erased `FnOnce() + Send`, or [`Series`], or [`Sleeper`]. Dropping it drops the closure without running it.
pub(crate) struct Task {
    vtable: &'static TaskVTable,
    captures: [MaybeUninit<usize>; WORDS],
}

/// What one can do with captures, written once per closure type and place (inline or boxed).
struct TaskVTable {
    /// For the last time: uses the captures up.
    run: unsafe fn(*mut u8),
    /// `None` if there is nothing to drop.
    discard: Option<unsafe fn(*mut u8)>,
    /// A series', which leaves the captures for the next time. `None` for what runs once.
    run_again: Option<RunAgain>,
    /// Only of [`SLEEPER`], which is known by its address: so that no other has the same bytes, and might be laid in the same place.
    _sleeps: bool,
}

type RunAgain = unsafe fn(*mut u8, Tick, &Timeline) -> Option<NextDue>;

// SAFETY: a task is built only from closures that are `Send` (see `Task::new`), and holds nothing else.
unsafe impl Send for Task {}

const fn is_inline<F>() -> bool {
    size_of::<F>() <= INLINE_BYTES && align_of::<F>() <= align_of::<usize>()
}

/// # Safety
/// `captures` points at a valid `F`, which is moved out.
unsafe fn run_inline<F: FnOnce()>(captures: *mut u8) {
    // SAFETY: as above.
    let task = unsafe { captures.cast::<F>().read() };
    task();
}

/// # Safety
/// `captures` points at a valid `F`, which is dropped.
unsafe fn discard_inline<F>(captures: *mut u8) {
    // SAFETY: as above.
    unsafe { captures.cast::<F>().drop_in_place() };
}

/// # Safety
/// `captures` points at a pointer that came from `Box::<F>::into_raw`, which is taken over.
unsafe fn run_boxed<F: FnOnce()>(captures: *mut u8) {
    // SAFETY: as above.
    let task = unsafe { unbox::<F>(captures) };
    task();
}

/// # Safety
/// As for [`run_boxed`].
unsafe fn discard_boxed<F>(captures: *mut u8) {
    // SAFETY: as above.
    drop(unsafe { unbox::<F>(captures) });
}

/// # Safety
/// As for [`run_boxed`].
unsafe fn unbox<F>(captures: *mut u8) -> Box<F> {
    // SAFETY: the caller says that a pointer stands there.
    let raw = unsafe { captures.cast::<*mut F>().read() };
    // SAFETY: the caller says that it is a box's, and gives up that box.
    unsafe { Box::from_raw(raw) }
}

/// # Safety
/// As for [`run_boxed`], with a series in the box.
unsafe fn run_series_once<R: Repeat>(captures: *mut u8) {
    // SAFETY: as above.
    let mut series = unsafe { unbox::<Series<R>>(captures) };
    let _ = series.repeat.run();
}

/// # Safety
/// As for [`run_boxed`], with a series in the box, which is not taken over.
unsafe fn run_series<R: Repeat>(captures: *mut u8, deadline: Tick, timeline: &Timeline) -> Option<NextDue> {
    // SAFETY: a pointer stands there.
    let series = unsafe { captures.cast::<*mut Series<R>>().read() };
    // SAFETY: it is a box's, which the caller alone has.
    unsafe { &mut *series }.run(deadline, timeline)
}

/// # Safety
/// `captures` points at a valid sleeper that nobody else can reach any more, which is moved out.
unsafe fn wake_sleeper(captures: *mut u8) {
    // SAFETY: as above.
    unsafe { captures.cast::<Sleeper>().read() }.into_waker().wake();
}

/// # Safety
/// As for [`wake_sleeper`].
unsafe fn discard_sleeper(captures: *mut u8) {
    // SAFETY: as above.
    drop(unsafe { captures.cast::<Sleeper>().read() }.into_waker());
}

/// Known by its address: the captures are a [`Sleeper`], whose future may look at them at any time.
static SLEEPER: TaskVTable =
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
    /// Allocates only if the captures don't fit inline.
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

    /// Allocates once, for all runs of the series.
    pub(crate) fn series<R: Repeat>(series: Series<R>) -> Self {
        // `into_inner` must find it where it is put here.
        const { assert!(!is_inline::<Series<R>>()) };
        Self::boxed(series, &VTables::<Series<R>>::SERIES)
    }

    /// Allocates nothing.
    pub(crate) fn sleeper(waker: Waker) -> Self {
        let mut captures = [MaybeUninit::uninit(); WORDS];
        let place: *mut u8 = captures.as_mut_ptr().cast();
        // SAFETY: there is room for it (see `WORDS`).
        unsafe { place.cast::<Sleeper>().write(Sleeper::new(waker)) };
        Self { vtable: &SLEEPER, captures }
    }

    /// The waker of one that was made by [`sleeper`](Self::sleeper).
    ///
    /// # Safety
    /// It was, and nobody else can reach it any more.
    pub(crate) unsafe fn into_waker(self) -> Waker {
        let mut this = ManuallyDrop::new(self);
        let place: *mut u8 = this.captures.as_mut_ptr().cast();
        // SAFETY: as above.
        unsafe { place.cast::<Sleeper>().read() }.into_waker()
    }

    /// The sleeper that stands there, if it is one. By pointers alone: a reference to the task would claim that nobody writes to it, and
    /// the future does.
    ///
    /// # Safety
    /// `this` points at a valid task, and may be used to write to it.
    #[inline]
    pub(crate) unsafe fn sleeper_of(this: *const Self) -> Option<*const Sleeper> {
        // SAFETY: as above; nobody writes to this part.
        let vtable = unsafe { (*this).vtable };
        // SAFETY: within the task.
        ptr::eq(vtable, &SLEEPER).then(|| unsafe { &raw const (*this).captures }.cast())
    }

    fn boxed<T>(value: T, vtable: &'static TaskVTable) -> Self {
        let mut captures = [MaybeUninit::uninit(); WORDS];
        let place: *mut u8 = captures.as_mut_ptr().cast();
        // SAFETY: three words have room for one pointer.
        unsafe { place.cast::<*mut T>().write(Box::into_raw(Box::new(value))) };
        Self { vtable, captures }
    }

    /// A run of a series that expired at `deadline`. None if this was the last, as it is for what is no series.
    pub(crate) fn run_again(&mut self, deadline: Tick, timeline: &Timeline) -> Option<NextDue> {
        let run = self.vtable.run_again?;
        // SAFETY: `vtable` was chosen in `series` together with the captures, which are still there.
        unsafe { run(self.captures.as_mut_ptr().cast(), deadline, timeline) }
    }

    /// Runs it, a series for the last time.
    pub(crate) fn run(self) {
        // SAFETY: neither used again nor dropped.
        unsafe { ManuallyDrop::new(self).run_in_place() };
    }

    /// Runs it where it is: a task that is moved on its way to be run costs a copy each time.
    ///
    /// # Safety
    /// The task is not used again, nor dropped, also if this panics: its captures have been moved out.
    #[inline]
    pub(crate) unsafe fn run_in_place(&mut self) {
        // SAFETY: `vtable` was chosen in `new` together with the captures, and they are used up here once.
        unsafe { (self.vtable.run)(self.captures.as_mut_ptr().cast()) };
    }

    /// Gives the closure back.
    ///
    /// # Safety
    /// The task was made by `Task::new::<F>` with this very `F`, or by `Task::series` with the series that `F` is.
    pub(crate) unsafe fn into_inner<F>(self) -> F {
        let mut this = ManuallyDrop::new(self);
        let place: *mut u8 = this.captures.as_mut_ptr().cast();
        if is_inline::<F>() {
            // SAFETY: the caller names the right type, and `is_inline` decides as it did in `new`.
            unsafe { place.cast::<F>().read() }
        } else {
            // SAFETY: likewise.
            *unsafe { unbox::<F>(place) }
        }
    }
}

impl Drop for Task {
    #[inline]
    fn drop(&mut self) {
        if let Some(discard) = self.vtable.discard {
            // SAFETY: `vtable` was chosen in `new` together with the captures; `run` and `into_inner` forget the task, so
            // they are still there.
            unsafe { discard(self.captures.as_mut_ptr().cast()) };
        }
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
