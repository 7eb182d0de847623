//! Magazines on their way from the threads that give entries back to the threads that take them.

use crate::entry::Entry;
use crate::sync::SegQueue;
use std::ptr::NonNull;

/// How many magazines fit without an allocation. They hold 16,384 entries, as many as wait for a
/// worker before producers let it catch up.
#[cfg(not(loom))]
const SHELF: usize = if cfg!(miri) { 2 } else { 256 };

/// A list of free entries, linked through `next`, on its way between threads.
#[derive(Debug)]
pub(super) struct Magazine {
    pub(super) first: NonNull<Entry>,
    pub(super) len: usize,
}

// SAFETY: free entries belong to the thread that holds the magazine.
unsafe impl Send for Magazine {}

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
