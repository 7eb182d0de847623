//! One cache line per timeout.
//!
//! An entry lives in the [arena](crate::arena) and is recycled. At any moment each of its parts
//! belongs to exactly one party:
//!
//! | part | free | in the inbox | in the wheel | expired, in a batch | cancelled | tombstone |
//! |---|---|---|---|---|---|---|
//! | `state` | - | anyone, by RMW; the worker by stores, if the engine is the only owner | as in the inbox | anyone, by RMW | anyone, by RMW | producer and worker, by RMW |
//! | `next` | free list | inbox | worker (slot list) | batch | where it was linked | inbox |
//! | `back` | - | - | worker (slot list) | batch | where it was linked | the producer's list of tombstones |
//! | `task` | - | pending: nobody; it goes to the thread that changes the phase | as in the inbox | the runner | the canceller, then the cancelled queue's link; the runner, if a run of a periodic timeout was under way | the producer |
//! | `home` | - | read only until it is free again | | | | read only |
//!
//! A node of the reset queue is an entry that belongs to no timeout. Its `next` names the timeout's
//! entry. The node belongs to the thread that sends it, and then to the worker, which gives it
//! back.
//!
//! The task of a future that sleeps is a [`Sleeper`]. It stays in the entry, for the future to look
//! at, until the future drops its handle.

mod came_up;
mod handle;
mod home;
mod linked;
mod list;
mod outcome;
mod owned;
mod queued;
mod series;
mod sleeper;
mod state;
mod task;
mod task_copy;
mod token;
mod tomb;
mod won;
mod work;

use std::ptr::{self, NonNull};

pub(crate) use came_up::{CameUp, LookedOnce, Marked, OtherUp, Still, TaskPlace};
pub(crate) use handle::{Cancelling, Handle, HandleLetGo, LastHandle, Orphan};
pub(crate) use home::Home;
pub(crate) use linked::{ADDRESS_BITS, LaneEnd, Linked, Neighbour, fits_links};
pub(crate) use list::{Chain, Parts, Stack};
pub(crate) use outcome::{Begin, Cancel, EngineGone, Expire, HandleGone, Kind, Rearm, Remains, Reset, Tell, Transfer};
pub(crate) use owned::{LetGo, Linkable, Linking, Owned, Sole};
pub(crate) use queued::{Arrived, MaybeLinked, Node};
pub use series::MissedTicks;
pub(crate) use series::{FnNext, FnRepeat, Repeat, Schedule, Series};
pub(crate) use sleeper::Sleeper;
pub(crate) use state::{ArmFlags, Snapshot, State};
use task::Captures;
pub(crate) use task::{Task, TaskInPlace};
use task_copy::TaskCopy;
pub(crate) use token::{Queued, Token};
pub(crate) use tomb::{Listed, Tomb, Tombs};
pub(crate) use won::{Asleep, Begun, Fired, Running, SeriesRun, Withdrawn, Won};
pub(crate) use work::Work;

use crate::sync::{ProtocolCell, ShownPtr};
use crate::time::Subtick;

/// A pointer to an entry, or null.
pub(crate) type Link = *mut Entry;

/// One timeout.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Entry {
    #[cfg(not(any(loom, test)))]
    state: State,
    /// The models, and the tests of other layers, do single transitions.
    #[cfg(any(loom, test))]
    pub(crate) state: State,
    /// The only forward link. It belongs to one list at a time: the free list, the inbox, a wheel
    /// slot or a batch.
    next: ProtocolCell<Link>,
    /// In a wheel slot: the entry before this one, or the slot, and what else a [`Linked`] keeps in
    /// a link. With it an entry can be unlinked, and a slot that becomes empty can be found,
    /// without a field that names the slot. Null if the worker has taken it out of its slot.
    back: ProtocolCell<Link>,
    /// The remote of the shard that it was scheduled on. `None` if it never was.
    home: ProtocolCell<Option<Home<'static>>>,
    /// The task's table while there is a task, afterwards the link of a side queue. Atomic, because
    /// the worker may read it while a canceller writes the link: see
    /// [`copy_task`](Self::copy_task).
    table: ShownPtr,
    captures: ProtocolCell<Captures>,
    #[cfg(loom)]
    in_use: std::cell::Cell<bool>,
    /// Used as the link of a side queue is, so that loom sees who may. It does not see the table.
    #[cfg(loom)]
    aside: ProtocolCell<()>,
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
            home: ProtocolCell::new(None),
            table: ShownPtr::default(),
            captures: ProtocolCell::new(task::NO_CAPTURES),
            #[cfg(loom)]
            in_use: std::cell::Cell::new(false),
            #[cfg(loom)]
            aside: ProtocolCell::new(()),
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

    /// Returns the deadline that holds at this moment.
    #[inline]
    pub(crate) fn deadline(&self) -> Subtick {
        self.state.deadline()
    }

    /// Returns the word as it is at this moment, for a look that decides nothing.
    #[inline]
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.state.load()
    }

    /// Marks the entry for the arena's final sweep, see [`State::orphan`]. Returns true if a handle
    /// still holds it.
    ///
    /// # Safety
    /// The engine has no owner any more, and the caller is the one sweep. It counts the handles.
    pub(crate) unsafe fn orphan(&self) -> bool {
        self.state.orphan()
    }

    // Only the owner of a part, by the table above, uses the functions for it. They are private to
    // this layer, which gives them to the values that stand for the owners.

    #[inline]
    fn next(&self) -> Link {
        self.next.get()
    }

    #[inline]
    fn set_next(&self, link: Link) {
        self.next.set(link);
    }

    #[inline]
    fn back(&self) -> Link {
        self.back.get()
    }

    #[inline]
    fn set_back(&self, link: Link) {
        self.back.set(link);
    }

    /// Returns the next tombstone of the same producer. The link is in the place of `back`, because
    /// a tombstone is in no slot.
    #[inline]
    fn next_tombstone(&self) -> Link {
        self.back()
    }

    #[inline]
    fn set_next_tombstone(&self, link: Link) {
        self.set_back(link);
    }

    /// Returns the first entry of the next part of the same batch. The link is in the place of
    /// `back`, because an entry in a batch is in no slot.
    fn next_part(&self) -> Link {
        self.back()
    }

    fn set_next_part(&self, link: Link) {
        self.set_back(link);
    }

    /// Returns where it is at home, if it was ever armed.
    #[inline]
    pub(crate) fn home(&self) -> Option<Home<'_>> {
        // Written before the entry was published, and not again before it is free.
        self.home.get()
    }

    /// Fills a free entry. Only its sole owner calls this.
    #[inline]
    fn fill(&self, home: Option<Home<'_>>, task: Task) {
        self.home.set(home.map(Home::in_entry));
        self.put_new_task(task);
    }

    /// Fills an entry that has a home already: the caller's tombstone.
    #[inline]
    fn put_new_task(&self, task: Task) {
        #[cfg(loom)]
        self.set_in_use(true);
        self.put_task(task);
        self.set_back(ptr::null_mut());
    }

    /// Puts in the task of a free entry, or puts back the task of a periodic timeout. Only the
    /// owner of the body calls this, while the body is empty.
    #[inline]
    fn put_task(&self, task: Task) {
        let (table, captures) = task.into_parts();
        self.table.set(ptr::from_ref(table).cast_mut().cast());
        self.captures.set(captures);
    }

    /// Returns the sleeper.
    ///
    /// # Safety
    /// The task is a sleeper, and stays one while the caller has this: its future has not dropped
    /// the handle.
    #[inline]
    unsafe fn sleeper(&self) -> &Sleeper {
        // SAFETY: `Task::sleeper` made these captures, and nobody moves them while the future has
        // its handle. All parts of a `Sleeper` may change behind a shared reference.
        self.captures.with(|place| unsafe { &*place.cast::<Sleeper>() })
    }

    fn is_sleeper(&self) -> bool {
        ptr::eq(self.table.get(), (&raw const task::SLEEPER).cast())
    }

    /// Moves the task out. If it is a sleeper, the caller is its future.
    ///
    /// # Safety
    /// The caller took the entry out of PENDING, or the entry was never published. It calls this
    /// once; for a periodic timeout, once for each time that the task was put in.
    #[inline]
    unsafe fn take_task(&self) -> Task {
        // SAFETY: `fill` put a task in, and nothing else writes the body before the caller, which
        // took the entry out of PENDING, has taken it once.
        unsafe { self.copy_task().into_task() }
    }

    /// Copies the task, for a thread that is about to claim the entry. If the claim succeeds the
    /// copy is the task, and otherwise worth nothing. So a claim can give the engine's ownership up
    /// in the same step.
    ///
    /// Meanwhile a canceller may write the link of the cancelled queue over the table, which is
    /// atomic for that reason. Nobody writes to the captures before the engine gives the entry up.
    ///
    /// # Safety
    /// The caller holds the engine's ownership, or the handle of a timeout that runs once; and the
    /// entry has no sleeper. Or the caller took it out of PENDING.
    #[inline]
    unsafe fn copy_task(&self) -> TaskCopy {
        // As long as the engine owns the entry, other threads only read the captures of a task that
        // is not a sleeper. The same holds for one that runs once as long as its handle is held:
        // nobody puts it back.
        let table = self.table.get();
        TaskCopy::new(table, self.captures.get())
    }

    /// Copies the task, for a thread that is about to [give the entry up](State::give_up). If that
    /// succeeds the copy is the task, and otherwise worth nothing.
    ///
    /// Meanwhile the worker may copy the task to run it, or take the waker. Both only read it.
    ///
    /// # Safety
    /// The caller owns the handle. The task is of this kind, and not periodic.
    #[inline]
    unsafe fn copy_own_task(&self, kind: Kind) -> TaskCopy {
        // SAFETY: 1. The caller owns the handle, and says what the task is. 2. If it is a sleeper,
        // the caller is its future, and drops the copy only if it ends the wait. The byte of the
        // turn may change meanwhile, so the copy is a sleeper of its own.
        let waker = unsafe {
            if kind != Kind::Sleeper {
                return self.copy_task();
            }
            self.sleeper().move_out()
        };
        let (table, captures) = Task::sleeper(waker).into_parts();
        TaskCopy::new(ptr::from_ref(table).cast(), captures)
    }

    /// Sets the link of the cancelled queue or of the reset queue. Only the owner of the body uses
    /// it: the thread that won the cancel, or that sends the node, until it has pushed the entry;
    /// then the worker.
    fn set_next_aside(&self, link: Link) {
        #[cfg(loom)]
        self.aside.with_mut(|_| ());
        self.table.set(link.cast());
    }

    fn next_aside(&self) -> Link {
        #[cfg(loom)]
        self.aside.with(|_| ());
        self.table.get().cast()
    }
}

// SAFETY: entries are shared between producers, workers and the pool. The table above says which of
// them may touch which part, and the state word decides it.
unsafe impl Sync for Entry {}
// SAFETY: an entry has atomics, addresses in its own engine, and a task, which is `Send`. No part
// of it is bound to a thread.
unsafe impl Send for Entry {}

/// Access to the parts of an entry for the models, and for the tests of other layers.
#[cfg(any(loom, test))]
pub(crate) mod raw {
    #[cfg(loom)]
    use super::TaskCopy;
    use super::{Entry, Home, Link, Task};

    pub(crate) fn fill(entry: &Entry, home: Option<Home<'_>>, task: Task) {
        entry.fill(home, task);
    }

    /// # Safety
    /// The caller is one of the entry's owners for all of `'a`.
    #[cfg(loom)]
    pub(crate) unsafe fn entry_ref<'a>(entry: std::ptr::NonNull<Entry>) -> &'a Entry {
        // SAFETY: the caller says so.
        unsafe { super::entry_ref(entry) }
    }

    /// # Safety
    /// As for `Entry::take_task`.
    #[cfg(loom)]
    pub(crate) unsafe fn take_task(entry: &Entry) -> Task {
        // SAFETY: the task is the caller's.
        unsafe { entry.take_task() }
    }

    /// # Safety
    /// As for `Entry::copy_task`.
    #[cfg(loom)]
    pub(crate) unsafe fn copy_task(entry: &Entry) -> TaskCopy {
        // SAFETY: the caller says so.
        unsafe { entry.copy_task() }
    }

    #[cfg(loom)]
    pub(crate) fn set_next_aside(entry: &Entry, link: Link) {
        entry.set_next_aside(link);
    }

    #[cfg(loom)]
    pub(crate) fn set_next(entry: &Entry, link: Link) {
        entry.set_next(link);
    }

    #[cfg(not(loom))]
    pub(crate) fn back(entry: &Entry) -> Link {
        entry.back()
    }

    pub(crate) fn set_back(entry: &Entry, link: Link) {
        entry.set_back(link);
    }
}

/// Returns an entry by reference, for as long as the protocol says that it exists.
///
/// # Safety
/// `entry` points into an arena that is alive, and the caller is one of the entry's owners for all
/// of `'a`.
#[inline]
unsafe fn entry_ref<'a>(entry: NonNull<Entry>) -> &'a Entry {
    // SAFETY: the caller owns the entry for `'a`; all fields have interior mutability, so shared
    // references never conflict.
    unsafe { entry.as_ref() }
}
