//! What the worker has taken out of the inbox and not linked yet.

use crate::entry::{Owned, Stack};
use crate::shard::Taken;

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
