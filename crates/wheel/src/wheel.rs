//! The wheel: which list an item goes to, and what a user may ask.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

use crate::block::{Block, Chunk, Memory};
use crate::items::{Items, NEVER, OutOfMemory, Place, WheelError, room_for};
use crate::level::{Level, Ring};
use crate::list::Lists;

/// How many bits of a tick the slots of all levels may count together.
pub const MAX_TICK_BITS: u32 = 59;

/// How many items a block usually has, of its 14 cells. [`Wheel::reserve`] counts on so many.
pub const ITEMS_A_BLOCK: usize = 10;

// Lists that are no slot's.
/// Items that were due when they were inserted, and all items if all are to be looked at. They are
/// sorted, and taken with those that come up next.
pub(crate) const LATE: u32 = 0;
/// Items that no time reaches.
pub(crate) const FAR: u32 = 1;
/// Items that are due, as if they were the cascade of level 0. The lists of the other levels'
/// cascades are behind it.
pub(crate) const DUE: u32 = 2;

/// A hierarchical timing wheel of items `T`, whose blocks are in memory `M`. See the
/// [crate](crate).
pub struct Wheel<T, M = Vec<Box<Chunk<T>>>> {
    pub(crate) lists: Lists<T, M>,
    pub(crate) levels: Box<[Level]>,
    /// The ring of the lowest level that is as wide as a distance from the cursor, by the logarithm
    /// of the distance; the last level's if none is. From any cursor a level reaches as far as its
    /// ring is wide, and a little farther.
    pub(crate) by_distance: [Ring; 64],
    pub(crate) cascade_quota: usize,
    /// All ticks before this one have been processed.
    pub(crate) cursor: u64,
    /// No span above level 0 is opened, and no cascade must be over, before this tick. So nearly
    /// all steps look at level 0 alone.
    pub(crate) quiet_until: u64,
    /// Whether the next `expire` looks at all items.
    pub(crate) rescans: bool,
    pub(crate) len: usize,
    pub(crate) cascaded: u64,
    pub(crate) put_off: u64,
}

impl<T: Copy + Eq> Wheel<T> {
    /// Returns an empty wheel of `levels` levels. Level 0 reaches at least `slots` ticks, and each
    /// other `slots` times as far as the one below. With one level it is a hashed wheel, as Netty
    /// has.
    ///
    /// The call allocates two lists of 8 bytes for each slot, of which each of several levels has
    /// twice `slots`. The blocks come later.
    ///
    /// # Errors
    /// If the sizes make no sense, or if there is no memory: see [`WheelError`].
    pub fn new(slots: usize, levels: usize) -> Result<Self, WheelError> {
        Self::with_lowest(slots, slots, levels)
    }

    /// Returns an empty wheel whose level 0 has `lowest` slots in place of `slots`: for fine ticks,
    /// most of whose items are inserted into level 0 all the same.
    ///
    /// # Errors
    /// The same as [`new`](Self::new).
    pub fn with_lowest(lowest: usize, slots: usize, levels: usize) -> Result<Self, WheelError> {
        Self::with_memory(lowest, slots, levels)
    }
}

impl<T: Copy + Eq, M: Memory<T>> Wheel<T, M> {
    /// As [`with_lowest`](Wheel::with_lowest), with blocks in memory of type `M`.
    ///
    /// # Errors
    /// The same as [`new`](Wheel::new).
    pub fn with_memory(lowest: usize, slots: usize, levels: usize) -> Result<Self, WheelError> {
        let is_wrong = |slots: &usize| !slots.is_power_of_two() || (*slots == 1 && levels > 1);
        if let Some(wrong) = [lowest, slots].into_iter().find(is_wrong) {
            return Err(WheelError::Slots(wrong));
        }
        let above = u32::try_from(levels.saturating_sub(1)).unwrap_or(u32::MAX);
        let bits = above.saturating_mul(slots.ilog2()).saturating_add(lowest.ilog2());
        if levels == 0 || bits > MAX_TICK_BITS {
            return Err(WheelError::Levels(levels, slots));
        }
        Self::allocate(lowest, slots, levels).map_err(|OutOfMemory| WheelError::OutOfMemory)
    }

    /// Sets how many items a cascade moves in its first ticks: 2,048 unless it is set. The number
    /// doubles with each eighth of the time that the cascade has, so that a slot of any size is
    /// empty before it is due. Fewer keep a turn short, which matters with short ticks. More cost
    /// less in all, as items for one slot are moved together.
    pub fn set_cascade_quota(&mut self, items: usize) {
        // Eight times doubled, it must fit.
        self.cascade_quota = items.clamp(1, usize::MAX >> 8);
    }

    fn allocate(lowest: usize, slots: usize, levels: usize) -> Result<Self, OutOfMemory> {
        // Twice the slots, so that a cascade can be spread over many ticks: see the crate's page.
        let twice = |slots: usize| if levels == 1 { slots } else { slots.saturating_mul(2) };
        let (lowest, slots) = (twice(lowest), twice(slots));
        let outside = cascade_list(levels) as usize;
        let count = slots.saturating_mul(levels - 1).saturating_add(lowest);
        // A count that saturates is far too many.
        let lists = Lists::new(count.saturating_mul(2).saturating_add(outside))?;
        let mut built = room_for(levels)?;
        let (mut first, mut shift) = (outside, 0);
        for level in 0..levels {
            let slots = if level == 0 { lowest } else { slots };
            built.push(Level::new(Ring::new(shift, slots, first))?);
            // A slot of the next level is half of this ring wide.
            (first, shift) = (first + 2 * slots, shift + slots.ilog2().saturating_sub(1));
        }
        let levels = built.into_boxed_slice();
        let by_distance = core::array::from_fn(|bit| {
            let reaches = |level: &&Level| level.ring.bits() as usize > bit;
            levels.iter().find(reaches).unwrap_or(&levels[levels.len() - 1]).ring
        });
        Ok(Self {
            lists,
            levels,
            by_distance,
            cascade_quota: 2_048,
            cursor: 0,
            quiet_until: 0,
            rescans: false,
            len: 0,
            cascaded: 0,
            put_off: 0,
        })
    }

    /// Returns how many items are in the wheel.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no item is in the wheel.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns how many items cascades have moved to a lower level so far.
    #[must_use]
    pub fn cascaded(&self) -> u64 {
        self.cascaded
    }

    /// Returns how many items were put back so far, because their slots came up before their
    /// deadlines: those were moved, or wait for another round.
    #[must_use]
    pub fn put_off(&self) -> u64 {
        self.put_off
    }

    /// Returns how many bytes the blocks take, those that no item uses included. These may go back
    /// to the system by [`shrink_to`](Self::shrink_to).
    #[must_use]
    pub fn memory(&self) -> usize {
        self.lists.blocks.len * size_of::<Block<T>>()
    }

    /// Allocates blocks for so many more items, as they usually lie: ten in a block of 14.
    ///
    /// # Errors
    /// If there is no memory for all of them. Those that there was memory for are kept.
    #[inline]
    pub fn reserve(&mut self, items: usize) -> Result<(), OutOfMemory> {
        self.lists.blocks.reserve(blocks_for(items))
    }

    /// Gives memory back to the system: it copies all items into as few new blocks as hold them, or
    /// into as many as [`reserve`](Self::reserve) of an empty wheel would take for `reserved`
    /// items, if that is more. It changes nothing if those are more than half of the blocks, or if
    /// there is no memory for them.
    pub fn shrink_to<S: Items<Item = T>>(&mut self, items: &mut S, reserved: usize) {
        let _ = self.lists.shrink_to(items, blocks_for(reserved));
    }

    /// Puts an item into the wheel, at the deadline that `items` says.
    ///
    /// The deadline may be moved to a later one without a word to the wheel: the item's slot comes
    /// up, and the wheel puts the item where it belongs then. A move to an earlier one needs
    /// [`reinsert`](Self::reinsert): without it the item is late, and
    /// [`next_wakeup`](Self::next_wakeup) may say a tick that has passed.
    ///
    /// The call takes constant time. It allocates a chunk of blocks now and then.
    ///
    /// # Errors
    /// If that memory is not there. Then nothing has changed.
    #[inline]
    pub fn insert<S: Items<Item = T>>(&mut self, items: &mut S, item: T) -> Result<(), OutOfMemory> {
        self.insert_at(item, items.deadline(item)).map(|place| items.placed(item, place))
    }

    /// As [`insert`](Self::insert), for a caller that knows the deadline, and keeps the place that
    /// is returned. It calls no store.
    ///
    /// # Errors
    /// The same as `insert`.
    #[inline]
    pub fn insert_at(&mut self, item: T, deadline: u64) -> Result<Place, OutOfMemory> {
        self.push(item, self.list_for(deadline, 1)).inspect(|_| self.len += 1)
    }

    /// Takes an item out of the wheel, if it is at this place. Returns whether it was: the last
    /// place that the store was told may be out of date once the item has been taken.
    ///
    /// The call takes constant time, and touches no other item.
    #[inline]
    pub fn remove(&mut self, place: Place, item: T) -> bool {
        let was_there = self.lists.remove(place, item);
        self.len -= usize::from(was_there);
        was_there
    }

    /// Moves an item from its place to where its deadline of now belongs. Returns false if it was
    /// not at that place, and then does nothing.
    ///
    /// It needs no memory that is not there. Without any, the item stays in its cell, and the wheel
    /// looks at its block again when one of its items is due, or earlier.
    pub fn reinsert<S: Items<Item = T>>(&mut self, items: &mut S, place: Place, item: T) -> bool {
        let was_there = self.lists.block_of(place, item).is_some();
        if was_there && self.put(items, item, self.list_for(items.deadline(item), 1)).is_ok() {
            self.lists.remove(place, item);
        } else if was_there {
            self.put_block(items, place.block());
        }
        was_there
    }

    /// Returns the last of these ticks, as far as level 0 reaches, whose slot has an item: for a
    /// caller that takes all of a short time together. Looks at each marked tick up to the last
    /// one.
    #[must_use]
    pub fn last_due(&self, ticks: RangeInclusive<u64>) -> Option<u64> {
        let level = &self.levels[0];
        let has_item = |tick: &u64| !self.lists.is_slot_empty(level.ring.list(*tick));
        let marked = level.marked(self.cursor).take_while(|tick| tick <= ticks.end());
        marked.filter(|tick| ticks.contains(tick) && has_item(tick)).last()
    }

    /// Returns the earliest deadline that an item has now, as its store says. Looks at slots in the
    /// order of their ticks, until none can hold an earlier deadline than the one found. Before a
    /// [rescan](Self::rescan) it looks at all.
    pub fn earliest<S: Items<Item = T>>(&self, items: &S) -> Option<u64> {
        let earliest_in = |list| self.lists.iter(list).map(|item| items.deadline(item)).min().unwrap_or(NEVER);
        let mut found = (0..cascade_list(self.levels.len())).map(earliest_in).min().unwrap_or(NEVER);
        for level in &self.levels {
            for span in level.marked(self.cursor) {
                if level.begins(span) >= found && !self.rescans {
                    break;
                }
                let list = level.ring.list(span);
                found = found.min(earliest_in(list)).min(earliest_in(list + 1));
            }
        }
        (found < NEVER).then_some(found)
    }

    /// Takes all items out, one after the other. Those that are left when the iterator is dropped
    /// stay in the wheel.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        let mut list = 0;
        core::iter::from_fn(move || {
            let item;
            (list, item) = (list..self.lists.count()).find_map(|list| Some((list, self.lists.pop(list)?)))?;
            self.len -= 1;
            Some(item)
        })
    }

    /// Returns the list that an item belongs to: one of the lowest level that is wide enough for
    /// its deadline, or of the last, for another round, if none is. `direct` is 1 for an item that
    /// is new, and 0 for one that was in the wheel before. That goes in front of the new ones.
    #[inline]
    pub(crate) fn list_for(&self, deadline: u64, direct: u32) -> u32 {
        let Some(distance) = deadline.checked_sub(self.cursor) else { return LATE };
        if deadline == NEVER {
            return FAR;
        }
        // The item is two whole spans or more away, as the ring below is not as wide as that, and a
        // span is opened at most half a span early. So its span is not opened yet.
        let list = self.by_distance[(distance | 1).ilog2() as usize].list_at(deadline) + direct;
        let is_open = |level: &Level| deadline < level.begins(level.first_unopened(self.cursor));
        debug_assert!(!self.levels.iter().any(|level| level.ring.slot_of(list).is_some() && is_open(level)));
        list
    }

    #[inline]
    pub(crate) fn push(&mut self, item: T, list: u32) -> Result<Place, OutOfMemory> {
        match self.lists.push(list, item) {
            Some(place) => Ok(place),
            None => self.push_block(item, list),
        }
    }

    /// Puts an item into a block of its own, and marks its slot, which may have been empty.
    #[inline(never)]
    fn push_block(&mut self, item: T, list: u32) -> Result<Place, OutOfMemory> {
        let place = self.lists.push_block(list, item)?;
        self.mark(list);
        Ok(place)
    }

    /// Marks a list's slot, if it is one's, which may have been empty.
    #[inline(always)]
    fn mark(&mut self, list: u32) {
        let mut levels = self.levels.iter_mut().enumerate();
        let newly = levels.find_map(|(index, level)| Some(level.occupancy.set(level.ring.slot_of(list)?) && index > 0));
        if newly == Some(true) {
            // The next step looks at all levels again.
            self.quiet_until = 0;
        }
    }

    /// Puts an item that was in the wheel before into a list.
    #[inline]
    pub(crate) fn put<S: Items<Item = T>>(&mut self, items: &mut S, item: T, list: u32) -> Result<(), OutOfMemory> {
        self.push(item, list).map(|place| items.placed(item, place))
    }

    /// Moves a block, some of whose items found no cell elsewhere, to where the earliest of them
    /// belongs. It comes up with that one. This takes no memory.
    #[cold]
    pub(crate) fn put_block<S: Items<Item = T>>(&mut self, items: &S, at: u32) {
        let deadlines = self.lists.blocks.get(at).cells.iter().flatten().map(|item| items.deadline(*item));
        let list = self.list_for(deadlines.min().unwrap_or(NEVER), 0);
        self.lists.move_block(at, list);
        self.mark(list);
    }

    /// Checks that the wheel's lists, marks and counts agree, and what it remembers of the levels
    /// above level 0.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let counted: usize = (0..self.lists.count()).map(|list| self.lists.check(list)).sum();
        assert_eq!(counted, self.len, "the wheel has lost count of its items");
        for level in &self.levels {
            let mut occupied = level.lists().filter(|list| !self.lists.is_empty(*list));
            assert!(occupied.all(|list| level.is_marked(list)), "a slot has items, and no mark");
        }
        for (index, level) in self.levels.iter().enumerate().skip(1) {
            let in_cascade = !self.lists.is_empty(cascade_list(index));
            assert!(
                !in_cascade || self.quiet_until <= level.cascade_due(&self.levels[index - 1]),
                "a cascade is forgotten"
            );
            let is_occupied = |span: &u64| !self.lists.is_slot_empty(level.ring.list(*span));
            let opens = level.marked(self.cursor).find(is_occupied).map(|span| level.opens(span));
            assert!(opens.is_none_or(|opens| self.quiet_until <= opens), "a span is forgotten");
        }
    }
}

fn blocks_for(items: usize) -> usize {
    items.div_ceil(ITEMS_A_BLOCK)
}

/// Returns the list of the items that a level's cascade has still to move.
#[expect(clippy::cast_possible_truncation, reason = "there are at most 59 levels")]
pub(crate) fn cascade_list(level: usize) -> u32 {
    DUE + level as u32
}

impl<T, M> fmt::Debug for Wheel<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel").field("len", &self.len).field("cursor", &self.cursor).finish_non_exhaustive()
    }
}
