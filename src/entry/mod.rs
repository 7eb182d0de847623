//! One cache line per timeout.
//!
//! An entry lives in the [arena](crate::arena) and is recycled. Its parts belong, at any moment, to exactly one party:
//!
//! | part | free | in the inbox | in the wheel | expired, in a batch | cancelled | kept |
//! |---|---|---|---|---|---|---|
//! | `state` | - | anyone, by RMW; the worker by stores, if the engine is alone | as before | anyone, by RMW | anyone, by RMW | keeper and worker, by RMW |
//! | `next` | free list | inbox | worker (slot list) | batch | where it was linked | inbox |
//! | `back` | - | - | worker (slot list) | - | where it was linked | the keeper's list |
//! | `task` | - | pending: nobody; it goes to whoever wins the word | as before | the runner | the canceller, then the cancelled queue's link; the runner, if a run of a series was under way | the keeper |
//! | `home` | - | read only until it is free again | | | | read only |
//!
//! A node of the reset queue is an entry that is no timeout's. Its `next` names the timeout's entry; it belongs to who sends it, and then to
//! the worker, who gives it back.
//!
//! The task of a future that sleeps is a [`Sleeper`]: it stays where it is, for the future to look at, until the future lets go of the
//! entry.

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
    /// The one forward link: of the free list, the inbox, a wheel slot or a batch, of one at a time.
    next: ProtocolCell<Link>,
    /// In a wheel slot: the address of the link that points here (Linux's `hlist`), so that an entry can be unlinked, and
    /// the slot found if it becomes empty, without a field that names the slot. Null when in no slot.
    back: ProtocolCell<*mut Link>,
    /// The remote of the shard that it was scheduled on, as the shard layer wrote it.
    home: ProtocolCell<*const ()>,
    body: ProtocolCell<MaybeUninit<Body>>,
    #[cfg(loom)]
    in_use: std::cell::Cell<bool>,
}

/// The task while there is one; the link of the queue beside the inbox afterwards.
union Body {
    task: std::mem::ManuallyDrop<Task>,
    next_aside: Link,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Entry>() == 64, "an entry is one cache line");

impl Entry {
    /// An entry outside of any arena, for tests and models. The arena itself uses zeroed memory.
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

    /// Kept for the models, which so find an entry that is given out or back twice.
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
        // SAFETY: by the table above, only the owner of the list that the entry is in reads or writes the link.
        self.next.with(|next| unsafe { *next })
    }

    #[inline]
    pub(crate) fn set_next(&self, link: Link) {
        // SAFETY: as in `next`.
        self.next.with_mut(|next| unsafe { *next = link });
    }

    /// The address of the forward link, for the slot lists.
    pub(crate) fn next_place(&self) -> *mut Link {
        self.next.with_mut(|next| next)
    }

    pub(crate) fn back(&self) -> *mut Link {
        // SAFETY: only the worker that owns the wheel reads or writes `back`, or the producer that keeps the entry.
        self.back.with(|back| unsafe { *back })
    }

    pub(crate) fn set_back(&self, place: *mut Link) {
        // SAFETY: as in `back`.
        self.back.with_mut(|back| unsafe { *back = place });
    }

    /// The next of the entries that the same producer keeps: in the place of `back`, as a kept entry is in no slot.
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

    /// Fills in a free entry. Only its sole owner calls this.
    #[inline]
    pub(crate) fn fill(&self, home: *const (), task: Task) {
        // SAFETY: the caller is the sole owner.
        self.home.with_mut(|place| unsafe { *place = home });
        self.put_new_task(task);
    }

    /// Fills in an entry that has a home already: one that the caller keeps.
    #[inline]
    pub(crate) fn put_new_task(&self, task: Task) {
        #[cfg(loom)]
        self.set_in_use(true);
        self.put_task(task);
        self.set_back(ptr::null_mut());
    }

    /// Puts the task of a free entry in, or that of a series back. Only who owns the body calls this, when nothing is in it.
    #[inline]
    pub(crate) fn put_task(&self, task: Task) {
        let body = Body { task: std::mem::ManuallyDrop::new(task) };
        // SAFETY: the caller owns the body, which holds nothing that would need a drop.
        self.body.with_mut(|place| unsafe { (*place).write(body) });
    }

    /// The sleeper, if the task is one. For its future, and for whoever has won the transition out of PENDING.
    #[inline]
    pub(crate) fn as_sleeper(&self) -> Option<&Sleeper> {
        self.body.with(|place| {
            let task = task_in(place);
            // SAFETY: `fill` wrote the task, and nobody writes a body with a task in it, or moves a sleeper away but its future; the
            // pointer comes from the cell that they are in.
            let sleeper = unsafe { Task::sleeper_of(task) }?;
            // SAFETY: as above; all of its parts may change behind a shared reference.
            Some(unsafe { &*sleeper })
        })
    }

    /// What there is to do: the task, moved out; or, of a sleeper, which stays where it is, to wake who awaits it.
    ///
    /// # Safety
    /// As for [`take_task`](Self::take_task).
    #[inline]
    pub(crate) unsafe fn take_work(&self) -> Task {
        match self.as_sleeper() {
            // SAFETY: handed on.
            None => unsafe { self.take_task() },
            Some(sleeper) => {
                let waker = sleeper.take();
                Task::new(move || waker.into_iter().for_each(Waker::wake))
            }
        }
    }

    /// Moves the task out, be it a sleeper: then the caller is its future.
    ///
    /// # Safety
    /// The caller won the transition out of PENDING (or the entry was never published), and calls this once; of a series once
    /// for each time that the task was put in.
    #[inline]
    pub(crate) unsafe fn take_task(&self) -> Task {
        self.body.with(|place| {
            let task = task_in(place);
            // SAFETY: `fill` wrote the task, and nothing else writes the body before the winner has taken it, once.
            unsafe { task.read() }
        })
    }

    /// The link of the cancelled queue, or of the reset queue. Only whoever owns the body uses it: the canceller, after it has won, or who
    /// sends the node, until it has pushed the entry, then the worker.
    pub(crate) fn set_next_aside(&self, link: Link) {
        // SAFETY: see above; there is no task in it.
        self.body.with_mut(|place| unsafe { (*place).write(Body { next_aside: link }) });
    }

    pub(crate) fn next_aside(&self) -> Link {
        self.body.with(|place| {
            // SAFETY: the body is the caller's.
            let body = unsafe { &*place };
            // SAFETY: it was written before the entry was pushed.
            let body = unsafe { body.assume_init_ref() };
            // SAFETY: as above: it is a link that stands there.
            unsafe { body.next_aside }
        })
    }
}

// SAFETY: entries are shared between producers, workers and the pool; who may touch which part when is the table above,
// and the state word decides it.
unsafe impl Sync for Entry {}
// SAFETY: as above; the task inside is `Send`.
unsafe impl Send for Entry {}

/// Where the task stands in a body, if there is one. By pointers alone, see [`Task::sleeper_of`].
#[inline]
fn task_in(body: *const MaybeUninit<Body>) -> *const Task {
    let body: *const Body = body.cast();
    // SAFETY: a pointer is computed, within the body, and nothing read.
    unsafe { &raw const (*body).task }.cast()
}

/// An entry by reference, for as long as the protocol says that it exists.
///
/// # Safety
/// `entry` points into an arena that is alive, and the caller is one of the entry's owners for all of `'a`.
#[inline]
pub(crate) unsafe fn entry_ref<'a>(entry: NonNull<Entry>) -> &'a Entry {
    // SAFETY: as above; all fields have interior mutability, so shared references never conflict.
    unsafe { entry.as_ref() }
}
