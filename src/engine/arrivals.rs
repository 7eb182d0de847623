//! What the worker has taken out of the inbox and not linked yet.

use std::ptr::{self, NonNull};

use crate::entry::{Entry, Link, entry_ref};
use crate::shard::Taken;

/// Entries out of the inbox, which gives the newest first. They are turned round, so that what one
/// thread has scheduled is linked in that order. Of very many, only a part is turned round at a
/// time.
#[derive(Debug)]
pub(super) struct Arrivals {
    newest_first: Taken,
    /// What is turned round so far.
    oldest_first: Link,
    /// How many there were, up to 65,535.
    depth: usize,
}

impl Arrivals {
    pub(super) const NONE: Self = Self::new(Taken::NONE);

    pub(super) const fn new(taken: Taken) -> Self {
        Self { newest_first: taken, oldest_first: ptr::null_mut(), depth: taken.depth() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.newest_first.is_empty() && self.oldest_first.is_null()
    }

    /// Returns how many entries there were when they were taken, up to 65,535, or 0 if none is left
    /// by now.
    pub(super) fn depth(&self) -> usize {
        if self.is_empty() { 0 } else { self.depth }
    }

    /// Returns whether all that is left is turned round.
    pub(super) fn is_turned_round(&self) -> bool {
        self.newest_first.is_empty()
    }

    /// Turns at most `most` entries round. Returns how many.
    ///
    /// # Safety
    /// The entries are the caller's.
    pub(super) unsafe fn turn_round(&mut self, most: usize) -> usize {
        let (mut rest, mut oldest, mut turned) = (self.newest_first, self.oldest_first, 0);
        while turned < most {
            // SAFETY: the caller owns the entries, which are still linked as in the inbox.
            let Some(entry) = (unsafe { rest.pop(Entry::next) }) else { break };
            // SAFETY: the caller owns the entries.
            unsafe { entry_ref(entry) }.set_next(oldest);
            oldest = entry.as_ptr();
            turned += 1;
        }
        (self.newest_first, self.oldest_first) = (rest, oldest);
        turned
    }

    /// Takes off the oldest entry. Returns `None` if none is left, or if not all are turned round.
    ///
    /// # Safety
    /// The entries are the caller's.
    #[inline]
    pub(super) unsafe fn pop(&mut self) -> Option<NonNull<Entry>> {
        if !self.newest_first.is_empty() {
            return None;
        }
        let entry = NonNull::new(self.oldest_first)?;
        // SAFETY: the caller owns the entries.
        self.oldest_first = unsafe { entry_ref(entry) }.next();
        crate::sync::prefetch(self.oldest_first);
        Some(entry)
    }
}
