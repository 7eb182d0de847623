//! The memory of a wheel's cells: large pages if it is much, as for reserved entries. A worker
//! comes back to a block long after it was filled, and in the order of deadlines.

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

// SAFETY: the arrays are this value's alone, and a `Linked` may be sent.
unsafe impl Send for Cells {}

impl Memory<Linked> for Cells {
    #[inline]
    fn get(&self, chunk: usize) -> Option<&Chunk<Linked>> {
        // SAFETY: `grow` has filled it, and its array lives as long as this value.
        self.chunks.get(chunk).map(|chunk| unsafe { chunk.as_ref() })
    }

    #[inline]
    fn get_mut(&mut self, chunk: usize) -> Option<&mut Chunk<Linked>> {
        // SAFETY: as in `get`. No two chunks overlap, and nobody else has a reference to this one.
        self.chunks.get_mut(chunk).map(|chunk| unsafe { chunk.as_mut() })
    }

    fn grow(&mut self, chunks: usize) -> usize {
        let Some(array) = Zeroed::to_be_filled(chunks) else { return 0 };
        let chunks = array.len();
        if self.arrays.try_reserve(1).is_err() || self.chunks.try_reserve(chunks).is_err() {
            return 0;
        }
        self.chunks.extend((0..chunks).map(|index| {
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
        chunks
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_is_apart_from_the_others_and_stays_when_its_owner_is_moved() {
        let mut cells = Cells::default();
        assert_eq!([1, 3].map(|chunks| cells.grow(chunks)), [1, 3]);
        let chunks: Vec<_> = (0..4).map(|chunk| cells.get_mut(chunk).map(std::ptr::from_mut)).collect();
        let bytes = |at: usize| at..at + size_of::<Chunk<Linked>>();
        for (nth, chunk) in chunks.iter().enumerate() {
            let at = chunk.expect("it was made").addr();
            let others = chunks[..nth].iter().flatten();
            assert!(at.is_multiple_of(align_of::<Block<Linked>>()));
            assert!(
                others
                    .into_iter()
                    .all(|other| !bytes(other.addr()).contains(&at) && !bytes(at).contains(&other.addr()))
            );
        }
        let cells = std::thread::spawn(move || {
            (0..4).for_each(|chunk| cells.get_mut(chunk).expect("it was made")[3] = Block::EMPTY);
            cells
        });
        let cells = cells.join().expect("no panic");
        let now: Vec<_> = (0..4).map(|chunk| cells.get(chunk).map(|chunk| std::ptr::from_ref(chunk).addr())).collect();
        assert_eq!(now, chunks.iter().map(|chunk| chunk.map(|chunk| chunk.addr())).collect::<Vec<_>>());
        assert!(cells.get(4).is_none());
    }

    // Else a shrink that halves the memory could be followed by another, and another.
    #[test]
    #[cfg_attr(miri, ignore = "megabytes")]
    fn less_memory_is_taken_than_twice_as_much_as_was_asked_for() {
        for asked in [1, 31, 32, 33, 63, 64, 65, 100] {
            let taken = Cells::default().grow(asked);
            assert!((asked..2 * asked).contains(&taken), "{taken} chunks for {asked}");
        }
    }
}
