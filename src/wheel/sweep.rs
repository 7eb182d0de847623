//! All slots are set aside, and each entry is looked at once: when the clock has outrun the wheel,
//! or a slot does not tell its entries' deadlines any more.

use super::{Budget, DUE_PLACE, Wheel};
use crate::entry::{Kind, Owned, Snapshot};
use crate::time::Subtick;

impl Wheel {
    pub(super) fn take_swept(&mut self) -> Option<Owned> {
        while !self.is_swept() {
            let entry = self.slots.pop_front(self.next_swept());
            if entry.is_some() {
                return entry;
            }
            self.unswept -= 1;
        }
        None
    }

    /// Links again what was set aside, and sorts what is due.
    #[cold]
    pub(super) fn sweep(&mut self, now: Subtick, budget: &mut Budget) {
        while !budget.is_spent() {
            let Some(entry) = self.take_swept() else { break };
            budget.spend();
            let seen = entry.state.load();
            let deadline = if self.keeps_back(seen) { Subtick::NEVER } else { seen.deadline() };
            let place = if deadline <= now { self.outside(DUE_PLACE) } else { self.place_for(deadline) };
            self.slots.push_back(place.slot, entry, place.rank);
            self.mark(place);
        }
        if self.is_swept() {
            self.slots.sort(DUE_PLACE, self.division);
        } else {
            self.slots.seal(self.next_swept());
        }
    }

    /// Returns whether all slots that were set aside have been gone through.
    pub(crate) fn is_swept(&self) -> bool {
        self.unswept == 0
    }

    /// Returns the first list of what was set aside that is not yet gone through.
    pub(super) fn next_swept(&self) -> usize {
        2 * self.lists - self.unswept
    }

    /// Makes all entries come up, because some may have an earlier deadline now and nobody can name
    /// them. The caller checks by each entry's own word when it is due. Only called when the wheel
    /// [is swept](Self::is_swept).
    #[cold]
    pub(crate) fn rescan(&mut self, now: Subtick) {
        self.set_all_aside(self.division.last_tick(now));
        self.slots.move_slot(self.never_place, 2 * self.lists - 1);
    }

    /// Returns whether an entry never comes up again.
    pub(super) fn keeps_back(&self, seen: Snapshot) -> bool {
        self.keeps_series_back && seen.kind() == Kind::Series
    }

    /// Keeps periodic timeouts back from now on: those in the wheel never come up again. Returns
    /// false if it was called before. Only called when the wheel [is swept](Self::is_swept).
    #[cold]
    pub(crate) fn keep_series_back(&mut self, now: Subtick) -> bool {
        if self.keeps_series_back {
            return false;
        }
        self.keeps_series_back = true;
        self.rescan(now);
        true
    }

    /// Sets all lists aside, and moves the cursor at once. Called when the slot of an entry does
    /// not tell its deadline any more, for example because the clock has outrun the last level's
    /// ring. The coarsest level goes first, whose entries of a tick are the oldest.
    #[cold]
    pub(super) fn set_all_aside(&mut self, last_tick: u64) {
        debug_assert!(self.is_swept());
        let mut to = self.lists;
        let mut set_aside = |place: usize| {
            self.slots.move_slot(place, to);
            to += 1;
        };
        for (index, level) in self.levels.iter_mut().enumerate().rev() {
            level.take_occupied(self.cursor).for_each(&mut set_aside);
            if index > 0 {
                set_aside(self.cascades[index - 1].place);
            }
        }
        self.unswept = self.lists;
        self.cursor = self.cursor.max(last_tick + 1);
    }
}
