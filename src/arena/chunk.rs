//! Memory for entries: chunks that are handed out in runs.

use std::ptr::NonNull;

use crate::entry::Entry;
use crate::memory::Zeroed;
use crate::sync::{AtomicUsize, Ordering};

/// How many fresh entries a producer takes at a time: 4 KiB, one page.
pub(super) const RUN: usize = super::A_FEW;

/// An array of entries, of which the first `issued` have been handed out.
///
/// Tasks that were still in entries would be leaked with it. None is: whoever takes an entry out of PENDING takes the task, and the
/// engine withdraws what is pending before it ends.
#[derive(Debug)]
pub(super) struct Chunk {
    entries: Zeroed<Entry>,
    issued: AtomicUsize,
    /// The chunk that was the newest before this one.
    pub(super) older: *mut Chunk,
}

/// Fresh entries, one after the other in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) first: NonNull<Entry>,
    pub(super) len: usize,
}

impl Chunk {
    /// A chunk of `len` free entries; none if the memory can't be had. Does not touch it.
    pub(super) fn new(len: usize) -> Option<Box<Self>> {
        Zeroed::new(len).map(Self::of)
    }

    /// The same, and every page of it is written to, so that the first use of an entry does not pay for a page fault (1.2 µs each).
    pub(super) fn reserved(len: usize) -> Option<Box<Self>> {
        let chunk = Zeroed::to_be_filled(len).map(Self::of)?;
        chunk.touch();
        Some(chunk)
    }

    fn of(entries: Zeroed<Entry>) -> Box<Self> {
        debug_assert!(entries.len() > 0);
        let address = entries.first();
        // The stacks in `shard` keep a count above the address. No system gives out others unless asked to.
        assert!(address.addr().get() >> 48 == 0, "memory at {address:p}: addresses above 48 bits are not supported");
        #[cfg(loom)]
        for index in 0..entries.len() {
            // SAFETY: in bounds of the allocation. (Zeroed memory is a free entry, but not one that loom knows of.)
            unsafe { entries.at(index).write(Entry::new_free()) };
        }
        Box::new(Self { entries, issued: AtomicUsize::new(0), older: std::ptr::null_mut() })
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn touch(&self) {
        if cfg!(loom) {
            // There it is not zero that stands in an entry, but what loom knows it by.
            return;
        }
        const ENTRIES_A_PAGE: usize = 4096 / size_of::<Entry>();
        // The last one, too: the array need not begin with a page.
        for index in (0..self.len()).step_by(ENTRIES_A_PAGE.max(1)).chain([self.len() - 1]) {
            debug_assert!(index < self.len());
            // SAFETY: in bounds.
            let entry = unsafe { self.entries.at(index) };
            // SAFETY: nobody else knows this memory yet, and zero is what stands there. Volatile, so that the write is
            // not left out for that reason.
            unsafe { entry.cast::<u8>().write_volatile(0) };
        }
    }

    /// Hands out up to `RUN` fresh entries; none if all have been handed out. One read-modify-write for a run.
    pub(super) fn take_run(&self) -> Option<Run> {
        // Relaxed: the number alone decides who owns what. The memory was published with the chunk.
        if self.issued.load(Ordering::Relaxed) >= self.len() {
            return None;
        }
        let from = self.issued.fetch_add(RUN, Ordering::Relaxed);
        let len = self.len().saturating_sub(from).min(RUN);
        if len == 0 {
            return None;
        }
        // SAFETY: `from + len` is at most `len`.
        Some(Run { first: unsafe { self.entries.at(from) }, len })
    }

    /// All entries that were ever handed out.
    pub(super) fn issued(&self) -> impl Iterator<Item = NonNull<Entry>> {
        let issued = self.issued.load(Ordering::Relaxed).min(self.len());
        // SAFETY: below `len`.
        (0..issued).map(|index| unsafe { self.entries.at(index) })
    }
}

#[cfg(loom)]
impl Drop for Chunk {
    fn drop(&mut self) {
        for index in 0..self.len() {
            // SAFETY: written in `new`, and dropped here once.
            unsafe { self.entries.at(index).drop_in_place() };
        }
    }
}
