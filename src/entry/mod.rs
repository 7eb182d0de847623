//! One cache line per timeout.
//!
//! An entry lives in the [arena](crate::arena) and is recycled. At any moment each of its parts
//! belongs to exactly one party:
//!
//! | part | free | in the inbox | in the wheel | expired, in a batch | cancelled | tombstone |
//! |---|---|---|---|---|---|---|
//! | `state` | - | anyone, by RMW; the worker by stores, if the engine is the only owner | as in the inbox | anyone, by RMW | anyone, by RMW | producer and worker, by RMW |
//! | `next` | free list | inbox | worker (slot list) | batch | where it was linked | inbox |
//! | `back` | - | - | worker (slot list) | - | where it was linked | the producer's list of tombstones |
//! | `task` | - | pending: nobody; it goes to the thread that changes the phase | as in the inbox | the runner | the canceller, then the cancelled queue's link; the runner, if a run of a periodic timeout was under way | the producer |
//! | `home` | - | read only until it is free again | | | | read only |
//!
//! A node of the reset queue is an entry that belongs to no timeout. Its `next` names the timeout's
//! entry. The node belongs to the thread that sends it, and then to the worker, which gives it
//! back.
//!
//! The task of a future that sleeps is a [`Sleeper`]. It stays in the entry, for the future to look
//! at, until the future drops its handle.

mod outcome;
mod series;
mod sleeper;
mod state;
mod task;

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::task::Waker;

pub(crate) use outcome::{Begin, Cancel, EngineGone, Expire, HandleGone, Rearm, Reset, Tell, Transfer};
pub use series::MissedTicks;
pub(crate) use series::{FnNext, FnRepeat, Repeat, Schedule, Series};
pub(crate) use sleeper::Sleeper;
pub(crate) use state::{ArmFlags, State};
pub(crate) use task::Task;

use crate::sync::ProtocolCell;

/// A pointer to an entry, or null.
pub(crate) type Link = *mut Entry;

/// One timeout.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Entry {
    pub(crate) state: State,
    /// The only forward link. It belongs to one list at a time: the free list, the inbox, a wheel
    /// slot or a batch.
    next: ProtocolCell<Link>,
    /// In a wheel slot: the address of the link that points here, as in Linux's `hlist`. With it an
    /// entry can be unlinked, and a slot that becomes empty can be found, without a field that
    /// names the slot. Null when in no slot.
    back: ProtocolCell<*mut Link>,
    /// The remote of the shard that it was scheduled on, as the shard layer stored it.
    home: ProtocolCell<*const ()>,
    body: ProtocolCell<MaybeUninit<Body>>,
    #[cfg(loom)]
    in_use: std::cell::Cell<bool>,
}

/// The task while there is one, afterwards the link of a side queue.
union Body {
    task: std::mem::ManuallyDrop<Task>,
    next_aside: Link,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Entry>() == 64, "an entry is one cache line");

impl Entry {
    /// Makes an entry outside of any arena, for tests and models. The arena itself uses zeroed
    /// memory.
    #[cfg(any(loom, test))]
    pub(crate) fn new_free() -> Self {
        Self {
            state: State::free_word(),
            next: ProtocolCell::new(ptr::null_mut()),
            back: ProtocolCell::new(ptr::null_mut()),
            home: ProtocolCell::new(ptr::null()),
            body: ProtocolCell::new(MaybeUninit::uninit()),
            #[cfg(loom)]
            in_use: std::cell::Cell::new(false),
        }
    }

    /// Recorded for the models, so that they find an entry that is given out or given back twice.
    #[cfg(loom)]
    pub(crate) fn set_in_use(&self, in_use: bool) {
        assert!(self.in_use.replace(in_use) != in_use, "twice {}", if in_use { "in use" } else { "free" });
    }

    #[cfg(loom)]
    pub(crate) fn is_in_use(&self) -> bool {
        self.in_use.get()
    }

    #[inline]
    pub(crate) fn next(&self) -> Link {
        // SAFETY: by the table above, only the owner of the list that the entry is in reads or
        // writes the link.
        self.next.with(|next| unsafe { *next })
    }

    #[inline]
    pub(crate) fn set_next(&self, link: Link) {
        // SAFETY: by the table above, only the owner of the list that the entry is in reads or
        // writes the link.
        self.next.with_mut(|next| unsafe { *next = link });
    }

    /// Returns the address of the forward link, for the slot lists.
    pub(crate) fn next_place(&self) -> *mut Link {
        self.next.with_mut(|next| next)
    }

    pub(crate) fn back(&self) -> *mut Link {
        // SAFETY: only the worker that owns the wheel, or the producer whose tombstone this is,
        // reads or writes `back`.
        self.back.with(|back| unsafe { *back })
    }

    pub(crate) fn set_back(&self, place: *mut Link) {
        // SAFETY: only the worker that owns the wheel, or the producer whose tombstone this is,
        // reads or writes `back`.
        self.back.with_mut(|back| unsafe { *back = place });
    }

    /// Returns the next tombstone of the same producer. The link is in the place of `back`, because
    /// a tombstone is in no slot.
    #[inline]
    pub(crate) fn next_tombstone(&self) -> Link {
        self.back().cast()
    }

    #[inline]
    pub(crate) fn set_next_tombstone(&self, link: Link) {
        self.set_back(link.cast());
    }

    pub(crate) fn is_in_a_slot(&self) -> bool {
        !self.back().is_null()
    }

    #[inline]
    pub(crate) fn home(&self) -> *const () {
        // SAFETY: written before the entry was published, and not again before it is free.
        self.home.with(|home| unsafe { *home })
    }

    /// Fills a free entry. Only its sole owner calls this.
    #[inline]
    pub(crate) fn fill(&self, home: *const (), task: Task) {
        // SAFETY: the caller is the entry's sole owner.
        self.home.with_mut(|place| unsafe { *place = home });
        self.put_new_task(task);
    }

    /// Fills an entry that has a home already: the caller's tombstone.
    #[inline]
    pub(crate) fn put_new_task(&self, task: Task) {
        #[cfg(loom)]
        self.set_in_use(true);
        self.put_task(task);
        self.set_back(ptr::null_mut());
    }

    /// Puts in the task of a free entry, or puts back the task of a periodic timeout. Only the
    /// owner of the body calls this, while the body is empty.
    #[inline]
    pub(crate) fn put_task(&self, task: Task) {
        let body = Body { task: std::mem::ManuallyDrop::new(task) };
        // SAFETY: the caller owns the body, which holds nothing that would need a drop.
        self.body.with_mut(|place| unsafe { (*place).write(body) });
    }

    /// Returns the sleeper, or `None` if the task is another one. Only its future calls this, or
    /// the thread that has taken the entry out of PENDING.
    #[inline]
    pub(crate) fn as_sleeper(&self) -> Option<&Sleeper> {
        self.body.with(|place| {
            let task = task_in(place);
            // SAFETY: `fill` wrote the task. Nobody writes a body with a task in it, and only its
            // future moves a sleeper away. The pointer comes from the cell that holds them.
            let sleeper = unsafe { Task::sleeper_of(task) }?;
            // SAFETY: the caller is the future, or has taken the entry out of PENDING, so the
            // sleeper stays; all of its parts may change behind a shared reference.
            Some(unsafe { &*sleeper })
        })
    }

    /// Returns what there is to do. That is the task, moved out. A sleeper stays where it is; then
    /// the returned task wakes the task that awaits it.
    ///
    /// # Safety
    /// As for [`take_task`](Self::take_task).
    #[inline]
    pub(crate) unsafe fn take_work(&self) -> Task {
        match self.as_sleeper() {
            // SAFETY: the caller took the entry out of PENDING, and takes the task once.
            None => unsafe { self.take_task() },
            Some(sleeper) => {
                let waker = sleeper.take();
                Task::new(move || waker.into_iter().for_each(Waker::wake))
            }
        }
    }

    /// Moves the task out. If it is a sleeper, the caller is its future.
    ///
    /// # Safety
    /// The caller took the entry out of PENDING, or the entry was never published. It calls this
    /// once; for a periodic timeout, once for each time that the task was put in.
    #[inline]
    pub(crate) unsafe fn take_task(&self) -> Task {
        self.body.with(|place| {
            let task = task_in(place);
            // SAFETY: `fill` wrote the task, and nothing else writes the body before the caller,
            // which took the entry out of PENDING, has taken it once.
            unsafe { task.read() }
        })
    }

    /// Sets the link of the cancelled queue or of the reset queue. Only the owner of the body uses
    /// it: the thread that won the cancel, or that sends the node, until it has pushed the entry;
    /// then the worker.
    pub(crate) fn set_next_aside(&self, link: Link) {
        // SAFETY: the caller owns the body, and there is no task in it.
        self.body.with_mut(|place| unsafe { (*place).write(Body { next_aside: link }) });
    }

    pub(crate) fn next_aside(&self) -> Link {
        self.body.with(|place| {
            // SAFETY: the caller owns the body.
            let body = unsafe { &*place };
            // SAFETY: it was written before the entry was pushed.
            let body = unsafe { body.assume_init_ref() };
            // SAFETY: `set_next_aside` wrote a link there before the entry was pushed.
            unsafe { body.next_aside }
        })
    }
}

// SAFETY: entries are shared between producers, workers and the pool. The table above says which of
// them may touch which part, and the state word decides it.
unsafe impl Sync for Entry {}
// SAFETY: the table above, and the state word, say which thread owns which part; the task inside is
// `Send`.
unsafe impl Send for Entry {}

/// Returns where the task is in a body, if there is one. Uses pointers alone, see
/// [`Task::sleeper_of`].
#[inline]
fn task_in(body: *const MaybeUninit<Body>) -> *const Task {
    let body: *const Body = body.cast();
    // SAFETY: this computes a pointer within the body, and reads nothing.
    unsafe { &raw const (*body).task }.cast()
}

/// Returns an entry by reference, for as long as the protocol says that it exists.
///
/// # Safety
/// `entry` points into an arena that is alive, and the caller is one of the entry's owners for all
/// of `'a`.
#[inline]
pub(crate) unsafe fn entry_ref<'a>(entry: NonNull<Entry>) -> &'a Entry {
    // SAFETY: the caller owns the entry for `'a`; all fields have interior mutability, so shared
    // references never conflict.
    unsafe { entry.as_ref() }
}
