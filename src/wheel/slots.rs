//! The slots: lists of entries, first in, first out. An entry knows the one before it and the one
//! after it, so it can be unlinked without a search. At either end of a list it knows the slot, so
//! that the slot which it leaves empty is found.
//!
//! A slot is seven such lists, the *lanes*, filled in turn. Entries of a slot lie anywhere in
//! memory, and the address of the next entry is known only once the entry before it has been
//! loaded. So a single list is one cache miss after the other. Walking [`LANES`] lists in turn
//! keeps as many misses under way at a time, as the partitions of a hash join do (Chen, Ailamaki,
//! Gibbons and Mowry, "Improving Hash Join Performance through Prefetching", 2004).
//!
//! The entries of a slot are numbered, by lane and round. So the next entry is at the head of the
//! next lane, unless an entry in between has been unlinked. Then the heads of all lanes are looked
//! at. An entry keeps 16 bits of its round, above the address in its backward link. So the order
//! may be wrong where 65,536 entries in a row, all of one lane, were unlinked, and only there.

use std::cell::Cell;
use std::cmp::Reverse;
use std::ptr::{self, NonNull};

use crate::entry::{Entry, Link, Owned, entry_ref};
use crate::sync::prefetch;
use crate::sys::memory::Zeroed;
use crate::time::{Division, Subtick};

/// Lists of a slot. With what is beside them, their heads fill a cache line, and so do their tails.
const LANES: usize = 7;
const LAST_LANE: u16 = 6;
const _: () = assert!(LAST_LANE as usize == LANES - 1);

/// The bits of a link. Entries and slots begin at a cache line.
///
/// ```text
/// 16 bits: the entry's round, in a backward link | address | lane (3 bits) | END
/// ```
const ADDRESS: usize = ((1 << ROUND_SHIFT) - 1) & !63;
const ROUND_SHIFT: u32 = 48;
const LANE_SHIFT: u32 = 1;
/// Set if a link is at the end of a lane. Then it names the slot and the lane, and not an entry.
const END: usize = 1;

/// The number of an entry. They wrap around.
#[derive(Clone, Copy, Debug)]
struct Number {
    round: u16,
    lane: u16,
}

impl Number {
    fn next(self) -> Self {
        if self.lane == LAST_LANE {
            Self { round: self.round.wrapping_add(1), lane: 0 }
        } else {
            Self { lane: self.lane + 1, ..self }
        }
    }

    fn previous(self) -> Self {
        if self.lane == 0 {
            Self { round: self.round.wrapping_sub(1), lane: LAST_LANE }
        } else {
            Self { lane: self.lane - 1, ..self }
        }
    }

    fn lane(self) -> usize {
        debug_assert!(self.lane <= LAST_LANE);
        self.lane as usize
    }
}

/// The heads of the lanes are apart from their tails, because each is used without the other.
#[derive(Debug)]
#[repr(C, align(64))]
struct Slot {
    /// Null if the lane is empty.
    firsts: [Cell<Link>; LANES],
    /// The number of the next entry in front, if it was not unlinked.
    front: Cell<Number>,
    /// Null if the lane is empty.
    lasts: [Cell<Link>; LANES],
    /// The number of the next entry that is added at the back.
    back: Cell<Number>,
    /// The highest rank that was added since the slot was last empty, or moved away.
    highest: Cell<u16>,
}

const _: () = assert!(size_of::<Slot>() == 128, "a slot is two cache lines");

impl Slot {
    /// Returns what the links at both ends of a lane hold.
    fn end(&self, lane: usize) -> Link {
        ptr::from_ref(self).cast_mut().cast::<Entry>().map_addr(|addr| addr | lane << LANE_SHIFT | END)
    }

    fn is_empty(&self) -> bool {
        self.firsts.iter().all(|first| first.get().is_null())
    }

    /// Lets the numbers of an empty slot go on at the back. What was unlinked is no gap any more.
    fn renumber(&self) {
        self.front.set(self.back.get());
        self.highest.set(0);
    }

    fn clear_lane(&self, lane: usize) {
        self.firsts[lane].set(ptr::null_mut());
        self.lasts[lane].set(ptr::null_mut());
    }
}

fn is_end(link: Link) -> bool {
    link.addr() & END != 0
}

fn lane_of(end: Link) -> usize {
    (end.addr() >> LANE_SHIFT) % LANES.next_power_of_two()
}

/// Returns the round that an entry in a slot keeps.
#[inline]
fn round_of(this: &Entry) -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "16 bits are left")]
    let round = (this.back().addr() >> ROUND_SHIFT) as u16;
    round
}

/// Returns where an entry's backward link points.
#[inline]
fn before(this: &Entry) -> Link {
    this.back().map_addr(|addr| addr & ((1 << ROUND_SHIFT) - 1))
}

#[inline]
fn set_before(this: &Entry, before: Link, round: u16) {
    this.set_back(before.map_addr(|addr| addr | usize::from(round) << ROUND_SHIFT));
}

/// Returns an entry that is in a slot, or in a list that came out of one.
#[inline]
fn entry_at<'a>(entry: NonNull<Entry>) -> &'a Entry {
    // SAFETY: whoever put the entry into a slot gave its ownership to the array, and this file
    // follows the links of no other.
    unsafe { entry_ref(entry) }
}

/// Takes the ownership of an entry out of the array, which has just unlinked it.
#[inline]
fn unlinked(entry: NonNull<Entry>) -> Owned {
    // SAFETY: the array was given the ownership when the entry was put into a slot, and gives it
    // out once: a slot's links no longer lead to the entry.
    unsafe { Owned::new(entry) }
}

#[derive(Debug)]
pub(super) struct Slots {
    /// Not in a `Box`: entries hold addresses into it. Zeroed links are null.
    slots: Zeroed<Slot>,
}

impl Slots {
    /// Returns `None` if there is no memory for so many slots.
    pub(super) fn new(len: usize) -> Option<Self> {
        let slots = Zeroed::<Slot>::new(len)?;
        let end = slots.first().addr().get().checked_add(len * size_of::<Slot>())?;
        (end <= 1 << ROUND_SHIFT).then_some(Self { slots })
    }

    #[inline(always)]
    fn slot(&self, slot: usize) -> &Slot {
        debug_assert!(slot < self.slots.len());
        // SAFETY: every caller's slot is below `len`.
        let place = unsafe { self.slots.at(slot) };
        // SAFETY: the slot is within the array; only shared references are made to it, and it lives
        // as long as this array.
        unsafe { place.as_ref() }
    }

    /// Returns the slot whose lane [ends](Slot::end) here.
    fn slot_of(&self, end: Link) -> usize {
        ((end.addr() & ADDRESS) - self.slots.first().addr().get()) / size_of::<Slot>()
    }

    pub(super) fn is_empty(&self, slot: usize) -> bool {
        self.slot(slot).is_empty()
    }

    /// Returns the highest rank of what has been added to a slot since it was last empty.
    pub(super) fn highest(&self, slot: usize) -> u16 {
        self.slot(slot).highest.get()
    }

    /// Adds an entry behind all others of a slot. Returns true if the slot may have been empty.
    /// `rank` is for [`highest`](Self::highest).
    #[inline]
    pub(super) fn push_back(&self, slot: usize, entry: Owned, rank: u16) -> bool {
        let entry = entry.into_raw();
        let (this, slot) = (entry_at(entry), self.slot(slot));
        slot.highest.set(slot.highest.get().max(rank));
        let number = slot.back.get();
        slot.back.set(number.next());
        let lane = number.lane();
        let (last, end) = (slot.lasts[lane].replace(entry.as_ptr()), slot.end(lane));
        this.set_next(end);
        let before = match NonNull::new(last) {
            Some(before) => {
                entry_at(before).set_next(entry.as_ptr());
                last
            }
            None => {
                slot.firsts[lane].set(entry.as_ptr());
                end
            }
        };
        set_before(this, before, number.round);
        last.is_null()
    }

    /// Adds an entry in front of all others of a slot, which is sealed.
    pub(super) fn push_front(&self, slot: usize, entry: Owned, rank: u16) {
        let entry = entry.into_raw();
        let (this, slot) = (entry_at(entry), self.slot(slot));
        slot.highest.set(slot.highest.get().max(rank));
        let number = slot.front.get().previous();
        slot.front.set(number);
        let lane = number.lane();
        let (first, end) = (slot.firsts[lane].replace(entry.as_ptr()), slot.end(lane));
        set_before(this, end, number.round);
        let behind = match NonNull::new(first) {
            Some(behind) => {
                let behind = entry_at(behind);
                set_before(behind, entry.as_ptr(), round_of(behind));
                first
            }
            None => {
                slot.lasts[lane].set(entry.as_ptr());
                end
            }
        };
        this.set_next(behind);
    }

    /// Unlinks the first entry of a slot, and writes to no other entry. Such a write would wait for
    /// the other entry's cache line, and so would the caller's next read-modify-write. So the entry
    /// that is now the first of its lane does not know its place until the slot is
    /// [sealed](Self::seal), and must not be [unlinked](Self::unlink) before.
    #[inline(always)]
    pub(super) fn pop_front(&self, at: usize) -> Option<Owned> {
        let slot = self.slot(at);
        let number = slot.front.get();
        // SAFETY: a number's lane is always less than `LANES`.
        let first = unsafe { slot.firsts.get_unchecked(number.lane()) };
        if let Some(entry) = NonNull::new(first.get()) {
            let this = entry_at(entry);
            if round_of(this) == number.round {
                slot.front.set(number.next());
                let next = this.next();
                this.set_back(ptr::null_mut());
                if is_end(next) {
                    slot.clear_lane(number.lane());
                } else {
                    first.set(next);
                    prefetch(next);
                }
                return Some(unlinked(entry));
            }
        }
        self.pop_front_after_a_gap(at)
    }

    /// Like [`pop_front`](Self::pop_front), when the entry with the next number has been unlinked.
    #[inline(never)]
    fn pop_front_after_a_gap(&self, at: usize) -> Option<Owned> {
        let slot = self.slot(at);
        let front = slot.front.get();
        let number_of = |(lane, first): (u16, &Cell<Link>)| {
            let round = round_of(entry_at(NonNull::new(first.get())?));
            // The numbers before the one in front have been taken: those of its round in the lanes
            // before its own.
            let taken = u16::from(lane < front.lane);
            let earliest = front.round.wrapping_add(taken);
            Some((u32::from(taken) + u32::from(round.wrapping_sub(earliest)), lane))
        };
        let Some((rounds, lane)) = (0..).zip(&slot.firsts).filter_map(number_of).min() else {
            slot.renumber();
            return None;
        };
        #[expect(clippy::cast_possible_truncation, reason = "rounds wrap around")]
        slot.front.set(Number { round: front.round.wrapping_add(rounds as u16), lane });
        // Now its number is the next one.
        self.pop_front(at)
    }

    /// Unlinks the last entry of a slot, and writes to no other entry, as
    /// [`pop_front`](Self::pop_front) does. Until the slot is [sealed](Self::seal) only this may be
    /// called again.
    #[inline(always)]
    pub(super) fn pop_back(&self, at: usize) -> Option<Owned> {
        let slot = self.slot(at);
        let number = slot.back.get().previous();
        // SAFETY: a number's lane is always less than `LANES`.
        let last = unsafe { slot.lasts.get_unchecked(number.lane()) };
        if let Some(entry) = NonNull::new(last.get()) {
            let this = entry_at(entry);
            if round_of(this) == number.round {
                slot.back.set(number);
                let before = before(this);
                this.set_back(ptr::null_mut());
                if is_end(before) {
                    slot.clear_lane(number.lane());
                } else {
                    last.set(before);
                    prefetch(before);
                }
                return Some(unlinked(entry));
            }
        }
        self.pop_back_after_a_gap(at)
    }

    /// Like [`pop_back`](Self::pop_back), when the entry with that number has been unlinked.
    #[inline(never)]
    fn pop_back_after_a_gap(&self, at: usize) -> Option<Owned> {
        let slot = self.slot(at);
        let back = slot.back.get().previous();
        let number_of = |(lane, last): (u16, &Cell<Link>)| {
            let round = round_of(entry_at(NonNull::new(last.get())?));
            let taken = u16::from(lane > back.lane);
            let latest = back.round.wrapping_sub(taken);
            Some((u32::from(taken) + u32::from(latest.wrapping_sub(round)), Reverse(lane)))
        };
        let Some((rounds, Reverse(lane))) = (0..).zip(&slot.lasts).filter_map(number_of).min() else {
            slot.renumber();
            return None;
        };
        #[expect(clippy::cast_possible_truncation, reason = "rounds wrap around")]
        slot.back.set(Number { round: back.round.wrapping_sub(rounds as u16), lane }.next());
        // Now its number is the one before.
        self.pop_back(at)
    }

    /// Tells the first and the last entry of each lane where they are linked.
    pub(super) fn seal(&self, slot: usize) {
        let slot = self.slot(slot);
        for lane in 0..LANES {
            let ends = [&slot.firsts, &slot.lasts].map(|links| NonNull::new(links[lane].get()));
            let [Some(first), Some(last)] = ends.map(|entry| entry.map(entry_at)) else { continue };
            set_before(first, slot.end(lane), round_of(first));
            last.set_next(slot.end(lane));
        }
    }

    /// Returns the earliest deadline of the pending entries in a slot, by their own words, or
    /// [`Subtick::NEVER`] if there are none.
    pub(super) fn earliest_in(&self, slot: usize) -> Subtick {
        let named_by = |link: Link| NonNull::new(link).filter(|_| !is_end(link)).map(entry_at);
        let lanes = self.slot(slot).firsts.iter();
        let entries =
            lanes.flat_map(|first| std::iter::successors(named_by(first.get()), |entry| named_by(entry.next())));
        let states = entries.map(|entry| &entry.state);
        states.filter(|state| state.is_pending()).map(|state| state.deadline()).min().unwrap_or(Subtick::NEVER)
    }

    /// Moves all entries of a slot to an empty one, in their order.
    pub(super) fn move_slot(&self, from: usize, to: usize) {
        debug_assert!(self.is_empty(to));
        let (source, target) = (self.slot(from), self.slot(to));
        for lane in 0..LANES {
            target.firsts[lane].set(source.firsts[lane].get());
            target.lasts[lane].set(source.lasts[lane].get());
            source.clear_lane(lane);
        }
        target.front.set(source.front.get());
        target.back.set(source.back.get());
        source.renumber();
        self.seal(to);
    }

    /// Unlinks an entry from its slot. Returns that slot if it is empty now.
    ///
    /// # Safety
    /// The entry is in a slot of this array, which is sealed.
    #[inline]
    pub(super) unsafe fn unlink(&self, this: &Entry) -> Option<usize> {
        let (before, next) = (before(this), this.next());
        debug_assert!(!before.is_null(), "in no slot");
        this.set_back(ptr::null_mut());
        if is_end(before) {
            let (at, lane) = (self.slot_of(before), lane_of(before));
            let slot = self.slot(at);
            debug_assert!(ptr::eq(slot.firsts[lane].get(), this), "the slot was not sealed");
            if is_end(next) {
                slot.clear_lane(lane);
                if slot.is_empty() {
                    slot.renumber();
                    return Some(at);
                }
                return None;
            }
            slot.firsts[lane].set(next);
        } else {
            named(before).set_next(next);
            if is_end(next) {
                self.slot(self.slot_of(next)).lasts[lane_of(next)].set(before);
                return None;
            }
        }
        let behind = named(next);
        set_before(behind, before, round_of(behind));
        None
    }

    /// Sorts a slot by its entries' ticks. Those of one tick stay in their order. A merge sort
    /// needs no memory. Deadlines that change meanwhile make the order wrong, and nothing else.
    #[cold]
    pub(super) fn sort(&self, slot: usize, division: Division) {
        // Sorted lists, each of twice as many entries as the one before, or empty. What is in a
        // longer list was in front of what is in a shorter one.
        let mut lists: [Link; usize::BITS as usize] = [ptr::null_mut(); usize::BITS as usize];
        while let Some(entry) = self.pop_front(slot) {
            entry.set_next(ptr::null_mut());
            let mut list = entry.into_raw().as_ptr();
            for before in &mut lists {
                if before.is_null() {
                    *before = list;
                    break;
                }
                list = merge(std::mem::replace(before, ptr::null_mut()), list, division);
            }
        }
        let sorted = lists.into_iter().fold(ptr::null_mut(), |behind, list| merge(list, behind, division));
        let mut rest = sorted;
        while let Some(entry) = NonNull::new(rest) {
            rest = entry_at(entry).next();
            self.push_back(slot, unlinked(entry), 0);
        }
    }
}

/// Returns the entry that a link names which is no end.
#[inline]
fn named<'a>(link: Link) -> &'a Entry {
    // SAFETY: in a sealed slot a link that is no end names the entry beside this one.
    entry_at(unsafe { NonNull::new_unchecked(link) })
}

/// Merges two lists that are sorted by ticks. Of two entries of one tick, that of `front` goes
/// first. Both are lists by `next`, which end with null, of entries that have come out of a slot.
fn merge(mut front: Link, mut behind: Link, division: Division) -> Link {
    let tick_of = |entry: &Entry| division.tick_of(entry.state.deadline());
    let mut merged: Link = ptr::null_mut();
    let mut last: Option<&Entry> = None;
    loop {
        let heads = [front, behind].map(|link| NonNull::new(link).map(entry_at));
        let mut append = |link: Link| match last {
            Some(last) => last.set_next(link),
            None => merged = link,
        };
        let [Some(in_front), Some(at_back)] = heads else {
            append(if front.is_null() { behind } else { front });
            return merged;
        };
        if tick_of(at_back) < tick_of(in_front) {
            append(behind);
            (behind, last) = (at_back.next(), Some(at_back));
        } else {
            append(front);
            (front, last) = (in_front.next(), Some(in_front));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Does any operations on one slot, and compares with a queue. The slot is moved now and then,
    /// and its numbers begin at `first`.
    fn compare_with_a_queue(first: Number, operations: usize) {
        let entries: Vec<_> = (0..100).map(|_| NonNull::from(Box::leak(Box::new(Entry::new_free())))).collect();
        let slots = Slots::new(2).expect("memory");
        let (mut queue, mut free, mut slot) = (VecDeque::new(), entries.clone(), 0);
        slots.slot(0).front.set(first);
        slots.slot(0).back.set(first);
        let mut random = 0x9E37_79B9_7F4A_7C15_u64 | u64::from(first.round);
        let mut below = |bound: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random >> 33).expect("31 bits") % bound
        };
        for _ in 0..operations {
            match below(9) {
                0..3 => {
                    for _ in 0..below(20) {
                        let Some(entry) = free.pop() else { break };
                        let may_have_been_empty = slots.push_back(slot, unlinked(entry), 0);
                        assert!(may_have_been_empty || !queue.is_empty());
                        queue.push_back(entry);
                    }
                }
                3 => {
                    let Some(entry) = free.pop() else { continue };
                    slots.push_front(slot, unlinked(entry), 0);
                    queue.push_front(entry);
                }
                4 => {
                    for _ in 0..below(30).min(queue.len()) {
                        let entry = queue.remove(below(queue.len())).expect("in the queue");
                        // SAFETY: it is in the slot, which is sealed.
                        let emptied = unsafe { slots.unlink(entry_at(entry)) };
                        assert_eq!(emptied, queue.is_empty().then_some(slot));
                        free.push(entry);
                    }
                }
                5 | 6 => {
                    for _ in 0..below(10) {
                        let taken = slots.pop_front(slot).map(Owned::into_raw);
                        assert_eq!(taken, queue.pop_front());
                        free.extend(taken);
                    }
                    slots.seal(slot);
                }
                7 => {
                    for _ in 0..below(10) {
                        let taken = slots.pop_back(slot).map(Owned::into_raw);
                        assert_eq!(taken, queue.pop_back());
                        free.extend(taken);
                    }
                    slots.seal(slot);
                }
                _ => {
                    slots.move_slot(slot, 1 - slot);
                    assert!(slots.is_empty(slot));
                    slot = 1 - slot;
                }
            }
            assert_eq!(slots.is_empty(slot), queue.is_empty());
        }
        // SAFETY: each is from a box, and the slots are not used any more.
        entries.into_iter().for_each(|entry| drop(unsafe { Box::from_raw(entry.as_ptr()) }));
    }

    #[test]
    fn a_slot_is_a_queue_from_which_anything_can_be_unlinked() {
        // Also where the numbers wrap around, and where their rounds do.
        let operations = if cfg!(miri) { 200 } else { 20_000 };
        for (round, lane) in [(0, 0), (0, 3), (u16::MAX - 9, 1), (u16::MAX - 9, 6)] {
            compare_with_a_queue(Number { round, lane }, operations);
        }
    }

    /// A slot is used again in each revolution, and its numbers go on.
    #[test]
    #[cfg_attr(miri, ignore = "a million entries, without which there is nothing to see")]
    fn a_slot_that_is_used_again_and_again_keeps_the_order() {
        let entries: Vec<_> = (0..20).map(|_| NonNull::from(Box::leak(Box::new(Entry::new_free())))).collect();
        let slots = Slots::new(2).expect("memory");
        for round in 0..100_000 {
            for &entry in &entries {
                slots.push_back(0, unlinked(entry), 0);
            }
            // In some rounds the last ones are cancelled.
            let left = if round % 2 == 0 { 20 } else { 9 };
            for &entry in &entries[left..] {
                // SAFETY: it is in the slot, which is sealed.
                unsafe { slots.unlink(entry_at(entry)) };
            }
            slots.move_slot(0, 1);
            let taken: Vec<_> = std::iter::from_fn(|| slots.pop_front(1)).map(Owned::into_raw).collect();
            assert_eq!(taken, entries[..left], "round {round}");
        }
        // SAFETY: each is from a box, and the slots are not used any more.
        entries.into_iter().for_each(|entry| drop(unsafe { Box::from_raw(entry.as_ptr()) }));
    }
}
