//! Blocks of cells, and the memory that they are in.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::items::{OutOfMemory, Place, room_for};

/// So many cells of 8 bytes, with the fields of a block, are two cache lines.
pub(crate) const CELLS: usize = 14;

/// The tests of this crate, and models, have small chunks: so the former have many, and the latter
/// do little.
const CHUNK_BITS: u32 = if cfg!(any(test, loom)) { 2 } else { 8 };
/// How many blocks are in a chunk.
const CHUNK: usize = 1 << CHUNK_BITS;

/// Blocks that are allocated at once: 32 KiB of them, if an item takes 8 bytes.
pub type Chunk<T> = [Block<T>; CHUNK];

/// The memory of a wheel's blocks: a vector of boxes, unless its user has another type for it. That
/// may be memory in large pages, or have a bound.
///
/// Two numbers are two chunks, and each chunk stays what its number leads to. A wheel whose memory
/// breaks this panics, or loses items. While a wheel [shrinks](crate::Wheel::shrink_to), it has two
/// memories.
///
/// ```
/// use tourbillon_wheel::{Chunk, Memory, Wheel};
///
/// /// At most 64 chunks.
/// #[derive(Default)]
/// struct Bounded(Vec<Box<Chunk<u32>>>);
///
/// impl Memory<u32> for Bounded {
///     fn get(&self, chunk: usize) -> Option<&Chunk<u32>> {
///         Memory::get(&self.0, chunk)
///     }
///
///     fn get_mut(&mut self, chunk: usize) -> Option<&mut Chunk<u32>> {
///         Memory::get_mut(&mut self.0, chunk)
///     }
///
///     fn grow(&mut self, chunks: usize) -> usize {
///         self.0.grow(chunks.min(64 - self.0.len()))
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut wheel = Wheel::<u32, Bounded>::with_memory(512, 512, 4)?;
/// wheel.reserve(100_000)?;
/// assert_eq!(wheel.memory(), 40 * 32 * 1024);
/// assert!(wheel.reserve(200_000).is_err());
/// # Ok(())
/// # }
/// ```
pub trait Memory<T>: Default {
    /// Returns a chunk by its number, or `None` if no [`grow`](Self::grow) has made it.
    fn get(&self, chunk: usize) -> Option<&Chunk<T>>;

    /// As [`get`](Self::get), to write to it.
    fn get_mut(&mut self, chunk: usize) -> Option<&mut Chunk<T>>;

    /// Allocates chunks of [empty](Block::EMPTY) blocks: `chunks` of them, or more, but less than
    /// twice as many; or fewer, if memory is short. They have the next numbers, from 0 on. Returns
    /// how many they are.
    fn grow(&mut self, chunks: usize) -> usize;
}

impl<T> Memory<T> for Vec<Box<Chunk<T>>> {
    #[inline]
    fn get(&self, chunk: usize) -> Option<&Chunk<T>> {
        self.as_slice().get(chunk).map(|chunk| &**chunk)
    }

    #[inline]
    fn get_mut(&mut self, chunk: usize) -> Option<&mut Chunk<T>> {
        self.as_mut_slice().get_mut(chunk).map(|chunk| &mut **chunk)
    }

    fn grow(&mut self, chunks: usize) -> usize {
        let chunk = || {
            let mut blocks = room_for(CHUNK).ok()?;
            blocks.resize_with(CHUNK, || Block::EMPTY);
            blocks.into_boxed_slice().try_into().ok()
        };
        let before = self.len();
        if self.try_reserve(chunks).is_ok() {
            self.extend((0..chunks).map_while(|_| chunk()));
        }
        self.len() - before
    }
}

/// The neighbour of a block: another block, or the end of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(u32);

impl Link {
    const END: u32 = 1 << 31;

    /// The end of a list. It names the list, so that the call that empties a block finds it.
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

/// A few items of one list. An insert goes to the cell behind the last one that an insert has
/// filled, so that the list is first in, first out. A removal leaves a hole.
#[derive(Debug)]
#[repr(align(64))]
pub struct Block<T> {
    pub(crate) before: Link,
    pub(crate) behind: Link,
    /// How many cells hold an item.
    pub(crate) live: u8,
    pub(crate) cells: [Option<T>; CELLS],
}

impl<T> Block<T> {
    /// A block without an item, and in no list.
    pub const EMPTY: Self =
        Self { before: Link::end(0), behind: Link::end(0), live: 0, cells: [const { None }; CELLS] };
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
pub(crate) struct Blocks<T, M> {
    memory: M,
    /// How many blocks there are.
    pub(crate) len: usize,
    /// The first free block, or an end if there is none. `behind` leads to the next.
    free: Link,
    /// How many blocks are free.
    spare: usize,
    /// For tests: there is no memory for more blocks than these.
    #[cfg(test)]
    pub(crate) limit: usize,
    of: PhantomData<T>,
}

impl<T: Copy, M: Memory<T>> Blocks<T, M> {
    pub(crate) fn new() -> Self {
        Self {
            memory: M::default(),
            len: 0,
            free: Link::end(0),
            spare: 0,
            #[cfg(test)]
            limit: usize::MAX,
            of: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn get(&self, block: u32) -> &Block<T> {
        let chunk = self.memory.get((block >> CHUNK_BITS) as usize);
        &chunk.expect("a block has a chunk")[block as usize % CHUNK]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, block: u32) -> &mut Block<T> {
        self.at(block).expect("a block has a chunk")
    }

    /// Returns the block of this number, if there is one.
    #[inline]
    pub(crate) fn at(&mut self, block: u32) -> Option<&mut Block<T>> {
        let chunk = self.memory.get_mut((block >> CHUNK_BITS) as usize)?;
        Some(&mut chunk[block as usize % CHUNK])
    }

    /// Takes an empty block, and gives it these neighbours and its first item. Returns its number.
    #[inline]
    pub(crate) fn take(&mut self, before: Link, behind: Link, item: T) -> Result<u32, OutOfMemory> {
        self.reserve(1)?;
        let index = self.free.block().ok_or(OutOfMemory)?;
        let block = self.get_mut(index);
        debug_assert!(block.live == 0 && block.cells.iter().all(Option::is_none), "items would be lost");
        let next = block.behind;
        (block.before, block.behind, block.live) = (before, behind, 1);
        block.cells[0] = Some(item);
        self.free = next;
        self.spare -= 1;
        Ok(index)
    }

    /// Gives a block back that holds no item. It is the first that is taken again.
    #[inline]
    pub(crate) fn give_back(&mut self, index: u32) {
        debug_assert_eq!(self.get(index).live, 0, "items would be lost");
        self.get_mut(index).behind = core::mem::replace(&mut self.free, Link::to(index));
        self.spare += 1;
    }

    /// Allocates blocks until so many are free.
    #[inline]
    pub(crate) fn reserve(&mut self, blocks: usize) -> Result<(), OutOfMemory> {
        if self.spare < blocks { self.grow(blocks) } else { Ok(()) }
    }

    /// Allocates chunks until so many blocks are free. They are taken in the order of their
    /// addresses.
    #[cold]
    fn grow(&mut self, blocks: usize) -> Result<(), OutOfMemory> {
        let (before, most) = (self.len, Place::MAX_BLOCKS as usize);
        #[cfg(test)]
        let most = most.min(self.limit);
        let missing = blocks - self.spare;
        if missing > most.saturating_sub(before) {
            return Err(OutOfMemory);
        }
        let more = self.memory.grow(missing.div_ceil(CHUNK)).saturating_mul(CHUNK);
        self.len = before.saturating_add(more).min(Place::MAX_BLOCKS as usize);
        #[expect(clippy::cast_possible_truncation, reason = "there are at most MAX_BLOCKS")]
        (before as u32..self.len as u32).rev().for_each(|block| self.give_back(block));
        if self.spare < blocks { Err(OutOfMemory) } else { Ok(()) }
    }
}
