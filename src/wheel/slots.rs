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

mod open;

use std::cell::Cell;
use std::cmp::Reverse;
use std::iter;

pub(super) use open::{HasSlots, Open, OpenDue};

use super::lanes::{LANES, Number};
use crate::entry::{LaneEnd, Linkable, Linked, Neighbour, fits_links};
use crate::sys::memory::Zeroed;
use crate::time::{Division, Subtick};

/// The heads of the lanes are apart from their tails, because each is used without the other.
#[derive(Debug)]
#[repr(C, align(64))]
struct Slot {
    firsts: [Cell<Option<Linked>>; LANES],
    /// The number of the next entry in front, if it was not unlinked.
    front: Cell<Number>,
    lasts: [Cell<Option<Linked>>; LANES],
    /// The number of the next entry that is added at the back.
    back: Cell<Number>,
    /// The highest rank that was added since the slot was last empty, or moved away.
    highest: Cell<u16>,
}

const _: () = assert!(size_of::<Slot>() == 128, "a slot is two cache lines");

impl Slot {
    /// Returns what the links at both ends of a lane hold.
    fn end(&self, lane: usize) -> Neighbour {
        Neighbour::End(LaneEnd::new(self, lane))
    }

    fn is_empty(&self) -> bool {
        self.firsts.iter().all(|first| first.get().is_none())
    }

    /// Lets the numbers of an empty slot go on at the back. What was unlinked is no gap any more.
    fn renumber(&self) {
        self.front.set(self.back.get());
        self.highest.set(0);
    }

    fn clear_lane(&self, lane: usize) {
        self.firsts[lane].set(None);
        self.lasts[lane].set(None);
    }
}

/// Where a slot is in its wheel's array: below its length. Only [`Slots::new`] and the functions of
/// [`Ring`] and [`Slots`] make one, and a wheel has one array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotIndex(usize);

impl SlotIndex {
    /// The list of what is due. The first one, so that its place is a constant for each timeout
    /// that expires.
    pub(super) const DUE: Self = Self(0);
}

/// The slots of a level: as many as a power of two, one behind the other.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    base: usize,
    len: usize,
}

impl Ring {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns which of its slots a block goes into.
    #[inline]
    pub(super) fn position(&self, block: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "masked to less than the ring's length")]
        let position = (block & (self.len as u64 - 1)) as usize;
        position
    }

    #[inline]
    pub(super) fn slot(&self, block: u64) -> SlotIndex {
        SlotIndex(self.base + self.position(block))
    }

    pub(super) fn contains(&self, slot: SlotIndex) -> bool {
        (self.base..self.base + self.len).contains(&slot.0)
    }

    /// Returns which of its slots this is.
    #[inline]
    pub(super) fn position_of(&self, slot: SlotIndex) -> usize {
        debug_assert!(self.contains(slot));
        slot.0 - self.base
    }
}

/// Where everything is in an array of slots.
pub(super) struct Layout {
    /// The finest level first.
    pub(super) rings: Vec<Ring>,
    pub(super) never: SlotIndex,
    /// One for each level but the finest.
    pub(super) cascades: Vec<SlotIndex>,
    pub(super) late: SlotIndex,
}

#[derive(Debug)]
pub(super) struct Slots {
    /// Not in a `Box`: entries hold addresses into it. Zeroed lanes are empty.
    slots: Zeroed<Slot>,
    /// How many lists there are. As many others, behind them, are for what is set aside.
    lists: usize,
}

impl Slots {
    /// Makes the slots of a wheel with at least one level, whose rings are of this length. Returns
    /// `None` if there is no memory for so many.
    pub(super) fn new(levels: usize, ring: usize) -> Option<(Self, Layout)> {
        assert!(levels >= 1 && ring.is_power_of_two(), "{levels} levels of {ring} slots");
        let mut lists = SlotIndex::DUE.0 + 1;
        let rings = (0..levels).map(|_| {
            let base = lists;
            lists = lists.checked_add(ring)?;
            Some(Ring { base, len: ring })
        });
        let rings = rings.collect::<Option<_>>()?;
        let mut list = || {
            lists += 1;
            SlotIndex(lists - 1)
        };
        let (never, cascades) = (list(), (1..levels).map(|_| list()).collect());
        let layout = Layout { rings, never, cascades, late: list() };
        let slots = Zeroed::<Slot>::new(lists.checked_mul(2)?)?;
        let fits = fits_links(slots.first().cast(), slots.len() * size_of::<Slot>());
        fits.then_some((Self { slots, lists }, layout))
    }

    /// Returns how many lists there are, without those for what is set aside.
    pub(super) fn lists(&self) -> usize {
        self.lists
    }

    /// Returns one of the lists for what is set aside.
    pub(super) fn aside(&self, index: usize) -> SlotIndex {
        assert!(index < self.lists, "as many lists are set aside as there are");
        SlotIndex(self.lists + index)
    }

    #[inline(always)]
    fn slot(&self, at: SlotIndex) -> &Slot {
        debug_assert!(at.0 < self.slots.len());
        // SAFETY: 1. `new` makes every index, or `aside`, `all`, `slot_of`, or a ring that `new`
        // made: all are less than the length. 2. Only shared references are made to the slots,
        // which live as long as this array, and zeroed memory is an empty slot.
        unsafe { self.slots.at(at.0).as_ref() }
    }

    /// Returns the slot whose lane ends here.
    fn slot_of(&self, end: LaneEnd) -> SlotIndex {
        SlotIndex((end.slot_address() - self.slots.first().addr().get()) / size_of::<Slot>())
    }

    pub(super) fn is_empty(&self, at: SlotIndex) -> bool {
        self.slot(at).is_empty()
    }

    /// Returns the highest rank of what has been added to a slot since it was last empty.
    pub(super) fn highest(&self, at: SlotIndex) -> u16 {
        self.slot(at).highest.get()
    }

    /// Adds an entry behind all others of a slot. Returns true if the slot may have been empty.
    /// `rank` is for [`highest`](Self::highest).
    #[inline]
    pub(super) fn push_back(&self, at: SlotIndex, entry: Linkable, rank: u16) -> bool {
        let slot = self.slot(at);
        slot.highest.set(slot.highest.get().max(rank));
        let number = slot.back.get();
        slot.back.set(number.next());
        let (last, end) = (number.of(&slot.lasts), slot.end(usize::from(number.lane())));
        let before = last.get();
        let entry = Linked::new(entry, before.map_or(end, Neighbour::Entry), number.round(), end);
        last.set(Some(entry));
        match before {
            Some(before) => before.set_behind(Neighbour::Entry(entry)),
            None => number.of(&slot.firsts).set(Some(entry)),
        }
        before.is_none()
    }

    /// Adds an entry in front of all others of a slot.
    pub(super) fn push_front(&self, at: SlotIndex, entry: Linkable, rank: u16) {
        let slot = self.slot(at);
        slot.highest.set(slot.highest.get().max(rank));
        let number = slot.front.get().previous();
        slot.front.set(number);
        let (first, end) = (number.of(&slot.firsts), slot.end(usize::from(number.lane())));
        let behind = first.get();
        let entry = Linked::new(entry, end, number.round(), behind.map_or(end, Neighbour::Entry));
        first.set(Some(entry));
        match behind {
            Some(behind) => behind.set_before(Neighbour::Entry(entry)),
            None => number.of(&slot.lasts).set(Some(entry)),
        }
    }

    /// Unlinks the first entry of a slot, and writes to no other entry. Such a write would wait for
    /// the other entry's cache line, and so would the caller's next read-modify-write. So the entry
    /// that is now the first of its lane does not know its place until the slot is
    /// [sealed](Self::seal). Until then nothing is unlinked, or taken from the back. The types in
    /// [`open`] see to that.
    #[inline(always)]
    fn pop_front(&self, at: SlotIndex) -> Option<Linkable> {
        let slot = self.slot(at);
        let number = slot.front.get();
        let first = number.of(&slot.firsts);
        if let Some(entry) = first.get()
            && entry.round() == number.round()
        {
            slot.front.set(number.next());
            match entry.behind() {
                Neighbour::End(_) => slot.clear_lane(usize::from(number.lane())),
                Neighbour::Entry(next) => {
                    first.set(Some(next));
                    next.prefetch();
                }
            }
            return Some(unlinked(entry));
        }
        self.pop_front_after_a_gap(at)
    }

    /// Like [`pop_front`](Self::pop_front), when the entry with the next number has been unlinked.
    #[inline(never)]
    fn pop_front_after_a_gap(&self, at: SlotIndex) -> Option<Linkable> {
        let slot = self.slot(at);
        let front = slot.front.get();
        let number_of = |(lane, first): (u16, &Cell<Option<Linked>>)| {
            let round = first.get()?.round();
            // The numbers before the one in front have been taken: those of its round in the lanes
            // before its own.
            let taken = u16::from(lane < front.lane());
            let earliest = front.round().wrapping_add(taken);
            Some((u32::from(taken) + u32::from(round.wrapping_sub(earliest)), lane))
        };
        let Some((rounds, lane)) = (0..).zip(&slot.firsts).filter_map(number_of).min() else {
            slot.renumber();
            return None;
        };
        #[expect(clippy::cast_possible_truncation, reason = "rounds wrap around")]
        slot.front.set(Number::new(front.round().wrapping_add(rounds as u16), lane));
        // Now its number is the next one.
        self.pop_front(at)
    }

    /// Unlinks the last entry of a slot, and writes to no other entry, as
    /// [`pop_front`](Self::pop_front) does. Until the slot is [sealed](Self::seal) its forward
    /// links are not followed.
    #[inline(always)]
    fn pop_back(&self, at: SlotIndex) -> Option<Linkable> {
        let slot = self.slot(at);
        let number = slot.back.get().previous();
        let last = number.of(&slot.lasts);
        if let Some(entry) = last.get()
            && entry.round() == number.round()
        {
            slot.back.set(number);
            match entry.before() {
                Neighbour::End(_) => slot.clear_lane(usize::from(number.lane())),
                Neighbour::Entry(before) => {
                    last.set(Some(before));
                    before.prefetch();
                }
            }
            return Some(unlinked(entry));
        }
        self.pop_back_after_a_gap(at)
    }

    /// Like [`pop_back`](Self::pop_back), when the entry with that number has been unlinked.
    #[inline(never)]
    fn pop_back_after_a_gap(&self, at: SlotIndex) -> Option<Linkable> {
        let slot = self.slot(at);
        let back = slot.back.get().previous();
        let number_of = |(lane, last): (u16, &Cell<Option<Linked>>)| {
            let round = last.get()?.round();
            let taken = u16::from(lane > back.lane());
            let latest = back.round().wrapping_sub(taken);
            Some((u32::from(taken) + u32::from(latest.wrapping_sub(round)), Reverse(lane)))
        };
        let Some((rounds, Reverse(lane))) = (0..).zip(&slot.lasts).filter_map(number_of).min() else {
            slot.renumber();
            return None;
        };
        #[expect(clippy::cast_possible_truncation, reason = "rounds wrap around")]
        slot.back.set(Number::new(back.round().wrapping_sub(rounds as u16), lane).next());
        // Now its number is the one before.
        self.pop_back(at)
    }

    /// Tells the first and the last entry of each lane where they are linked.
    fn seal(&self, at: SlotIndex) {
        let slot = self.slot(at);
        for lane in 0..LANES {
            let (Some(first), Some(last)) = (slot.firsts[lane].get(), slot.lasts[lane].get()) else { continue };
            first.set_before(slot.end(lane));
            last.set_behind(slot.end(lane));
        }
    }

    /// Returns the entries of a slot that is sealed, lane by lane.
    fn entries(&self, at: SlotIndex) -> impl Iterator<Item = Linked> {
        let behind = |entry: &Linked| match entry.behind() {
            Neighbour::Entry(behind) => Some(behind),
            Neighbour::End(_) => None,
        };
        self.slot(at).firsts.iter().flat_map(move |first| iter::successors(first.get(), behind))
    }

    /// Returns the earliest deadline of the pending entries in a slot, by their own words, or
    /// [`Subtick::NEVER`] if there are none.
    pub(super) fn earliest_in(&self, at: SlotIndex) -> Subtick {
        let pending = self.entries(at).filter(|entry| entry.is_pending());
        pending.map(Linked::deadline).min().unwrap_or(Subtick::NEVER)
    }

    /// Moves all entries of a slot to an empty one, in their order.
    pub(super) fn move_slot(&self, from: SlotIndex, to: SlotIndex) {
        let (source, target) = (self.slot(from), self.slot(to));
        assert!(target.is_empty(), "entries would be lost");
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

    /// Unlinks an entry from its slot, for the queue that names it. Returns that slot if it is
    /// empty now.
    ///
    /// # Safety
    /// The entry is in a slot of this array, which is sealed.
    #[inline]
    pub(super) unsafe fn unlink(&self, this: Linked) -> Option<SlotIndex> {
        let (before, behind) = (this.before(), this.behind());
        // The caller names it as it was queued.
        let _ = unlinked(this);
        match (before, behind) {
            (Neighbour::Entry(first), Neighbour::Entry(last)) => {
                first.set_behind(behind);
                last.set_before(before);
            }
            (Neighbour::Entry(last), Neighbour::End(end)) => {
                last.set_behind(behind);
                self.slot(self.slot_of(end)).lasts[end.lane()].set(Some(last));
            }
            (Neighbour::End(end), _) => {
                let (at, lane) = (self.slot_of(end), end.lane());
                let slot = self.slot(at);
                debug_assert_eq!(slot.firsts[lane].get(), Some(this), "the slot was not sealed");
                if let Neighbour::Entry(first) = behind {
                    slot.firsts[lane].set(Some(first));
                    first.set_before(before);
                    return None;
                }
                slot.clear_lane(lane);
                if slot.is_empty() {
                    slot.renumber();
                    return Some(at);
                }
            }
        }
        None
    }

    /// Sorts a slot by its entries' ticks. Those of one tick stay in their order. A merge sort
    /// needs no memory. Deadlines that change meanwhile make the order wrong, and nothing else.
    #[cold]
    pub(super) fn sort(&self, at: SlotIndex, division: Division) {
        // What ends a list here. Any end does.
        let end = self.slot(at).end(0);
        // Sorted lists, each of twice as many entries as the one before, or none. What is in a
        // longer list was in front of what is in a shorter one.
        let mut lists = [None; usize::BITS as usize];
        while let Some(entry) = self.pop_front(at) {
            let mut list = Neighbour::Entry(Linked::new(entry, end, 0, end));
            for place in &mut lists {
                let Some(before) = place.take() else {
                    *place = Some(list);
                    break;
                };
                list = merge(before, list, division);
            }
        }
        let mut rest = lists.into_iter().flatten().fold(end, |behind, list| merge(list, behind, division));
        while let Neighbour::Entry(entry) = rest {
            rest = entry.behind();
            self.push_back(at, unlinked(entry), 0);
        }
    }

    /// Returns the addresses of a slot's entries, for the checks of a debug build.
    pub(super) fn addresses(&self, at: SlotIndex) -> impl Iterator<Item = usize> {
        self.entries(at).map(Linked::address)
    }

    /// Counts the entries of a slot, for the checks of a debug build. Panics if an entry's links
    /// are not those of its place.
    pub(super) fn count(&self, at: SlotIndex) -> usize {
        let slot = self.slot(at);
        let is = |neighbour: Neighbour, expected: Neighbour| match (neighbour, expected) {
            (Neighbour::Entry(entry), Neighbour::Entry(expected)) => entry == expected,
            (Neighbour::End(end), Neighbour::End(_)) => self.slot_of(end) == at,
            _ => false,
        };
        (0..LANES)
            .map(|lane| {
                let (mut before, mut count) = (slot.end(lane), 0);
                let mut next = slot.firsts[lane].get().map_or(slot.end(lane), Neighbour::Entry);
                while let Neighbour::Entry(entry) = next {
                    assert!(is(entry.before(), before), "an entry does not know what is before it");
                    (before, next, count) = (next, entry.behind(), count + 1);
                }
                let last = slot.lasts[lane].get().map_or(slot.end(lane), Neighbour::Entry);
                assert!(is(last, before) && is(next, slot.end(lane)), "a lane does not end with its last entry");
                count
            })
            .sum()
    }

    /// Returns all slots, for the checks of a debug build.
    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = SlotIndex> + use<> {
        (0..self.slots.len()).map(SlotIndex)
    }
}

/// Takes the ownership of an entry out of the array, which has just unlinked it.
#[inline]
fn unlinked(entry: Linked) -> Linkable {
    // SAFETY: the callers write all links of the array that lead to the entry, at once or, after a
    // pop, when the slot is sealed. Nobody follows such a link before.
    unsafe { entry.into_linkable() }
}

/// Merges two lists that are sorted by ticks. Of two entries of one tick, that of `front` goes
/// first. Both are lists of entries that have come out of a slot.
fn merge(mut front: Neighbour, mut behind: Neighbour, division: Division) -> Neighbour {
    let tick_of = |entry: Linked| division.tick_of(entry.deadline());
    let (mut merged, mut last) = (front, None::<Linked>);
    loop {
        let mut append = |next: Neighbour| match last {
            Some(last) => last.set_behind(next),
            None => merged = next,
        };
        match (front, behind) {
            (Neighbour::Entry(in_front), Neighbour::Entry(at_back)) => {
                if tick_of(at_back) < tick_of(in_front) {
                    append(behind);
                    (behind, last) = (at_back.behind(), Some(at_back));
                } else {
                    append(front);
                    (front, last) = (in_front.behind(), Some(in_front));
                }
            }
            (rest, Neighbour::End(_)) | (Neighbour::End(_), rest) => {
                append(rest);
                return merged;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;
    use std::ptr::NonNull;

    use super::*;
    use crate::entry::Entry;
    use crate::entry::{MaybeLinked, Token};

    fn entries(len: usize) -> Vec<NonNull<Entry>> {
        (0..len).map(|_| NonNull::from(Box::leak(Box::new(Entry::new_free())))).collect()
    }

    /// Frees entries, also when a test panics.
    struct Free(Vec<NonNull<Entry>>);

    impl Drop for Free {
        fn drop(&mut self) {
            // SAFETY: each is from a box, and the slots are not used any more.
            self.0.drain(..).for_each(|entry| drop(unsafe { Box::from_raw(entry.as_ptr()) }));
        }
    }

    fn owned(entry: NonNull<Entry>) -> Linkable {
        // SAFETY: the test's own, in no slot.
        unsafe { Linkable::from_raw(entry) }
    }

    fn unlink(slots: &Slots, entry: NonNull<Entry>) -> Option<SlotIndex> {
        // SAFETY: it is in a slot, which is sealed. The test is the queue that names it.
        unsafe { slots.unlink(Linked::of_queued(&MaybeLinked::new(entry)).expect("in a slot")) }
    }

    /// Does any operations on one slot, and compares with a queue. The slot is moved now and then,
    /// and its numbers begin at `first`.
    fn compare_with_a_queue(first: Number, operations: usize) {
        let entries = entries(100);
        let (slots, layout) = Slots::new(1, 1).expect("memory");
        let (mut queue, mut left, mut slot, mut other) = (VecDeque::new(), entries.clone(), layout.never, layout.late);
        slots.slot(slot).front.set(first);
        slots.slot(slot).back.set(first);
        let mut random = 0x9E37_79B9_7F4A_7C15_u64 | u64::from(first.round());
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
                        let Some(entry) = left.pop() else { break };
                        let may_have_been_empty = slots.push_back(slot, owned(entry), 0);
                        assert!(may_have_been_empty || !queue.is_empty());
                        queue.push_back(entry);
                    }
                }
                3 => {
                    let Some(entry) = left.pop() else { continue };
                    slots.push_front(slot, owned(entry), 0);
                    queue.push_front(entry);
                }
                4 => {
                    for _ in 0..below(30).min(queue.len()) {
                        let entry = queue.remove(below(queue.len())).expect("in the queue");
                        let emptied = unlink(&slots, entry);
                        assert_eq!(emptied, queue.is_empty().then_some(slot));
                        left.push(entry);
                    }
                }
                5 | 6 => {
                    for _ in 0..below(10) {
                        let taken = slots.pop_front(slot).map(Linkable::into_raw);
                        assert_eq!(taken, queue.pop_front());
                        left.extend(taken);
                    }
                    slots.seal(slot);
                }
                7 => {
                    for _ in 0..below(10) {
                        let taken = slots.pop_back(slot).map(Linkable::into_raw);
                        assert_eq!(taken, queue.pop_back());
                        left.extend(taken);
                    }
                    slots.seal(slot);
                }
                _ => {
                    slots.move_slot(slot, other);
                    assert!(slots.is_empty(slot));
                    (slot, other) = (other, slot);
                }
            }
            assert_eq!((slots.is_empty(slot), slots.count(slot)), (queue.is_empty(), queue.len()));
        }
        drop(Free(entries));
    }

    #[test]
    fn a_slot_is_a_queue_from_which_anything_can_be_unlinked() {
        // Also where the numbers wrap around, and where their rounds do.
        let operations = if cfg!(miri) { 200 } else { 20_000 };
        for (round, lane) in [(0, 0), (0, 3), (u16::MAX - 9, 1), (u16::MAX - 9, 6)] {
            compare_with_a_queue(Number::new(round, lane), operations);
        }
    }

    /// A slot is used again in each revolution, and its numbers go on.
    #[test]
    #[cfg_attr(miri, ignore = "a million entries, without which there is nothing to see")]
    fn a_slot_that_is_used_again_and_again_keeps_the_order() {
        let entries = entries(20);
        let (slots, layout) = Slots::new(1, 1).expect("memory");
        let (from, to) = (layout.never, layout.late);
        for round in 0..100_000 {
            for &entry in &entries {
                slots.push_back(from, owned(entry), 0);
            }
            // In some rounds the last ones are cancelled.
            let left = if round % 2 == 0 { 20 } else { 9 };
            for &entry in &entries[left..] {
                unlink(&slots, entry);
            }
            slots.move_slot(from, to);
            let taken: Vec<_> = std::iter::from_fn(|| slots.pop_front(to)).map(Linkable::into_raw).collect();
            assert_eq!(taken, entries[..left], "round {round}");
        }
        drop(Free(entries));
    }

    #[test]
    #[should_panic(expected = "what is before it")]
    fn an_entry_that_does_not_know_its_place_is_found() {
        let entries = entries(1);
        let _free = Free(entries.clone());
        let (slots, layout) = Slots::new(1, 1).expect("memory");
        slots.push_back(layout.never, owned(entries[0]), 0);
        assert_eq!(slots.count(layout.never), 1);
        let linked = slots.entries(layout.never).next().expect("it is there");
        linked.set_before(slots.slot(layout.late).end(0));
        slots.count(layout.never);
    }

    #[test]
    #[should_panic(expected = "entries would be lost")]
    fn a_slot_is_not_moved_to_one_with_entries() {
        let (slots, layout) = Slots::new(1, 1).expect("memory");
        let entries = entries(2);
        let _free = Free(entries.clone());
        entries.into_iter().for_each(|entry| _ = slots.push_back(layout.late, owned(entry), 0));
        slots.move_slot(layout.never, layout.late);
    }
}
