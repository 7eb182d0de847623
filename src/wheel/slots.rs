//! The slots: heads of intrusive lists of entries. An entry knows the address of the link that points at it (Linux's
//! `hlist`), so it can be unlinked without a search, and the slot that it leaves empty is found from that address.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::entry::{Entry, Link, entry_ref};
use crate::time::Tick;

#[derive(Debug)]
pub(super) struct Slots {
    /// A boxed slice by its parts: entries hold addresses into it, which a `Box` that is moved would invalidate.
    heads: NonNull<Cell<Link>>,
    len: usize,
}

impl Slots {
    pub(super) fn new(len: usize) -> Self {
        let heads: Box<[Cell<Link>]> = (0..len).map(|_| Cell::new(ptr::null_mut())).collect();
        Self { heads: NonNull::from(Box::leak(heads)).cast(), len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn head(&self, slot: usize) -> &Cell<Link> {
        debug_assert!(slot < self.len);
        // SAFETY: every caller's slot is below `len`.
        let head = unsafe { self.heads.add(slot) };
        // SAFETY: as above; the heads live as long as this array.
        unsafe { head.as_ref() }
    }

    pub(super) fn first(&self, slot: usize) -> Option<NonNull<Entry>> {
        NonNull::new(self.head(slot).get())
    }

    /// The earliest deadline of the pending entries in a slot, by their own words; [`Tick::NEVER`] if there are none.
    pub(super) fn earliest_in(&self, slot: usize) -> Tick {
        // SAFETY: entries in a slot are valid.
        let entries =
            std::iter::successors(self.first(slot), |entry| NonNull::new(unsafe { entry_ref(*entry) }.next()));
        // SAFETY: as above.
        let states = entries.map(|entry| &unsafe { entry_ref(entry) }.state);
        states.filter(|state| state.is_pending()).map(|state| state.deadline()).min().unwrap_or(Tick::NEVER)
    }

    /// The same of all slots.
    pub(super) fn earliest(&self) -> Tick {
        (0..self.len).map(|slot| self.earliest_in(slot)).min().unwrap_or(Tick::NEVER)
    }

    /// # Safety
    /// The entry is the wheel's, in no slot, and stays valid until it is unlinked.
    #[inline]
    pub(super) unsafe fn push(&self, slot: usize, entry: NonNull<Entry>) {
        // SAFETY: as above.
        let this = unsafe { entry_ref(entry) };
        let head = self.head(slot);
        let first = head.get();
        this.set_next(first);
        if let Some(first) = NonNull::new(first) {
            // SAFETY: entries in a slot are valid.
            unsafe { entry_ref(first) }.set_back(this.next_place());
        }
        this.set_back(head.as_ptr());
        head.set(entry.as_ptr());
    }

    /// Moves a whole list to an empty slot, of this or another array.
    pub(super) fn move_list(&self, from: usize, to: &Slots, to_slot: usize) {
        debug_assert!(to.first(to_slot).is_none());
        let Some(first) = self.first(from) else { return };
        let head = to.head(to_slot);
        head.set(first.as_ptr());
        self.head(from).set(ptr::null_mut());
        // SAFETY: entries in a slot are valid.
        unsafe { entry_ref(first) }.set_back(head.as_ptr());
    }

    /// Unlinks an entry from whatever slot it is in. If that slot is one of these and is empty now, says which.
    ///
    /// # Safety
    /// The entry is valid and in a slot.
    #[inline]
    pub(super) unsafe fn unlink(&self, entry: NonNull<Entry>) -> Option<usize> {
        // SAFETY: as above.
        let this = unsafe { entry_ref(entry) };
        let (next, back) = (this.next(), this.back());
        debug_assert!(!back.is_null());
        // SAFETY: `back` is the link that points here: a head, or the link of a valid entry in the same slot.
        unsafe { back.write(next) };
        this.set_back(ptr::null_mut());
        if let Some(next) = NonNull::new(next) {
            // SAFETY: entries in a slot are valid.
            unsafe { entry_ref(next) }.set_back(back);
            return None;
        }
        let offset = back.addr().wrapping_sub(self.heads.addr().get()) / size_of::<Link>();
        (offset < self.len).then_some(offset)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let heads = NonNull::slice_from_raw_parts(self.heads, self.len);
        // SAFETY: leaked from a box in `new`, and given up here once.
        drop(unsafe { Box::from_raw(heads.as_ptr()) });
    }
}
