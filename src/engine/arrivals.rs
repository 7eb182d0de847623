//! Entries that the worker has taken out of the inbox and not linked yet.

use crate::entry::Owned;
use crate::shard::Taken;

/// Entries out of the inbox, which gives the newest first. They are turned round, so that the
/// timeouts of one thread are linked in the order in which it has scheduled them. Of very many,
/// only a part is turned round at a time.
#[derive(Debug)]
pub(super) struct Arrivals {
    newest_first: Taken<Owned>,
    /// The part that is turned round so far.
    oldest_first: Taken<Owned>,
    /// Entries that were looked at, and found no memory. They come again in the next turn.
    set_aside: Taken<Owned>,
    /// How many there were, up to 65,535.
    depth: usize,
}

impl Arrivals {
    pub(super) const NONE: Self = Self::new(Taken::NONE);

    pub(super) const fn new(taken: Taken<Owned>) -> Self {
        let depth = taken.depth();
        Self { newest_first: taken, oldest_first: Taken::NONE, set_aside: Taken::NONE, depth }
    }

    /// Adds what was taken out of the inbox, when all that came before is turned round. It comes
    /// first.
    pub(super) fn add(&mut self, taken: Taken<Owned>) {
        debug_assert!(self.is_turned_round());
        (self.depth, self.newest_first) = (taken.depth(), taken);
    }

    /// Returns whether none is left.
    pub(super) fn is_empty(&self) -> bool {
        self.is_gone_through() && self.set_aside.is_empty()
    }

    /// Returns whether all were gone through, as far as there was memory.
    pub(super) fn is_gone_through(&self) -> bool {
        self.newest_first.is_empty() && self.oldest_first.is_empty()
    }

    /// Returns whether some wait for memory.
    pub(super) fn has_set_aside(&self) -> bool {
        !self.set_aside.is_empty()
    }

    /// Sets an entry aside until the next turn.
    pub(super) fn set_aside(&mut self, entry: Owned) {
        self.set_aside.push(entry);
    }

    /// Puts what was set aside back, in its order, when all else was gone through.
    pub(super) fn put_back(&mut self) {
        while let Some(entry) = self.set_aside.pop() {
            self.oldest_first.push(entry);
        }
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
    pub(super) fn turn_round(&mut self, most: usize) -> usize {
        let mut turned = 0;
        while turned < most {
            let Some(entry) = self.newest_first.pop() else { break };
            self.oldest_first.push(entry);
            turned += 1;
        }
        turned
    }

    /// Takes off the oldest entry. Returns `None` if none is left, or if not all are turned round.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Owned> {
        if self.newest_first.is_empty() { self.oldest_first.pop() } else { None }
    }
}
