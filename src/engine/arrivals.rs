//! What the worker has taken out of the inbox and not linked yet.

use crate::entry::{Chain, Linkable, Owned, Stack};
use crate::shard::Taken;
use crate::time::Subtick;

/// Entries out of the inbox, which gives the newest first. They are turned round, so that what one
/// thread has scheduled is linked in that order. Of very many, only a part is turned round at a
/// time.
#[derive(Debug)]
pub(super) struct Arrivals {
    newest_first: Taken<Owned>,
    /// What is turned round so far.
    oldest_first: Stack,
    /// How many there were, up to 65,535.
    depth: usize,
}

impl Arrivals {
    pub(super) const NONE: Self = Self::new(Taken::NONE);

    pub(super) const fn new(taken: Taken<Owned>) -> Self {
        let depth = taken.depth();
        Self { newest_first: taken, oldest_first: Stack::new(), depth }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.newest_first.is_empty() && self.oldest_first.is_empty()
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

/// Entries that wait for memory. They are not linked, so a cancel or a reset changes their words
/// alone.
#[derive(Debug)]
pub(super) struct Waiting {
    entries: Chain,
    /// The earliest deadline when they were looked through last, or came.
    earliest: Subtick,
}

impl Waiting {
    pub(super) const NONE: Self = Self { entries: Chain::new(), earliest: Subtick::NEVER };

    pub(super) fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    pub(super) fn earliest(&self) -> Subtick {
        self.earliest
    }

    /// Adds an entry that was pending at a look, with this deadline.
    pub(super) fn push(&mut self, entry: Owned, deadline: Subtick) {
        self.entries.push(entry);
        self.earliest = self.earliest.min(deadline);
    }

    /// Adds an entry that is linked, but in no slot. If it was queued meanwhile, its queue brings
    /// it.
    pub(super) fn push_unlinked(&mut self, entry: Linkable) {
        if let Some((entry, deadline)) = entry.unlink() {
            self.push(entry, deadline);
        }
    }

    /// The same, for a periodic timeout that a drain does not wait for.
    pub(super) fn push_kept_back(&mut self, entry: Linkable) {
        let earliest = self.earliest;
        self.push_unlinked(entry);
        self.earliest = earliest;
    }

    pub(super) fn pop(&mut self) -> Option<Owned> {
        let entry = self.entries.pop();
        if self.is_empty() {
            self.earliest = Subtick::NEVER;
        }
        entry
    }

    /// Takes all out, to be looked through.
    pub(super) fn take(&mut self) -> Chain {
        std::mem::replace(self, Self::NONE).entries
    }
}
