//! What a debug build looks at besides: that an entry is in the slot that its deadline names, when
//! it is linked and again when the slot comes up, and that what the wheel counts is there. In a
//! release build nothing is kept, and nothing looked at.

use super::slots::SlotIndex;
use super::{Place, Wheel};
use crate::entry::{Linkable, Token};
use crate::time::Subtick;

impl Wheel {
    /// Checks that an entry goes into the slot that its deadline names.
    #[inline]
    pub(super) fn check_link(&mut self, entry: &Linkable, deadline: Subtick, place: Place) {
        if !cfg!(debug_assertions) {
            return;
        }
        if let Some(level) = self.levels.get(place.level) {
            let named = level.place_of_tick(self.division.tick_of(deadline));
            assert_eq!(place.slot, named, "an entry is linked in a slot that its deadline does not name");
        }
        self.records.link(entry, deadline);
    }

    /// Checks that each entry in a slot of a level was linked by a deadline that names it.
    #[inline]
    pub(super) fn check_slot(&self, level: usize, slot: SlotIndex) {
        if cfg!(debug_assertions) {
            self.slots.addresses(slot).for_each(|entry| self.check_address(entry, level, slot));
        }
    }

    /// Checks that an entry, which came out of a cascade, was in the slot that its deadline names.
    #[inline]
    pub(super) fn check_cascaded(&self, entry: &Linkable, level: usize, due: u64) {
        if cfg!(debug_assertions) {
            self.check_address(entry.as_link().addr(), level, self.levels[level].place_of_tick(due));
        }
    }

    fn check_address(&self, entry: usize, level: usize, slot: SlotIndex) {
        let Some(deadline) = self.records.linked_by(entry) else { return };
        let named = self.levels[level].place_of_tick(self.division.tick_of(deadline));
        assert_eq!(slot, named, "an entry comes up in a slot that its deadline does not name");
    }

    /// Checks now and then, at the end of a turn, that as many entries are linked as are counted,
    /// each with its neighbours' links, and that the slots that are marked are those that are not
    /// empty.
    #[inline]
    pub(super) fn reconcile(&mut self) {
        if !cfg!(debug_assertions) || !self.records.may_look_at(self.slots.all().len() + self.len) {
            return;
        }
        let linked: usize = self.slots.all().map(|slot| self.slots.count(slot)).sum();
        assert_eq!(linked, self.len, "the wheel has lost count of its entries");
        for (slot, is_marked) in self.levels.iter().flat_map(|level| level.marks()) {
            assert_eq!(
                is_marked,
                !self.slots.is_empty(slot),
                "a slot is marked that is empty, or is not and has entries"
            );
        }
    }
}
