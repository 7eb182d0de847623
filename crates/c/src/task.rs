//! A callback of C as a task of the engine.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A function of yours that the engine calls with your pointer.
///
/// It must return normally. A C++ exception that leaves it ends the process, and so does a
/// `longjmp` out of it, or worse. A panic of a callback written in Rust (`extern "C-unwind"`) is
/// caught and counted, if the callback shares the library's copy of Rust's standard library.
pub type Callback = Option<unsafe extern "C-unwind" fn(data: *mut c_void)>;

/// A [`Callback`] that is not null.
pub(crate) type Call = unsafe extern "C-unwind" fn(*mut c_void);

/// Takes the callback and the data of a task that a shutdown hands back.
pub(crate) type Take<'a> = &'a mut dyn FnMut(Call, *mut c_void);

/// The callback of one timeout, with its data. A task that is dropped before it has run calls the
/// destructor. It has 24 bytes, which the engine keeps without an allocation.
pub(crate) struct Task {
    callback: Call,
    data: *mut c_void,
    destructor: Callback,
}

const _: () = assert!(size_of::<Task>() <= 24 || size_of::<usize>() != 8);

// SAFETY: the functions that take a callback demand that it and its destructor may be called with
// the data on any thread.
unsafe impl Send for Task {}
// SAFETY: as above. Only `on_earlier` shares a task, and demands that several threads may call its
// callback at a time.
unsafe impl Sync for Task {}

/// How many threads are handing tasks back. So a drop need not look at its thread's `RECEIVER` as a
/// rule. The thread that counts is the one that looks, so nothing has to be ordered.
static HANDING_BACK: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Where the next task that this thread drops goes instead of being destroyed.
    static RECEIVER: Cell<Option<*mut HandedBack>> = const { Cell::new(None) };
}

struct HandedBack(Option<(Call, *mut c_void)>);

impl Task {
    /// # Safety
    /// Any thread may call the callback and the destructor with the data. If the task is shared,
    /// several threads may call the callback at a time.
    #[inline]
    pub(crate) unsafe fn new(callback: Call, data: *mut c_void, destructor: Callback) -> Self {
        Self { callback, data, destructor }
    }

    /// Runs the callback of a timeout that runs once, which from then on owns the data.
    #[inline]
    pub(crate) fn run(self) {
        ManuallyDrop::new(self).call();
    }

    /// Runs the callback of a timeout that runs again.
    #[inline]
    pub(crate) fn call(&self) {
        // SAFETY: whoever made the task has allowed any thread to call it.
        unsafe { (self.callback)(self.data) }
    }
}

impl Drop for Task {
    #[inline]
    fn drop(&mut self) {
        if HANDING_BACK.load(Ordering::Relaxed) != 0
            && let Some(to) = RECEIVER.take()
        {
            // SAFETY: `drop_handing_back` set the pointer on this thread, to a local of its own
            // that it does not touch before this drop has returned.
            unsafe { (*to).0 = Some((self.callback, self.data)) };
        } else if let Some(destructor) = self.destructor {
            // SAFETY: as in `call`. The data is destroyed here, once.
            unsafe { destructor(self.data) };
        }
    }
}

/// Drops `unfired`, which holds a task, and gives the task's callback and data to `take` instead of
/// destroying them.
pub(crate) fn drop_handing_back(unfired: tourbillon::Unfired, take: Take<'_>) {
    let mut back = HandedBack(None);
    HANDING_BACK.fetch_add(1, Ordering::Relaxed);
    RECEIVER.set(Some(&raw mut back));
    // It drops the task, which takes the receiver, so nothing else that is dropped finds it.
    drop(unfired);
    RECEIVER.set(None);
    HANDING_BACK.fetch_sub(1, Ordering::Relaxed);
    if let Some((callback, data)) = back.0 {
        take(callback, data);
    }
}
