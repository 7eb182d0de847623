//! The slots: heads of intrusive lists of entries. An entry knows the address of the link that
//! points at it, as in Linux's `hlist`. So it can be unlinked without a search, and that address
//! tells which slot it leaves empty.
//!
//! A slot is a cache line of such heads, the *lanes*, filled in turn. Entries of a slot lie
//! anywhere in memory, and the address of the next entry is known only once the entry before it has
//! been loaded. So a single list is one cache miss after the other. Walking [`LANES`] lists in turn
//! keeps as many misses under way at a time, as the partitions of a hash join do (Chen, Ailamaki,
//! Gibbons and Mowry, "Improving Hash Join Performance through Prefetching", 2004).

use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::entry::{Entry, Link, entry_ref};
use crate::sync::prefetch;
use crate::sys::memory::Zeroed;
use crate::time::Tick;

/// Lists of a slot.
const LANES: usize = 8;

type Slot = [Cell<Link>; LANES];

#[derive(Debug)]
pub(super) struct Slots {
    /// Not in a `Box`: entries hold addresses into it, and moving a `Box` would invalidate them.
    /// Zeroed links are null.
    slots: Zeroed<Slot>,
    /// The lane that is filled next.
    fill: Cell<usize>,
    /// The lane that is emptied next. It counts down, because entries that were linked one after
    /// the other often lie so in memory, too, and come out in the reverse order.
    take: Cell<usize>,
}

impl Slots {
    /// Returns `None` if there is no memory for so many slots.
    pub(super) fn new(len: usize) -> Option<Self> {
        Some(Self { slots: Zeroed::new(len)?, fill: Cell::new(0), take: Cell::new(0) })
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    fn lanes(&self, slot: usize) -> &Slot {
        debug_assert!(slot < self.len());
        // SAFETY: every caller's slot is below `len`.
        let lanes = unsafe { self.slots.at(slot) };
        // SAFETY: the slot is within the array; only cells are made of its lanes, and they live as
        // long as this array.
        unsafe { lanes.as_ref() }
    }

    pub(super) fn is_empty(&self, slot: usize) -> bool {
        self.lanes(slot).iter().all(|head| head.get().is_null())
    }

    /// Unlinks any one entry of a slot, and writes to no other entry. Such a write would wait for
    /// the other entry's cache line, and so would the caller's next read-modify-write. So the entry
    /// that is now the first of its lane does not know its place until the slot is
    /// [sealed](Self::seal), and must not be [unlinked](Self::unlink) before.
    #[inline(always)]
    pub(super) fn take(&self, slot: usize) -> Option<NonNull<Entry>> {
        let lanes = self.lanes(slot);
        for _ in 0..LANES {
            let lane = self.take.get();
            self.take.set((lane + LANES - 1) % LANES);
            if let Some(entry) = NonNull::new(lanes[lane].get()) {
                // SAFETY: entries in a slot are valid.
                let this = unsafe { entry_ref(entry) };
                let next = this.next();
                lanes[lane].set(next);
                prefetch(next);
                this.set_back(ptr::null_mut());
                return Some(entry);
            }
        }
        None
    }

    /// Tells the first entry of each lane where it is linked.
    pub(super) fn seal(&self, slot: usize) {
        for head in self.lanes(slot) {
            if let Some(first) = NonNull::new(head.get()) {
                // SAFETY: entries in a slot are valid.
                unsafe { entry_ref(first) }.set_back(head.as_ptr());
            }
        }
    }

    /// Returns the earliest deadline of the pending entries in a slot, by their own words, or
    /// [`Tick::NEVER`] if there are none.
    pub(super) fn earliest_in(&self, slot: usize) -> Tick {
        let entries = self.lanes(slot).iter().flat_map(|head| {
            // SAFETY: entries in a slot are valid.
            std::iter::successors(NonNull::new(head.get()), |entry| NonNull::new(unsafe { entry_ref(*entry) }.next()))
        });
        // SAFETY: entries in a slot are valid.
        let states = entries.map(|entry| &unsafe { entry_ref(entry) }.state);
        states.filter(|state| state.is_pending()).map(|state| state.deadline()).min().unwrap_or(Tick::NEVER)
    }

    /// # Safety
    /// The entry is the wheel's, in no slot, and stays valid until it is unlinked.
    #[inline]
    pub(super) unsafe fn push(&self, slot: usize, entry: NonNull<Entry>) {
        // SAFETY: the caller says that the entry is valid, and the wheel's.
        let this = unsafe { entry_ref(entry) };
        let lane = self.fill.get();
        self.fill.set((lane + 1) % LANES);
        let head = &self.lanes(slot)[lane];
        let first = head.get();
        this.set_next(first);
        if let Some(first) = NonNull::new(first) {
            // SAFETY: entries in a slot are valid.
            unsafe { entry_ref(first) }.set_back(this.next_place());
        }
        this.set_back(head.as_ptr());
        head.set(entry.as_ptr());
    }

    /// Moves all entries of a slot to an empty one, of this or another array.
    pub(super) fn move_slot(&self, from: usize, to: &Slots, to_slot: usize) {
        debug_assert!(to.is_empty(to_slot));
        for (from, to) in self.lanes(from).iter().zip(to.lanes(to_slot)) {
            to.set(from.replace(ptr::null_mut()));
        }
        to.seal(to_slot);
    }

    /// Unlinks an entry from its slot. Returns that slot if it is one of these and is empty now.
    ///
    /// # Safety
    /// The entry is valid and in a slot, which is sealed.
    #[inline]
    pub(super) unsafe fn unlink(&self, entry: NonNull<Entry>) -> Option<usize> {
        // SAFETY: the caller says that the entry is valid.
        let this = unsafe { entry_ref(entry) };
        let (next, back) = (this.next(), this.back());
        debug_assert!(!back.is_null());
        // SAFETY: the slot is sealed, so `back` is a valid link.
        debug_assert!(unsafe { back.read() } == entry.as_ptr(), "the slot was not sealed");
        // SAFETY: the slot is sealed, so `back` is the link that points here: a head, or the link
        // of a valid entry in the same slot.
        unsafe { back.write(next) };
        this.set_back(ptr::null_mut());
        if let Some(next) = NonNull::new(next) {
            // SAFETY: entries in a slot are valid.
            unsafe { entry_ref(next) }.set_back(back);
            return None;
        }
        let slot = back.addr().wrapping_sub(self.slots.first().addr().get()) / size_of::<Slot>();
        (slot < self.len() && self.is_empty(slot)).then_some(slot)
    }
}
