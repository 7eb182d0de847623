//! Slots that entries are being popped from. A pop leaves an entry that does not know its place, so
//! nothing may be unlinked from the slot until it is sealed. These values borrow what holds the
//! array until then, and seal the slot when they are dropped.

use super::{SlotIndex, Slots};
use crate::entry::Linkable;

/// What holds an array of slots, and reaches it through no other reference.
pub(in crate::wheel) trait HasSlots {
    fn slots(&self) -> &Slots;
}

/// From which end of a slot entries are popped.
#[derive(Clone, Copy, Debug)]
enum End {
    Front,
    Back,
}

/// A slot that entries are popped from, at one end.
pub(in crate::wheel) struct Open<'a, W: HasSlots> {
    holder: &'a mut W,
    at: SlotIndex,
    end: End,
}

impl<'a, W: HasSlots> Open<'a, W> {
    #[inline]
    pub(in crate::wheel) fn front(holder: &'a mut W, at: SlotIndex) -> Self {
        Self { holder, at, end: End::Front }
    }

    #[inline]
    pub(in crate::wheel) fn back(holder: &'a mut W, at: SlotIndex) -> Self {
        Self { holder, at, end: End::Back }
    }

    #[inline]
    pub(in crate::wheel) fn pop(&mut self) -> Option<Linkable> {
        match self.end {
            End::Front => self.holder.slots().pop_front(self.at),
            End::Back => self.holder.slots().pop_back(self.at),
        }
    }

    /// Seals the slot, and goes on with the one that `choose` names. Returns `None` if there is
    /// none.
    pub(in crate::wheel) fn go_on(
        &mut self,
        choose: impl FnOnce(&mut W, SlotIndex) -> Option<SlotIndex>,
    ) -> Option<()> {
        self.holder.slots().seal(self.at);
        self.at = choose(self.holder, self.at)?;
        Some(())
    }

    /// Returns what holds the array, to link what was popped in another slot.
    #[inline]
    pub(in crate::wheel) fn holder(&mut self) -> &mut W {
        self.holder
    }
}

impl<W: HasSlots> Drop for Open<'_, W> {
    #[inline]
    fn drop(&mut self) {
        self.holder.slots().seal(self.at);
    }
}

/// The slot of what is due, which entries are popped from at its front.
pub(in crate::wheel) struct OpenDue<'a, W: HasSlots> {
    holder: &'a mut W,
}

impl<'a, W: HasSlots> OpenDue<'a, W> {
    #[inline]
    pub(in crate::wheel) fn new(holder: &'a mut W) -> Self {
        Self { holder }
    }

    // Always inlined: this runs for each timeout that expires.
    #[inline(always)]
    pub(in crate::wheel) fn pop(&mut self) -> Option<Linkable> {
        self.holder.slots().pop_front(SlotIndex::DUE)
    }

    /// Returns what holds the array, to link entries, or to make more of them due.
    #[inline(always)]
    pub(in crate::wheel) fn holder(&mut self) -> &mut W {
        self.holder
    }
}

impl<W: HasSlots> Drop for OpenDue<'_, W> {
    fn drop(&mut self) {
        self.holder.slots().seal(SlotIndex::DUE);
    }
}
