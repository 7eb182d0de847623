//! Unrolled lists: each is a chain of blocks, and each block has a few items of it.

use alloc::boxed::Box;
use core::iter;
use core::mem;
use core::ops::RangeInclusive;

use crate::block::{Block, Blocks, CELLS, Link, Memory};
use crate::items::{Items, NEVER, OutOfMemory, Place, room_for};

/// So many items of a list are looked at to find out when to turn next.
const FEW: u8 = 4;

/// The first and the last block of a list.
#[derive(Clone, Copy, Debug)]
struct Ends {
    /// The list's end if it is empty.
    first: Link,
    /// Where the next item goes: a cell of the last block, or behind all of them, as nothing more
    /// goes into that. [`Place::NONE`] if the list is empty.
    next: Place,
}

impl Ends {
    /// An empty list.
    fn new(list: u32) -> Self {
        Self { first: Link::end(list), next: Place::NONE }
    }

    /// Returns the last block. That of an empty list is its end, which `first` is then.
    fn last(self) -> Link {
        if self.next == Place::NONE { self.first } else { Link::to(self.next.block()) }
    }
}

/// All lists of a wheel, by their numbers, and their blocks.
#[derive(Debug)]
pub(crate) struct Lists<T, M> {
    ends: Box<[Ends]>,
    pub(crate) blocks: Blocks<T, M>,
}

impl<T: Copy + Eq, M: Memory<T>> Lists<T, M> {
    pub(crate) fn new(lists: usize) -> Result<Self, OutOfMemory> {
        let count = u32::try_from(lists).ok().filter(|count| *count < 1 << 31).ok_or(OutOfMemory)?;
        let mut ends = room_for(lists)?;
        ends.extend((0..count).map(Ends::new));
        Ok(Self { ends: ends.into_boxed_slice(), blocks: Blocks::new() })
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.ends.len()).expect("`new` has checked it")
    }

    /// Returns a list's first block.
    #[inline]
    pub(crate) fn first(&self, list: u32) -> Option<u32> {
        self.ends[list as usize].first.block()
    }

    #[inline]
    pub(crate) fn is_empty(&self, list: u32) -> bool {
        self.first(list).is_none()
    }

    /// Returns whether both lists of a slot are empty, of which this is the first.
    #[inline]
    pub(crate) fn is_slot_empty(&self, list: u32) -> bool {
        self.is_empty(list) && self.is_empty(list + 1)
    }

    /// Puts an item behind the last one of a list, if its last block has a cell left.
    #[inline]
    pub(crate) fn push(&mut self, list: u32, item: T) -> Option<Place> {
        let next = &mut self.ends[list as usize].next;
        let place = *next;
        if place.cell() >= CELLS {
            return None;
        }
        *next = place.next();
        self.blocks.get_mut(place.block()).put(place.cell(), item);
        Some(place)
    }

    /// Puts an item behind the last one of a list, in a block of its own.
    #[inline]
    pub(crate) fn push_block(&mut self, list: u32, item: T) -> Result<Place, OutOfMemory> {
        let last = self.ends[list as usize].last();
        let at = self.blocks.take(last, Link::end(list), item)?;
        self.link(last, Link::to(at));
        let place = Place::new(at, 0);
        self.ends[list as usize].next = place.next();
        Ok(place)
    }

    /// Makes `behind` what comes after `before`, and nothing else.
    fn link(&mut self, before: Link, behind: Link) {
        match before.get() {
            Ok(block) => self.blocks.get_mut(block).behind = behind,
            Err(list) => self.ends[list as usize].first = behind,
        }
    }

    /// Makes two blocks neighbours, or a block the first or the last one of a list.
    fn join(&mut self, before: Link, behind: Link) {
        match behind.get() {
            Ok(block) => self.blocks.get_mut(block).before = before,
            // Nothing more goes into a block that has become the last one.
            Err(list) => self.ends[list as usize].next = before.block().map_or(Place::NONE, |at| Place::new(at, CELLS)),
        }
        self.link(before, behind);
    }

    /// Puts a chain of blocks behind the last one of a list.
    fn append(&mut self, first: Link, last: Link, to: u32) {
        self.join(self.ends[to as usize].last(), first);
        self.join(last, Link::end(to));
    }

    /// Takes a block out of its list.
    fn unlink(&mut self, at: u32) {
        let block = self.blocks.get(at);
        self.join(block.before, block.behind);
    }

    /// Takes an empty block out of its list, and frees it.
    pub(crate) fn free(&mut self, at: u32) {
        self.unlink(at);
        self.blocks.give_back(at);
    }

    /// Moves a block behind the last one of a list.
    pub(crate) fn move_block(&mut self, at: u32, to: u32) {
        self.unlink(at);
        self.append(Link::to(at), Link::to(at), to);
    }

    /// Moves all blocks of a list behind the last one of another. No item moves.
    pub(crate) fn splice(&mut self, from: u32, to: u32) {
        if !self.is_empty(from) {
            let ends = mem::replace(&mut self.ends[from as usize], Ends::new(from));
            self.append(ends.first, ends.last(), to);
        }
    }

    /// Returns the block of a place, if the item is there.
    #[inline]
    pub(crate) fn block_of(&mut self, place: Place, item: T) -> Option<&mut Block<T>> {
        self.blocks.at(place.block()).filter(|block| block.cells.get(place.cell()) == Some(&Some(item)))
    }

    /// Takes an item out, if it is at this place.
    #[inline]
    pub(crate) fn remove(&mut self, place: Place, item: T) -> bool {
        let Some(block) = self.block_of(place, item) else { return false };
        let _ = block.empty(place.cell());
        if block.live == 0 {
            self.free(place.block());
        }
        true
    }

    /// Takes the first item of a list out.
    pub(crate) fn pop(&mut self, list: u32) -> Option<T> {
        loop {
            let at = self.first(list)?;
            let block = self.blocks.get_mut(at);
            let item = (0..CELLS).find_map(|cell| block.empty(cell));
            if block.live == 0 {
                self.free(at);
            }
            // Panics of the user's leave blocks without an item.
            if item.is_some() {
                return item;
            }
        }
    }

    /// Returns a list's blocks, from the first on.
    fn blocks_of(&self, list: u32) -> impl Iterator<Item = u32> {
        iter::successors(self.first(list), |at| self.blocks.get(*at).behind.block())
    }

    /// Returns a list's items, from the first on.
    pub(crate) fn iter(&self, list: u32) -> impl Iterator<Item = T> {
        self.blocks_of(list).flat_map(|at| self.blocks.get(at).cells.iter().copied().flatten())
    }

    /// Returns the earliest deadline in these lists, or `None` if there are more than a few items.
    pub(crate) fn earliest_of_few<S: Items<Item = T>>(&self, items: &S, mut lists: RangeInclusive<u32>) -> Option<u64> {
        lists.try_fold(NEVER, |earliest, list| {
            let ends = self.ends[list as usize];
            let is_few =
                ends.first == ends.last() && ends.first.block().is_none_or(|at| self.blocks.get(at).live <= FEW);
            is_few.then(|| self.iter(list).map(|item| items.deadline(item)).fold(earliest, u64::min))
        })
    }

    /// Sorts the items of a list whose deadlines are before a time. Those of one deadline, and the
    /// others behind them, stay in their order. Without memory for that the list stays as it is.
    #[cold]
    pub(crate) fn sort<S: Items<Item = T>>(&mut self, items: &mut S, list: u32, before: u64) {
        let key = |item| items.deadline(item).min(before);
        if self.iter(list).is_sorted_by_key(key) {
            return;
        }
        let Ok(mut sorted) = room_for(self.iter(list).count()) else { return };
        sorted.extend(self.iter(list).enumerate().map(|(nth, item)| (key(item), nth, item)));
        // By the number too, as a stable sort needs memory of its own.
        sorted.sort_unstable_by_key(|(deadline, nth, _)| (*deadline, *nth));
        let mut sorted = sorted.into_iter();
        let mut next = self.first(list);
        while let Some(at) = next {
            let block = self.blocks.get_mut(at);
            next = block.behind.block();
            for (cell, held) in block.cells.iter_mut().enumerate().filter(|(_, held)| held.is_some()) {
                *held = sorted.next().map(|(.., item)| item);
                held.iter().for_each(|item| items.placed(*item, Place::new(at, cell)));
            }
        }
    }

    /// Copies all items into as few blocks as hold them, but at least `least`, and gives the blocks
    /// of before back to the system. Does nothing if that would be less than half, or without
    /// memory for it.
    pub(crate) fn shrink_to<S: Items<Item = T>>(&mut self, items: &mut S, least: usize) -> Result<(), OutOfMemory> {
        let blocks_for = |list| self.iter(list).count().div_ceil(CELLS);
        let blocks = least.max((0..self.count()).map(blocks_for).sum());
        if blocks > self.blocks.len / 2 {
            return Ok(());
        }
        let mut packed = Self::new(self.ends.len())?;
        #[cfg(test)]
        {
            packed.blocks.limit = self.blocks.limit;
        }
        packed.blocks.reserve(blocks)?;
        for list in 0..self.count() {
            for item in self.iter(list) {
                let place = packed.push(list, item).map_or_else(|| packed.push_block(list, item), Ok)?;
                items.placed(item, place);
            }
        }
        *self = packed;
        Ok(())
    }

    /// Counts the items of a list. Panics if a block is not linked as it should be, or does not
    /// know how many it has.
    #[cfg(test)]
    pub(crate) fn check(&self, list: u32) -> usize {
        let (mut before, mut count) = (Link::end(list), 0);
        for at in self.blocks_of(list) {
            let block = self.blocks.get(at);
            let live = block.cells.iter().flatten().count();
            assert!(block.before == before && live > 0, "block {at} of list {list} is not linked in both ways");
            assert_eq!(live, usize::from(block.live), "block {at} of list {list} has lost count");
            (before, count) = (Link::to(at), count + live);
        }
        let ends = self.ends[list as usize];
        assert_eq!(ends.last(), before, "list {list} does not end with its last block");
        let next = ends.next.cell().min(CELLS);
        let is_free = |at| self.blocks.get(at).cells[next..].iter().all(Option::is_none);
        assert!(before.block().is_none_or(is_free), "list {list} has an item where its next one goes");
        count
    }
}
