//! Entries in the side queues of a shard, as values: [`Queued`], which goes in, and [`FromQueue`],
//! which the worker takes out.

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::held::Sole;
use super::list::{Stacked, Token};
use super::{Entry, Handle, Link, Linked, Popped};

/// The ownership QUEUED of an entry, on its way into a side queue of its shard. The handle, if
/// there is one, is held until it is in, or was refused.
#[derive(Debug)]
#[must_use = "the worker is not told if it goes into no queue"]
#[repr(transparent)]
pub(crate) struct Queued<'h>(NonNull<Entry>, PhantomData<&'h Handle>);

// SAFETY: `repr(transparent)` around a `NonNull<Entry>`. `aside` belongs to the thread that has set
// QUEUED, and goes with this value.
unsafe impl Token for Queued<'_> {}

impl Queued<'_> {
    /// # Safety
    /// The caller has set QUEUED on the entry, and makes one such value for that. The handle, if
    /// there is one, is held for as long as the value.
    #[inline]
    pub(crate) unsafe fn new(entry: NonNull<Entry>) -> Self {
        Self(entry, PhantomData)
    }

    /// Sets the link by which it will be in the queue.
    #[inline]
    pub(crate) fn set_below(&self, link: Link) {
        self.entry().aside.set(link);
    }

    /// Ends the ownership, because the queue is closed.
    pub(crate) fn refused(self) {
        self.entry().state.unqueue();
    }
}

/// The ownership QUEUED of an entry that was in a side queue. It is for the worker of the queue's
/// shard, which alone takes such values out.
#[derive(Debug)]
#[must_use = "the entry is lost if it is not popped"]
#[repr(transparent)]
pub(crate) struct FromQueue(NonNull<Entry>);

// SAFETY: the ownership may be passed on between threads.
unsafe impl Send for FromQueue {}
// SAFETY: `repr(transparent)` around a `NonNull<Entry>`. `aside` was the queue's, and goes with
// this value.
unsafe impl Token for FromQueue {}

// SAFETY: an entry is in a side queue by `aside`.
unsafe impl Stacked for FromQueue {
    #[inline]
    fn below(&self) -> Link {
        self.entry().aside.get()
    }
}

impl FromQueue {
    /// Ends the ownership, and says where the entry is.
    #[inline]
    pub(crate) fn pop(self) -> OutOfQueue {
        match self.entry().state.pop() {
            Popped::Moved => OutOfQueue::Moved(Linked(self.0)),
            Popped::Cancelled => OutOfQueue::Cancelled(CancelledInSlot(self)),
            Popped::Elsewhere => OutOfQueue::Elsewhere,
            // SAFETY: QUEUED was the last owner, and this value is that.
            Popped::Last => OutOfQueue::Last(unsafe { Sole::new(self.0) }),
        }
    }
}

/// An entry that the worker has popped off a side queue: [`Popped`] with the worker's ownership.
pub(crate) enum OutOfQueue {
    /// It goes to the slot of its deadline of now.
    Moved(Linked),
    Cancelled(CancelledInSlot),
    Elsewhere,
    Last(Sole),
}

/// An entry that was cancelled in its slot, with the engine's ownership and QUEUED. The wheel takes
/// it out of the slot (`Wheel::remove`) if it has not come up.
#[must_use = "the entry is lost if it is not let go"]
pub(crate) struct CancelledInSlot(FromQueue);

impl CancelledInSlot {
    #[inline]
    pub(crate) fn linked(&self) -> Linked {
        Linked(self.0.0)
    }

    /// Gives both ownerships up. Returns the entry if nobody else owns it.
    ///
    /// # Safety
    /// The entry is in no slot any more, and nobody has it as [`CameUp`](super::CameUp).
    #[inline]
    pub(crate) unsafe fn let_go(self) -> Option<Sole> {
        let is_last = self.0.entry().state.queue_lets_go();
        // SAFETY: this value's were the last ownerships, and it ends here. The entry is in no list.
        is_last.then(|| unsafe { Sole::new(self.0.0) })
    }
}
