//! The memory of a [local](crate::local) engine's entries. One thread takes and gives back, so a
//! free list and the newest chunk are all there is.

use crate::entry::{Entry, Sole, Stack, fits_links};
use crate::sys::memory::Zeroed;

use super::{FIRST_CHUNK, chunk::LARGEST_CHUNK};

/// All entries of one local engine. Entries go back to the system with it.
#[derive(Debug)]
pub(crate) struct LocalArena {
    free: Stack<Sole>,
    chunks: Vec<Zeroed<Entry>>,
    /// How many entries of the newest chunk were handed out.
    issued: usize,
}

impl LocalArena {
    /// Returns an arena with memory for `capacity` entries, touched in advance, or `None` if there
    /// is no memory.
    pub(crate) fn new(capacity: usize) -> Option<Self> {
        let mut this = Self { free: Stack::new(), chunks: Vec::new(), issued: 0 };
        if capacity > 0 {
            this.add(Zeroed::to_be_filled(capacity)?)?;
            // SAFETY: the array was just made, and no entry of it was handed out.
            this.chunks.iter().for_each(|reserved| unsafe { reserved.touch() });
        }
        Some(this)
    }

    /// Returns a free entry, or `None` if there is no memory.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Sole> {
        self.free.pop().or_else(|| self.take_fresh())
    }

    /// Takes an entry back.
    #[inline]
    pub(crate) fn put(&mut self, entry: Sole) {
        self.free.push(entry);
    }

    #[inline(never)]
    fn take_fresh(&mut self) -> Option<Sole> {
        let newest = self.chunks.last().map_or(0, Zeroed::len);
        if self.issued == newest {
            self.add(Zeroed::new((newest * 2).clamp(FIRST_CHUNK, LARGEST_CHUNK))?)?;
        }
        let fresh = self.chunks.last()?.get(self.issued);
        self.issued += 1;
        // SAFETY: it was never handed out, so the caller is its only owner. Zeroed memory is a free
        // entry, in no list. The arena, which its engine keeps, has the memory.
        Some(unsafe { Sole::new(fresh) })
    }

    /// Makes a chunk the newest one. Returns `None` if links can't name its memory.
    fn add(&mut self, chunk: Zeroed<Entry>) -> Option<()> {
        let fits = fits_links(chunk.first().cast(), chunk.len() * size_of::<Entry>());
        fits.then(|| {
            self.issued = 0;
            self.chunks.push(chunk);
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_entry_is_given_out_once_until_it_is_given_back() {
        let mut arena = LocalArena::new(3).expect("memory");
        let mut taken: Vec<_> = (0..1_000).map(|_| arena.take().expect("memory").into_raw()).collect();
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 1_000);
        let last = taken[7];
        // SAFETY: it was taken above, and is given back once.
        arena.put(unsafe { Sole::new(last) });
        assert_eq!(arena.take().map(Sole::into_raw), Some(last));
    }

    #[test]
    fn a_capacity_beyond_all_memory_is_refused() {
        assert!(LocalArena::new(usize::MAX / 128).is_none());
    }
}
