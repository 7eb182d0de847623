//! A shard's wheel: its entries in a wheel of [`tourbillon_wheel`], whose ticks are subticks. It
//! has no clock and no thread, and one owner, which reaches it through `&mut`.
//!
//! The slots hold addresses. While an entry is in a slot, it is the engine's, and `next` has its
//! place. A cancelled entry that a queue brings may have come up meanwhile. The wheel notices that,
//! because a cell says which entry is in it.

mod cells;

use std::time::Duration;

use tourbillon_wheel::{ITEMS_A_BLOCK, Items, NEVER, Place};

use self::cells::Cells;
use crate::entry::{CameUp, CancelledInSlot, FromSlot, Kind, Linked, Owned, Sole, Token};
use crate::sync::prefetch;
use crate::time::Subtick;

#[derive(Debug)]
pub(crate) struct Wheel {
    slots: tourbillon_wheel::Wheel<Linked, Cells>,
    entries: Entries,
    has_kept_back: bool,
    /// For how many entries cells are reserved.
    reserved: usize,
}

/// The outcome for an entry whose slot has come up.
pub(crate) enum Took<'w> {
    /// It is taken. Or it was cancelled, and a queue brings it.
    Taken,
    /// It is not due, as its deadline was moved.
    Stays(FromSlot<'w>),
    /// It is kept back, with all periodic timeouts.
    KeptBack(FromSlot<'w>),
}

/// The wheel's view of its entries, by their words.
#[derive(Debug)]
struct Entries {
    /// Periodic timeouts never come up again then, and tombstones do at the next rescan.
    is_draining: bool,
}

/// The same, but only a pending entry has a deadline.
struct Pending;

impl Items for Entries {
    type Item = Linked;

    #[inline]
    fn deadline(&self, entry: Linked) -> u64 {
        let seen = entry.entry().snapshot();
        match () {
            () if self.is_draining && seen.kind() == Kind::Series => NEVER,
            () if self.is_draining && seen.is_tombstone() => 0,
            () => as_tick(seen.deadline()),
        }
    }

    #[inline]
    fn placed(&mut self, entry: Linked, place: Place) {
        // SAFETY: the wheel has it in a cell.
        unsafe { entry.set_place(place) };
    }

    #[inline]
    fn prefetch(&self, entry: Linked) {
        prefetch(entry.address().as_ptr());
    }
}

impl Items for Pending {
    type Item = Linked;

    fn deadline(&self, entry: Linked) -> u64 {
        let seen = entry.entry().snapshot();
        if seen.is_pending() { as_tick(seen.deadline()) } else { NEVER }
    }

    fn placed(&mut self, _: Linked, _: Place) {
        unreachable!("who only looks moves nothing");
    }
}

#[inline]
fn as_tick(deadline: Subtick) -> u64 {
    if deadline == Subtick::NEVER { NEVER } else { deadline.get() }
}

impl Wheel {
    /// Returns a wheel with `lowest` slots in its lowest level, or `None` if there is no memory for
    /// its slots. The builder has checked the sizes.
    pub(crate) fn new(lowest: usize, slots: usize, levels: usize) -> Option<Self> {
        let mut slots = tourbillon_wheel::Wheel::with_memory(lowest, slots, levels).ok()?;
        // The spare block.
        slots.reserve(1).ok()?;
        Some(Self { slots, entries: Entries { is_draining: false }, has_kept_back: false, reserved: 0 })
    }

    /// Lets the parts of a cascade take a tenth of a tick at first. Moving 2,048 entries takes some
    /// 0.1 ms; in larger parts than those nothing is gained.
    pub(crate) fn spread_cascades(&mut self, tick: Duration) {
        let entries = tick.as_micros().saturating_mul(2_048) / 1_000;
        self.slots.set_cascade_quota(usize::try_from(entries).unwrap_or(usize::MAX).clamp(64, 2_048));
    }

    /// Returns how many entries are in the wheel.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns how many entries were moved to a lower level so far.
    pub(crate) fn cascaded(&self) -> u64 {
        self.slots.cascaded()
    }

    /// Returns how many entries came up so far before they were due, and were put back.
    pub(crate) fn put_off(&self) -> u64 {
        self.slots.put_off()
    }

    /// Allocates cells for so many entries, as they usually lie. Returns false if there is no
    /// memory for them.
    pub(crate) fn reserve(&mut self, entries: usize) -> bool {
        self.reserved = entries;
        self.slots.reserve(entries).is_ok()
    }

    /// Returns whether there is a cell for one more entry, and a [spare](Self::has_spare) block of
    /// cells besides. Allocates cells if need be.
    #[inline]
    pub(crate) fn has_room(&mut self) -> bool {
        self.slots.reserve(2 * ITEMS_A_BLOCK).is_ok()
    }

    /// Returns whether there is a block of cells that nobody uses.
    pub(crate) fn has_spare(&mut self) -> bool {
        self.slots.reserve(1).is_ok()
    }

    /// Puts an entry out of the inbox of this shard into the slot of its deadline, with which it
    /// calls `note` before. There [is room](Self::has_room) for it. Returns the entry if it was
    /// cancelled.
    #[inline(always)]
    pub(crate) fn insert(&mut self, entry: Owned, note: impl FnOnce(Subtick)) -> Result<(), Owned> {
        let (entry, deadline) = entry.link()?;
        note(deadline);
        let place = self.slots.insert_at(entry, as_tick(deadline)).expect("the caller has asked for room");
        self.entries.placed(entry, place);
        Ok(())
    }

    /// Moves an entry to the slot of its deadline of now. It is in the wheel.
    pub(crate) fn move_entry(&mut self, entry: Linked) {
        // SAFETY: it is in the wheel.
        let place = unsafe { entry.place() };
        let was_there = self.slots.reinsert(&mut self.entries, place, entry);
        debug_assert!(was_there, "a timeout that is pending, and linked, is in the wheel");
    }

    /// Takes a cancelled entry out of its slot, unless it has come up, and lets it go. Returns it
    /// if nobody else owns it.
    #[inline]
    pub(crate) fn remove(&mut self, entry: CancelledInSlot) -> Option<Sole> {
        let linked = entry.linked();
        // SAFETY: 1. It is in the wheel, or was, and is the worker's. 2. The wheel does not have it
        // any more. No `CameUp` is kept while the wheel goes on.
        unsafe {
            self.slots.remove(linked.place(), linked);
            entry.let_go()
        }
    }

    /// Gives the entries that have come up by `now` to `take`, each with the time by which it has
    /// to be due, as long as `may_take` says so. Lowers the budget by as many as have come up. See
    /// [`tourbillon_wheel::Wheel::expire_unseen`].
    #[inline(always)]
    pub(crate) fn expire(
        &mut self,
        now: Subtick,
        budget: &mut usize,
        mut may_take: impl FnMut() -> bool,
        mut take: impl for<'w> FnMut(CameUp<'w>, Subtick) -> Took<'w>,
    ) {
        self.slots.expire_unseen(&mut self.entries, now.get(), budget, |entries, entry, due_by| {
            if !may_take() {
                return tourbillon_wheel::Take::Stop;
            }
            // SAFETY: it has come out of its cell. It goes into one again only if `take` says that
            // this very entry stays, and `take` is good for any lifetime.
            let came_up = unsafe { entry.came_up() };
            let stays = match take(came_up, Subtick::new(due_by)) {
                Took::Taken => return tourbillon_wheel::Take::Taken,
                Took::Stays(stays) => stays,
                Took::KeptBack(stays) => {
                    entries.is_draining = true;
                    stays
                }
            };
            debug_assert!(entry.address() == stays.address(), "it goes back into its own wheel");
            tourbillon_wheel::Take::Later
        });
    }

    /// Moves a part of each cascade under way, once a tick. Called when nothing is due any more.
    pub(crate) fn cascade(&mut self, mut budget: usize) {
        self.slots.cascade(&mut self.entries, &mut budget);
    }

    /// Returns when the wheel has to be looked at next: [`Subtick::ZERO`] for at once, `None` for
    /// never.
    pub(crate) fn next_due(&mut self) -> Option<Subtick> {
        self.slots.next_wakeup(&self.entries).map(Subtick::new)
    }

    /// Returns the last subtick from `from` to `to` whose slot has an entry.
    pub(crate) fn last_due(&self, from: Subtick, to: Subtick) -> Option<Subtick> {
        self.slots.last_due(from.get()..=to.get()).map(Subtick::new)
    }

    /// Returns the earliest deadline that a pending entry has by its own word, or
    /// [`Subtick::NEVER`] if there is none.
    pub(crate) fn earliest(&self) -> Subtick {
        self.slots.earliest(&Pending).map_or(Subtick::NEVER, Subtick::new)
    }

    /// Keeps periodic timeouts back from now on: those in the wheel never come up again. A drain
    /// waits for none of them, nor for tombstones, which come up at once. Called after a turn in
    /// which nothing was left over. Returns false if there is nothing to do for it.
    #[cold]
    pub(crate) fn keep_series_back(&mut self) -> bool {
        // A tombstone that was left since then has the wheel turned at once, and does not come up.
        let is_done = std::mem::replace(&mut self.has_kept_back, true);
        if is_done && self.slots.next_wakeup(&self.entries) != Some(0) {
            return false;
        }
        self.entries.is_draining = true;
        self.slots.rescan();
        true
    }

    /// Gives the memory of unused cells back to the system, but for those that were reserved.
    #[cold]
    pub(crate) fn shrink(&mut self) {
        self.slots.shrink_to(&mut self.entries, self.reserved.max(1));
    }

    /// Returns how many bytes the cells take.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.slots.memory()
    }

    /// Gives all entries to `take`. With `by_deadline` in that order, and those that are never due
    /// last.
    ///
    /// # Safety
    /// The queues of the shard are closed, and were gone through.
    pub(crate) unsafe fn empty(&mut self, by_deadline: bool, mut take: impl FnMut(Owned)) {
        let mut each = |entry: Linked| {
            // SAFETY: `Owned::link` gave the engine's ownership up to the wheel. The wheel gives
            // the entry out, once, and has it in no cell any more. No queue brings it, by the
            // caller.
            take(unsafe { Owned::new(entry.address()) });
        };
        if by_deadline {
            // A turn may have left over some that are not the earliest.
            self.slots.rescan();
            self.slots.expire_unseen(&mut self.entries, NEVER - 1, &mut { usize::MAX }, |_, entry, _| {
                each(entry);
                tourbillon_wheel::Take::Taken
            });
        }
        self.slots.drain().for_each(each);
    }
}
