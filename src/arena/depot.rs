//! Magazines on their way from the threads that give entries back to the threads that take them.

use std::ptr::{self, NonNull};

use crate::entry::{Link, Sole};
use crate::sync::SegQueue;

/// How many magazines fit without an allocation. They hold 16,384 entries, as many as wait for a
/// worker before producers let it catch up.
#[cfg(not(loom))]
const SHELF: usize = if cfg!(miri) { 2 } else { 256 };

/// A list of free entries, linked through `next`, which may go from thread to thread.
#[derive(Debug)]
#[must_use = "the entries are lost if they are not given back"]
pub(super) struct Magazine {
    first: Link,
    len: usize,
}

// SAFETY: the free entries in it belong to the thread that holds the magazine.
unsafe impl Send for Magazine {}

impl Magazine {
    pub(super) const EMPTY: Self = Self { first: ptr::null_mut(), len: 0 };

    /// # Safety
    /// `first` is the first of `len` free entries, linked through `next`. The caller owns them, and
    /// hands them to the magazine.
    pub(super) unsafe fn of_list(first: Link, len: usize) -> Self {
        Self { first, len }
    }

    /// Returns the first entry and how many there are. The list is the caller's.
    pub(super) fn into_list(self) -> (Link, usize) {
        (self.first, self.len)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Sole) {
        entry.set_next(self.first);
        self.first = entry.into_raw().as_ptr();
        self.len += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Sole> {
        // SAFETY: only `push` puts entries into the list, which owns them, and each leaves it here
        // once.
        let entry = unsafe { Sole::new(NonNull::new(self.first)?) };
        self.first = entry.next();
        self.len -= 1;
        Some(entry)
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

    pub(super) fn take(&self) -> Option<Magazine> {
        #[cfg(not(loom))]
        if let Some(magazine) = self.shelf.pop() {
            return Some(magazine);
        }
        self.overflow.pop()
    }
}
