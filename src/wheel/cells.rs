//! The memory of a wheel's cells. A worker comes back to a block in the order of deadlines, and
//! long after it was filled. So if there are many blocks, they are in large pages, as reserved
//! entries are.

use std::ptr::NonNull;

use tourbillon_wheel::{Block, Chunk, Memory};

use crate::entry::Linked;
use crate::sys::memory::Zeroed;

/// Chunks of blocks, by their numbers, and the arrays that they lie in.
#[derive(Debug, Default)]
pub(super) struct Cells {
    chunks: Vec<NonNull<Chunk<Linked>>>,
    arrays: Vec<Zeroed<Chunk<Linked>>>,
}

// SAFETY: the arrays, and the entries in their cells, are this value's alone, and go with it.
unsafe impl Send for Cells {}

impl Memory<Linked> for Cells {
    fn count(&self) -> usize {
        self.chunks.len()
    }

    #[inline]
    fn get(&self, chunk: usize) -> Option<&Chunk<Linked>> {
        // SAFETY: `grow` has filled it, and its array lives as long as this value.
        self.chunks.get(chunk).map(|chunk| unsafe { chunk.as_ref() })
    }

    #[inline]
    fn get_mut(&mut self, chunk: usize) -> Option<&mut Chunk<Linked>> {
        // SAFETY: as in `get`. The chunks do not overlap.
        self.chunks.get_mut(chunk).map(|chunk| unsafe { chunk.as_mut() })
    }

    fn grow(&mut self, chunks: usize) {
        if self.arrays.try_reserve(1).is_err() {
            return;
        }
        let Some(array) = Zeroed::to_be_filled(chunks) else { return };
        if self.chunks.try_reserve(array.len()).is_err() {
            return;
        }
        self.chunks.extend((0..array.len()).map(|index| {
            let chunk = array.get(index);
            let blocks = size_of::<Chunk<Linked>>() / size_of::<Block<Linked>>();
            // One by one, as a whole chunk would go over the stack.
            for block in 0..blocks {
                // SAFETY: a block of a place of a new array, which nobody else knows.
                unsafe { chunk.cast::<Block<Linked>>().add(block).write(Block::EMPTY) };
            }
            chunk
        }));
        self.arrays.push(array);
    }
}
