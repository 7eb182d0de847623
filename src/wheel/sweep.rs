//! All slots are set aside, and each entry is looked at once: when the clock has outrun the wheel,
//! or a slot does not tell its entries' deadlines any more.

use super::slots::{Open, SlotIndex};
use super::{Budget, Wheel};
use crate::entry::{Kind, Snapshot};
use crate::time::Subtick;

impl Wheel {
    /// Links again what was set aside, and sorts what is due.
    #[cold]
    pub(super) fn sweep(&mut self, now: Subtick, budget: &mut Budget) {
        while !self.is_swept() {
            let place = self.next_swept();
            let mut from = Open::front(self, place);
            loop {
                if budget.is_spent() {
                    return;
                }
                let Some(entry) = from.pop() else { break };
                budget.spend();
                let wheel = from.holder();
                let seen = entry.snapshot();
                let deadline = if wheel.keeps_back(seen) { Subtick::NEVER } else { seen.deadline() };
                let place = if deadline <= now { wheel.outside(SlotIndex::DUE) } else { wheel.place_for(deadline) };
                wheel.check_link(&entry, deadline, place);
                wheel.slots.push_back(place.slot, entry, place.rank);
                wheel.mark(place);
            }
            drop(from);
            self.unswept -= 1;
        }
        self.slots.sort(SlotIndex::DUE, self.division);
    }

    /// Returns whether all slots that were set aside have been gone through.
    pub(crate) fn is_swept(&self) -> bool {
        self.unswept == 0
    }

    /// Returns the first list of what was set aside that is not yet gone through.
    pub(super) fn next_swept(&self) -> SlotIndex {
        self.slots.aside(self.slots.lists() - self.unswept)
    }

    /// Makes all entries come up, because some may have an earlier deadline now and nobody can name
    /// them. The caller checks by each entry's own word when it is due. The wheel must be
    /// [swept](Self::is_swept).
    #[cold]
    pub(crate) fn rescan(&mut self, now: Subtick) {
        self.set_all_aside(self.division.last_tick(now));
        self.slots.move_slot(self.never_place, self.slots.aside(self.slots.lists() - 1));
    }

    /// Returns whether an entry never comes up again.
    pub(super) fn keeps_back(&self, seen: Snapshot) -> bool {
        self.keeps_series_back && seen.kind() == Kind::Series
    }

    /// Keeps periodic timeouts back from now on: those in the wheel never come up again. Returns
    /// false if it was called before. The wheel must be [swept](Self::is_swept).
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
        assert!(self.is_swept(), "what was set aside before is not gone through");
        for (index, level) in self.levels.iter().enumerate() {
            level.occupied(self.cursor).for_each(|(_, place)| self.check_slot(index, place));
        }
        let mut to = 0;
        let mut set_aside = |place: SlotIndex| {
            self.slots.move_slot(place, self.slots.aside(to));
            to += 1;
        };
        for (index, level) in self.levels.iter_mut().enumerate().rev() {
            level.take_occupied(self.cursor).for_each(&mut set_aside);
            if index > 0 {
                set_aside(self.cascades[index - 1].place);
            }
        }
        self.unswept = self.slots.lists();
        self.cursor = self.cursor.max(last_tick + 1);
    }
}
