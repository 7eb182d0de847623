//! The cancelled queue: entries that were cancelled after the worker had linked them.

use std::ptr::{self, NonNull};

use super::stack::{CLOSED, MAX_DEPTH, ONE_DEEP, Taken, WAKE_DEPTH, address_of, depth_of};
use crate::entry::{Entry, entry_ref};
use crate::sync::{AtomicPtr, Ordering};

/// The same stack as the inbox without a sleeper, through a link of its own (where the task was), because the
/// entries in it may still be linked in the wheel.
#[derive(Debug)]
pub(crate) struct Cancelled {
    head: AtomicPtr<Entry>,
}

impl Cancelled {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Pushes a cancelled entry. True if so many wait that the worker has to be woken: at each multiple of
    /// [`WAKE_DEPTH`]. Into a closed queue nothing is pushed: the engine has let go of all its entries by then, or is
    /// about to, without looking at this queue.
    ///
    /// # Safety
    /// The caller won the cancel, has moved the task out, and holds the entry's handle until this returns.
    #[inline]
    pub(crate) unsafe fn push(&self, entry: NonNull<Entry>) -> bool {
        // SAFETY: as above.
        let this = unsafe { entry_ref(entry) };
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head.addr() & CLOSED != 0 {
                return false;
            }
            this.set_next_cancelled(address_of(head));
            let depth = (depth_of(head) + 1).min(MAX_DEPTH);
            let new = entry.as_ptr().map_addr(|addr| addr | (depth * ONE_DEEP));
            // Release: pairs with the Acquire in `take`, for the link.
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return depth.is_multiple_of(WAKE_DEPTH),
                Err(now) => head = now,
            }
        }
    }

    pub(crate) fn take(&self) -> Taken {
        if self.head.load(Ordering::Relaxed).is_null() {
            return Taken::NONE;
        }
        // Acquire: pairs with the release in `push`.
        Taken::new(self.head.swap(ptr::null_mut(), Ordering::AcqRel))
    }

    /// How many entries wait, up to 65,535.
    pub(crate) fn depth(&self) -> usize {
        depth_of(self.head.load(Ordering::Relaxed))
    }

    /// Whether so many wait that the worker should not go to sleep.
    pub(crate) fn is_deep(&self) -> bool {
        depth_of(self.head.load(Ordering::Acquire)) >= WAKE_DEPTH
    }

    /// Closes the queue for good, and returns what was pushed before. Acquire: as in [`take`](Self::take).
    pub(crate) fn close(&self) -> Taken {
        Taken::new(self.head.swap(ptr::without_provenance_mut(CLOSED), Ordering::AcqRel))
    }
}
