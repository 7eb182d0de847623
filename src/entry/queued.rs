//! Entries in the side queues of a shard, as values: [`MaybeLinked`] in the cancelled queue, and
//! [`Node`] in the reset queue.

use std::ops::Deref;
use std::ptr::NonNull;

use super::owned::{Linkable, Sole};
use super::token::{Queued, Token};
use super::{Entry, Transfer, entry_ref};
use crate::time::Subtick;

/// The engine's ownership of an entry that may be in a slot of its shard's wheel. The wheel takes
/// it out of there, if it is ([`Wheel::unlink`](crate::wheel::Wheel::unlink)).
///
/// Out of the cancelled queue come entries that were cancelled. Their tasks are gone, and the link
/// of the queue is in the place of the task.
#[derive(Debug)]
#[must_use = "the entry is lost if no step takes it over"]
#[repr(transparent)]
pub(crate) struct MaybeLinked(NonNull<Entry>);

// SAFETY: the engine's ownership may be passed on between threads.
unsafe impl Send for MaybeLinked {}
// SAFETY: `repr(transparent)` around a `NonNull<Entry>`. `next` may be a slot's, so `ASIDE` puts
// the queue's link in the place of the task, which the cancel has moved out.
unsafe impl Token for MaybeLinked {}

impl Queued for MaybeLinked {
    const ASIDE: bool = true;
}

impl MaybeLinked {
    /// # Safety
    /// The caller has cancelled the entry, which the worker had linked, and has moved the task out.
    /// It gives this value to the cancelled queue of the entry's shard, or drops it, once. It stays
    /// one of the entry's owners until it has done so.
    #[inline]
    pub(crate) unsafe fn new(entry: NonNull<Entry>) -> Self {
        Self(entry)
    }

    /// Says that the wheel has taken the entry out of its slot.
    ///
    /// # Safety
    /// The entry is in no slot.
    #[inline]
    pub(crate) unsafe fn into_linkable(self) -> Linkable {
        // SAFETY: the engine's ownership is this value's, and `Wheel::unlink`, which alone calls
        // this, has just taken the entry out of its slot, if it was in one.
        unsafe { Linkable::from_raw(self.0) }
    }
}

impl Deref for MaybeLinked {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        self.entry()
    }
}

/// An entry that names another one, which was reset to an earlier deadline.
#[derive(Debug)]
#[must_use = "the worker is not told if it goes into no queue"]
#[repr(transparent)]
pub(crate) struct Node(Sole);

// SAFETY: `repr(transparent)` around a `Sole`: one address, of an entry without a task. `ASIDE`
// puts the queue's link in the task's place; `next` names the entry that was reset.
unsafe impl Token for Node {}

impl Queued for Node {
    const ASIDE: bool = true;
}

impl Node {
    /// Makes a node of a free entry.
    ///
    /// # Safety
    /// A reset of the handle's holder has set RESET_QUEUED on `named`. It makes one node for that,
    /// and gives it to the reset queue of the entry's shard, or takes it [apart](Self::into_sole)
    /// if that is closed.
    pub(crate) unsafe fn new(free: Sole, named: NonNull<Entry>) -> Self {
        free.set_next(named.as_ptr());
        Self(free)
    }

    /// Returns the entry that it names.
    pub(crate) fn named(&self) -> &Entry {
        // SAFETY: RESET_QUEUED is set on the entry that `new` was given, so the engine does not
        // give it up before it arrives.
        unsafe { &*Entry::next(&self.0) }
    }

    pub(crate) fn into_sole(self) -> Sole {
        self.0
    }

    /// Returns the free entry, and what it named.
    ///
    /// # Safety
    /// It came out of the reset queue, and the worker goes on with both.
    pub(crate) unsafe fn open(self) -> (Sole, ResetQueued) {
        let named = NonNull::from(self.named());
        (self.0, ResetQueued(named))
    }
}

impl Deref for Node {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        &self.0
    }
}

/// An entry that a node has named. While RESET_QUEUED is set the engine does not give it up, and
/// its ownership goes with the node.
#[must_use = "the entry is lost if it does not arrive"]
pub(crate) struct ResetQueued(NonNull<Entry>);

/// What the worker found when an entry arrived through the reset queue.
pub(crate) enum Arrived {
    /// It is pending, and has to be linked again for this deadline.
    Pending(MaybeLinked, Subtick),
    /// It was cancelled: the worker lets it go.
    Cancelled(MaybeLinked),
}

impl ResetQueued {
    pub(crate) fn arrive(self) -> Arrived {
        // SAFETY: RESET_QUEUED is set, so the engine owns the entry.
        match unsafe { entry_ref(self.0) }.state.arrive() {
            Transfer::Pending(deadline) => Arrived::Pending(MaybeLinked(self.0), deadline),
            Transfer::Cancelled => Arrived::Cancelled(MaybeLinked(self.0)),
        }
    }
}
