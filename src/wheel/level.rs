//! One level: a ring of slots, each `2^shift` ticks wide.

use super::occupancy::Occupancy;
use super::slots::{Ring, SlotIndex};

#[derive(Debug)]
pub(super) struct Level {
    /// log2 of a slot's width in ticks.
    shift: u32,
    /// How many ticks before a block begins its cascade starts: half a block, 0 on level 0.
    lead: u64,
    ring: Ring,
    /// All blocks before this one were opened by an event, which may be ahead of the cursor.
    opened: u64,
    /// The first tick that the ring does not reach, as of the last [`measure`](Self::measure).
    reach: u64,
    occupancy: Occupancy,
}

impl Level {
    pub(super) fn new(shift: u32, ring: Ring) -> Self {
        let lead = if shift == 0 { 0 } else { 1 << (shift - 1) };
        let occupancy = Occupancy::new(ring.len());
        Self { shift, lead, ring, opened: 0, reach: 0, occupancy }
    }

    /// Returns the block that a tick lies in. A block is a stretch of time as wide as a slot.
    pub(super) fn block_of(&self, tick: u64) -> u64 {
        tick >> self.shift
    }

    /// Returns the first tick of a block.
    pub(super) fn begins(&self, block: u64) -> u64 {
        block << self.shift
    }

    /// Returns when a block has to be looked at: when its cascade starts, or, on level 0, when it
    /// is due.
    pub(super) fn opens(&self, block: u64) -> u64 {
        self.begins(block) - self.lead
    }

    /// Returns the first block that is not opened once all ticks before `cursor` have been
    /// processed.
    #[inline]
    pub(super) fn first_unopened(&self, cursor: u64) -> u64 {
        let by_time = if self.lead == 0 { cursor } else { ((cursor + self.lead - 1) >> self.shift) + 1 };
        by_time.max(self.opened)
    }

    pub(super) fn open(&mut self, block: u64) {
        self.opened = block + 1;
    }

    pub(super) fn lead(&self) -> u64 {
        self.lead
    }

    /// Stores how far the ring reaches, from this cursor on.
    pub(super) fn measure(&mut self, cursor: u64) {
        let end = self.first_unopened(cursor).saturating_add(self.ring.len() as u64);
        self.reach = if end > u64::MAX >> self.shift { u64::MAX } else { end << self.shift };
    }

    /// Returns whether the ring reaches this tick. The level must have been
    /// [measured](Self::measure) since the cursor was moved or a block opened.
    #[inline]
    pub(super) fn reaches(&self, tick: u64) -> bool {
        tick < self.reach
    }

    /// Returns whether time has outrun the ring: a whole revolution or more lies between the cursor
    /// and `tick`, of which a part has come.
    pub(super) fn is_outrun(&self, cursor: u64, tick: u64) -> bool {
        self.block_of(tick).saturating_sub(self.first_unopened(cursor)) >= self.ring.len() as u64
    }

    /// Returns the slot of a block.
    pub(super) fn place(&self, block: u64) -> SlotIndex {
        self.ring.slot(block)
    }

    /// Returns the slot of the block that a tick lies in: `(tick >> shift) & mask`.
    pub(super) fn place_of_tick(&self, tick: u64) -> SlotIndex {
        self.place(self.block_of(tick))
    }

    pub(super) fn holds_place(&self, place: SlotIndex) -> bool {
        self.ring.contains(place)
    }

    pub(super) fn mark(&mut self, place: SlotIndex, occupied: bool) {
        let position = self.ring.position_of(place);
        if occupied { self.occupancy.set(position) } else { self.occupancy.clear(position) }
    }

    /// Returns which of its slots are marked, for the checks of a debug build.
    pub(super) fn marks(&self) -> impl Iterator<Item = (SlotIndex, bool)> {
        let mark = |position: usize| (self.place(position as u64), self.occupancy.is_set(position));
        (0..self.ring.len()).map(mark)
    }

    /// Returns the next block that is not opened yet and whose slot is occupied.
    pub(super) fn next_occupied(&self, cursor: u64) -> Option<u64> {
        let first = self.first_unopened(cursor);
        self.occupancy.distance_to_next(self.ring.position(first)).map(|distance| first + distance as u64)
    }

    /// Returns the occupied places in the order of their blocks, each with the tick at which its
    /// block begins. The entries may be due later than that.
    pub(super) fn occupied(&self, cursor: u64) -> impl Iterator<Item = (u64, SlotIndex)> {
        let mut next = self.first_unopened(cursor);
        let end = next + self.ring.len() as u64;
        std::iter::from_fn(move || {
            let block = next + self.occupancy.distance_to_next(self.ring.position(next))? as u64;
            next = block + 1;
            (block < end).then(|| (self.begins(block), self.place(block)))
        })
    }

    /// Returns the occupied places in the order of their blocks, and clears each as it is returned.
    pub(super) fn take_occupied(&mut self, cursor: u64) -> impl Iterator<Item = SlotIndex> {
        std::iter::from_fn(move || {
            let place = self.place(self.next_occupied(cursor)?);
            self.mark(place, false);
            Some(place)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::slots::Slots;
    use super::*;

    const RING: usize = 8;

    fn ring(len: usize) -> Ring {
        Slots::new(1, len).expect("memory").1.rings.remove(0)
    }

    #[test]
    fn a_ring_reaches_as_many_blocks_as_it_has_slots_and_not_one_more() {
        for shift in [0, 4] {
            let mut level = Level::new(shift, ring(RING));
            level.measure(0);
            // The lead is half a block: blocks that begin within it have been opened.
            let end = (level.first_unopened(0) + RING as u64) << shift;
            assert!(level.reaches(end - 1) && !level.reaches(end), "shift {shift}");
        }
    }

    #[test]
    fn a_ring_whose_reach_overflows_reaches_all_ticks_and_no_less() {
        // There are only sixteen blocks.
        let mut level = Level::new(60, ring(2 * RING));
        level.measure(0);
        assert!(level.reaches(u64::MAX - 1));
        let mut level = Level::new(60, ring(RING));
        level.opened = 7;
        level.measure(0);
        assert!(
            level.reaches((15 << 60) - 1) && !level.reaches(15 << 60),
            "the last block is not reached from the seventh"
        );
    }

    #[test]
    fn each_occupied_slot_is_named_once_in_the_order_of_the_blocks() {
        let mut level = Level::new(0, ring(RING));
        // The ring now begins at block 3, in slot 3.
        for slot in [3, 5, 1] {
            level.mark(level.place(slot), true);
        }
        let expected = [(3, 3), (5, 5), (9, 1)].map(|(block, slot)| (block, level.place(slot)));
        assert_eq!(level.occupied(3).collect::<Vec<_>>(), expected);
        assert_eq!(level.take_occupied(3).collect::<Vec<_>>(), expected.map(|(_, place)| place));
        assert_eq!(level.occupied(3).count(), 0);
    }
}
