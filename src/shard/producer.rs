//! What each thread that uses an engine has of it for itself: free entries, a home shard, counters.

use std::ptr::NonNull;

use super::counters::Counter;
use crate::arena::{Arena, Local};
use crate::entry::Entry;

/// One thread's part of one engine. Reached through [`Hub::with_producer`](super::Hub::with_producer) only, which gives it
/// to no two threads at a time.
#[derive(Debug)]
pub(crate) struct Producer {
    free: Local,
    /// The shard that this thread schedules on.
    home: usize,
    pub(crate) scheduled: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) reset: Counter,
    pub(crate) rejected: Counter,
}

// SAFETY: other threads read the counters only, which are atomic; `free` is private to this file, and its methods are
// called by the thread that the producer belongs to.
unsafe impl Sync for Producer {}

impl Producer {
    pub(super) fn new(home: usize) -> Self {
        Self {
            free: Local::new(),
            home,
            scheduled: Counter::default(),
            cancelled: Counter::default(),
            reset: Counter::default(),
            rejected: Counter::default(),
        }
    }

    pub(crate) fn home(&self) -> usize {
        self.home
    }

    /// A free entry.
    ///
    /// # Safety
    /// The producer is the calling thread's, and `arena` is its hub's.
    #[inline]
    pub(crate) unsafe fn take_entry(&self, arena: &Arena) -> NonNull<Entry> {
        // SAFETY: handed on.
        unsafe { self.free.take(arena) }
    }

    /// Puts an entry back.
    ///
    /// # Safety
    /// As for [`take_entry`](Self::take_entry), and the caller is the entry's sole owner.
    #[inline]
    pub(crate) unsafe fn put_entry(&self, arena: &Arena, entry: NonNull<Entry>) {
        // SAFETY: handed on.
        unsafe { self.free.put(arena, entry) };
    }
}
