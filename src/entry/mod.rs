//! One cache line per timeout.
//!
//! An entry lives in the [arena](crate::arena) and is recycled. At any moment each of its parts
//! belongs to exactly one party:
//!
//! | part | free | in the inbox | in the wheel | in a batch | cancelled | tombstone |
//! |---|---|---|---|---|---|---|
//! | `state` | - | anyone, by RMW; the worker by stores, if the engine is the only owner | as in the inbox | anyone, by RMW | anyone, by RMW | producer and worker, by RMW |
//! | `next` | free list | inbox | the worker: its place | batch | as before the cancel | as before the cancel |
//! | `aside` | - | who set QUEUED, and then the side queue; without QUEUED, the handle | as in the inbox | as in the inbox | as in the inbox | the producer's list of tombstones |
//! | `task` | - | pending: nobody; it goes to the thread that changes the phase | as in the inbox | the runner | the canceller; the runner, if a run of a periodic timeout was under way | the producer |
//! | `home` | - | read only until it is free again | | | | read only |
//!
//! So an entry can be in a side queue, and at the same time in a slot, in the inbox or in a batch,
//! with its task untouched. An entry with QUEUED becomes no tombstone and goes to no free list. A
//! future may change the waker that is its task, and says so by a bit ([`State::begin_change`]).

mod came_up;
mod handle;
mod held;
mod linked;
mod list;
mod outcome;
mod queued;
mod series;
mod state;
mod table_and_home;
mod task;

use std::mem::ManuallyDrop;

pub(crate) use came_up::{CameUp, Claimed, Claiming, Claims};
pub(crate) use handle::{Handle, Tomb};
pub(crate) use held::{Armed, EndedEarly, FromSlot, Held, Marked, Owned, Running, Sole, Won};
pub(crate) use linked::{ADDRESS_BITS, Linked, fits_links};
pub(crate) use list::{Chain, Part, Stacked, Token};
pub(crate) use outcome::{Cancel, EngineGone, Expire, HandleGone, Kind, Popped, Reset};
pub(crate) use queued::{CancelledInSlot, FromQueue, OutOfQueue, Queued};
pub use series::MissedTicks;
pub(crate) use series::{Schedule, Series};
pub(crate) use state::{ArmFlags, Snapshot, State};
use table_and_home::TableAndHome;
pub(crate) use table_and_home::{Home, tables_fit};
use task::Captures;
pub(crate) use task::{Task, TaskInPlace, TaskPlace, Work};

use crate::sync::ProtocolCell;

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
    /// The link of the list that it is in: the free list, the inbox, a batch, a shutdown's answer.
    /// In the wheel, its place there.
    next: ProtocolCell<Link>,
    /// The link of the side queue, or of a list of tombstones.
    aside: ProtocolCell<Link>,
    /// Of its task, and the remote of the shard that it was scheduled on. Neither if it never was.
    table_and_home: TableAndHome,
    captures: ProtocolCell<Captures>,
    #[cfg(loom)]
    in_use: std::cell::Cell<bool>,
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
            next: ProtocolCell::new(std::ptr::null_mut()),
            aside: ProtocolCell::new(std::ptr::null_mut()),
            table_and_home: TableAndHome::none(),
            captures: ProtocolCell::new(task::NO_CAPTURES),
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

    // Only the owner of a part, by the table above, uses it. The parts, and the functions below for
    // them, are private to this layer, which has a value for each owner.

    /// Returns where it is at home, if it was ever armed.
    #[inline]
    pub(crate) fn home(&self) -> Option<Home<'_>> {
        // SAFETY: `fill` was given it, for an entry that is not there for longer than its home. It
        // was set before the entry was published, and is the same until the entry is free.
        self.table_and_home.home().map(|number| unsafe { Home::new(number) })
    }

    /// Fills a free entry, whose sole owner is the caller, or the caller's tombstone, which has a
    /// `home` already.
    #[inline]
    fn fill<W: Work>(&self, home: Option<Home<'_>>, work: W) {
        #[cfg(loom)]
        self.set_in_use(true);
        // SAFETY: the place is valid, and the caller's alone: the entry is free, or a tombstone.
        self.captures.with_mut(|captures| work.put(unsafe { &mut *captures }));
        self.table_and_home.set(&W::TABLE, home.map(Home::number));
    }

    /// Puts back the task of a periodic timeout. Only the owner of the body calls this, while the
    /// body is empty.
    #[inline]
    fn put_task(&self, task: Task) {
        let task = ManuallyDrop::new(task);
        self.table_and_home.set(task.vtable, None);
        self.captures.set(task.captures);
    }

    /// Moves the task out.
    ///
    /// # Safety
    /// The caller took the entry out of PENDING, or the entry was never published. It calls this
    /// once; for a periodic timeout, once for each time that the task was put in.
    #[inline]
    unsafe fn take_task(&self) -> Task {
        // SAFETY: `fill` put a task in, and nothing else writes the body before the caller, which
        // took the entry out of PENDING, has taken it once.
        unsafe { self.copy_task().assume_init() }
    }

    /// Copies the task, for a thread that is about to claim the entry, or to [give it
    /// up](State::give_up). If that succeeds the copy is the task, and otherwise worth nothing. So
    /// the step that takes the task can give an ownership up.
    ///
    /// # Safety
    /// The caller holds the engine's ownership of a pending entry that is [marked](Marked), or
    /// whose worker is [claiming](Claiming), or the handle of a timeout that runs once. Or it took
    /// the entry out of PENDING.
    #[inline]
    unsafe fn copy_task(&self) -> TaskPlace {
        // Other threads only read the body meanwhile. A thread that puts a task back into it, or
        // arms the entry anew, has the engine's ownership, or a tombstone. A marked entry becomes
        // no tombstone, and a tombstone in a slot is not revived while its worker is claiming. If
        // the timeout runs once, its handle keeps others from both, too.
        // Both parts are of the task in the entry, and one of the two copies is used.
        // SAFETY: the caller's entry was armed, so there is a table.
        let vtable = unsafe { self.table_and_home.table().unwrap_unchecked() };
        TaskPlace::new(Task { vtable, captures: self.captures.get() })
    }
}

// SAFETY: entries are shared between producers, workers and the pool. The table above says which of
// them may touch which part, and the state word decides it.
unsafe impl Sync for Entry {}
// SAFETY: an entry has atomics, addresses in its own engine, and a task, which is `Send`. No part
// of it is bound to a thread.
unsafe impl Send for Entry {}
/// Its owners may use it after a panic: no step on it panics half-way.
impl std::panic::RefUnwindSafe for Entry {}

/// Access to the parts of an entry for the models.
#[cfg(loom)]
pub(crate) mod raw {
    use super::{Entry, Home, Link, Task, TaskPlace, Work};

    pub(crate) fn fill(entry: &Entry, home: Option<Home<'_>>, work: impl Work) {
        entry.fill(home, work);
    }

    /// # Safety
    /// As for `Entry::take_task`.
    pub(crate) unsafe fn take_task(entry: &Entry) -> Task {
        // SAFETY: the task is the caller's.
        unsafe { entry.take_task() }
    }

    /// # Safety
    /// As for `Entry::copy_task`.
    pub(crate) unsafe fn copy_task(entry: &Entry) -> TaskPlace {
        // SAFETY: the caller says so.
        unsafe { entry.copy_task() }
    }

    pub(crate) fn set_next(entry: &Entry, link: Link) {
        entry.next.set(link);
    }

    pub(crate) fn set_aside(entry: &Entry, link: Link) {
        entry.aside.set(link);
    }
}
