//! Magazines on their way from the threads that give entries back to the threads that take them.

use std::ptr::{self, NonNull};

use crate::entry::{Entry, Link, Sole};
use crate::sync::SegQueue;

/// How many magazines fit without an allocation. They hold 16,384 entries, as many as wait for a
/// worker before producers let it catch up.
#[cfg(not(loom))]
const SHELF: usize = if cfg!(miri) { 2 } else { 256 };

/// A list of free entries, linked through `next`, which may go from thread to thread. It has at
/// least one.
#[derive(Debug)]
#[must_use = "the entries are lost if they are not given back"]
pub(super) struct Magazine {
    first: NonNull<Entry>,
    len: usize,
}

// SAFETY: the free entries in it belong to the thread that holds the magazine.
unsafe impl Send for Magazine {}

impl Magazine {
    /// # Safety
    /// `first` is the first of `len` free entries, linked through `next`, of which the last has
    /// none. The caller owns them, and hands them to the magazine.
    pub(super) unsafe fn of_list(first: NonNull<Entry>, len: usize) -> Self {
        Self { first, len }
    }

    /// Returns the first entry and how many there are. The list is the caller's.
    pub(super) fn into_list(self) -> (Link, usize) {
        (self.first.as_ptr(), self.len)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Puts an entry in front of the others, if there are any.
    pub(super) fn push(others: Option<Self>, entry: Sole) -> Self {
        let (next, len) = others.map_or((ptr::null_mut(), 0), Self::into_list);
        entry.set_next(next);
        Self { first: entry.into_raw(), len: len + 1 }
    }

    /// Returns the first entry, and the others.
    pub(super) fn pop(self) -> (Sole, Option<Self>) {
        // SAFETY: the magazine owns its entries, and this one leaves it here.
        let entry = unsafe { Sole::new(self.first) };
        let others = NonNull::new(entry.next()).map(|first| Self { first, len: self.len - 1 });
        (entry, others)
    }
}

/// A bounded queue, which never allocates, and an unbounded one for the magazines that don't fit.
#[derive(Debug)]
pub(super) struct Depot {
    #[cfg(not(loom))]
    shelf: crossbeam_queue::ArrayQueue<Magazine>,
    overflow: SegQueue<Magazine>,
}

impl Depot {
    pub(super) fn new() -> Self {
        Self {
            #[cfg(not(loom))]
            shelf: crossbeam_queue::ArrayQueue::new(SHELF),
            overflow: SegQueue::new(),
        }
    }

    pub(super) fn put(&self, magazine: Magazine) {
        #[cfg(not(loom))]
        let Err(magazine) = self.shelf.push(magazine) else { return };
        self.overflow.push(magazine);
    }

    /// Returns `None` if the depot is empty.
    pub(super) fn take(&self) -> Option<Magazine> {
        #[cfg(not(loom))]
        if let Some(magazine) = self.shelf.pop() {
            return Some(magazine);
        }
        self.overflow.pop()
    }
}
