//! Blocks of cells, and the memory that they are in.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::items::{OutOfMemory, Place, room_for};

/// So many cells of 8 bytes, with the fields of a block, are two cache lines.
pub(crate) const CELLS: usize = 14;

/// The tests of this crate, and models, have small chunks: so the former have many, and the latter
/// do little.
const CHUNK_BITS: u32 = if cfg!(any(test, loom)) { 2 } else { 8 };
/// How many blocks are allocated at once: 32 KiB of them.
const CHUNK: usize = 1 << CHUNK_BITS;

/// The neighbour of a block: another block, or the end of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(u32);

impl Link {
    const END: u32 = 1 << 31;

    /// The end of a list. It names the list, so that whoever empties a block finds it.
    pub(crate) const fn end(list: u32) -> Self {
        Self(Self::END | list)
    }

    pub(crate) fn to(block: u32) -> Self {
        Self(block)
    }

    /// Returns the block, or the list that ends here.
    #[inline]
    pub(crate) fn get(self) -> Result<u32, u32> {
        if self.0 & Self::END == 0 { Ok(self.0) } else { Err(self.0 & !Self::END) }
    }

    #[inline]
    pub(crate) fn block(self) -> Option<u32> {
        self.get().ok()
    }
}

/// A few items of one list. Its cells are filled from the first to the last, and each is filled
/// once, so that the list is first in, first out. A removal leaves a hole.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Block<T> {
    pub(crate) before: Link,
    pub(crate) behind: Link,
    /// How many cells hold an item.
    pub(crate) live: u8,
    pub(crate) cells: [Option<T>; CELLS],
}

impl<T: Copy> Block<T> {
    /// Takes the item out of a cell.
    #[inline]
    pub(crate) fn empty(&mut self, cell: usize) -> Option<T> {
        let item = self.cells.get_mut(cell)?.take()?;
        self.live -= 1;
        Some(item)
    }

    /// Puts an item into an empty cell.
    #[inline]
    pub(crate) fn put(&mut self, cell: usize, item: T) {
        debug_assert!(self.cells[cell].is_none(), "an item would be lost");
        self.cells[cell] = Some(item);
        self.live += 1;
    }
}

/// All blocks of a wheel. They never go back to the system by themselves.
#[derive(Debug)]
pub(crate) struct Blocks<T> {
    chunks: Vec<Box<[Block<T>; CHUNK]>>,
    /// The first free block, or an end if there is none. `behind` leads to the next.
    free: Link,
    /// How many blocks are in a list.
    used: usize,
    /// For tests: there is no memory for more blocks than these.
    #[cfg(test)]
    pub(crate) limit: usize,
}

impl<T: Copy> Blocks<T> {
    pub(crate) const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            free: Link::end(0),
            used: 0,
            #[cfg(test)]
            limit: usize::MAX,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    #[inline]
    pub(crate) fn get(&self, block: u32) -> &Block<T> {
        &self.chunks[(block >> CHUNK_BITS) as usize][block as usize % CHUNK]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, block: u32) -> &mut Block<T> {
        &mut self.chunks[(block >> CHUNK_BITS) as usize][block as usize % CHUNK]
    }

    /// Returns the block of a place, which may be no block's.
    #[inline]
    pub(crate) fn at(&mut self, place: Place) -> Option<&mut Block<T>> {
        let chunk = self.chunks.get_mut((place.block() >> CHUNK_BITS) as usize)?;
        Some(&mut chunk[place.block() as usize % CHUNK])
    }

    /// Takes an empty block, and gives it these neighbours and its first item. Returns its number.
    #[inline]
    pub(crate) fn take(&mut self, before: Link, behind: Link, item: T) -> Result<u32, OutOfMemory> {
        let index = match self.free.block() {
            Some(index) => index,
            None => self.grow()?,
        };
        let block = self.get_mut(index);
        debug_assert!(block.live == 0 && block.cells.iter().all(Option::is_none), "items would be lost");
        let next = block.behind;
        (block.before, block.behind, block.live) = (before, behind, 1);
        block.cells[0] = Some(item);
        self.free = next;
        self.used += 1;
        Ok(index)
    }

    /// Gives a block back that holds no item. It is the first that is taken again.
    #[inline]
    pub(crate) fn give_back(&mut self, index: u32) {
        debug_assert_eq!(self.get(index).live, 0, "items would be lost");
        self.get_mut(index).behind = core::mem::replace(&mut self.free, Link::to(index));
        self.used -= 1;
    }

    /// Allocates blocks until so many are free.
    #[inline]
    pub(crate) fn reserve(&mut self, blocks: usize) -> Result<(), OutOfMemory> {
        if blocks > Place::MAX_BLOCKS as usize {
            return Err(OutOfMemory);
        }
        while self.len() - self.used < blocks {
            self.grow()?;
        }
        Ok(())
    }

    /// Allocates a chunk. Its blocks are taken in the order of their addresses: this returns the
    /// first.
    #[cold]
    fn grow(&mut self) -> Result<u32, OutOfMemory> {
        let first = u32::try_from(self.len()).ok().filter(|first| *first < Place::MAX_BLOCKS).ok_or(OutOfMemory)?;
        #[cfg(test)]
        if self.len() >= self.limit {
            return Err(OutOfMemory);
        }
        let mut chunk = room_for(CHUNK)?;
        self.chunks.try_reserve(1).map_err(|_| OutOfMemory)?;
        let end = Link::end(0);
        chunk.extend((0..CHUNK).map(|_| Block { before: end, behind: end, live: 0, cells: [None; CELLS] }));
        let Ok(chunk) = chunk.into_boxed_slice().try_into() else { unreachable!("it has the length of a chunk") };
        self.chunks.push(chunk);
        self.used += CHUNK;
        (first..first + (1 << CHUNK_BITS)).rev().for_each(|block| self.give_back(block));
        Ok(first)
    }
}
