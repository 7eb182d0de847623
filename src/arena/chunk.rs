//! Memory for entries: chunks that are handed out in runs.

use std::ptr::NonNull;

use crate::entry::Entry;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::sys::memory::{Zeroed, page_size};

/// How many entries go from hand to hand at a time. (Few under loom and Miri, as the other bounds of this kind: what they check
/// is what happens when one is reached.)
pub(super) const A_FEW: usize = if cfg!(loom) {
    1
} else if cfg!(miri) {
    4
} else {
    64
};

/// Chunks double up to this many entries (2 MiB).
pub(super) const LARGEST_CHUNK: usize = 32_768;

/// How many fresh entries a producer takes at a time: 4 KiB, one page.
pub(super) const RUN: usize = A_FEW;

/// Words of a bit for each page of the largest chunk that can be given back, and one page more, as it need not begin with one.
const WORDS: usize = if cfg!(loom) { 1 } else { LARGEST_CHUNK * size_of::<Entry>() / 4096 / 64 + 1 };

/// Entries in a page of memory: those are given back together. (In a model, one.) Zero where nothing can be given back.
pub(super) fn entries_a_page() -> usize {
    if cfg!(loom) { 1 } else { page_size() / size_of::<Entry>() }
}

/// An array of entries, of which the first `issued` have been handed out.
///
/// Tasks that were still in entries would be leaked with it. None is: whoever takes an entry out of PENDING takes the task, and the
/// engine withdraws what is pending before it ends.
#[derive(Debug)]
pub(super) struct Chunk {
    entries: Zeroed<Entry>,
    issued: AtomicUsize,
    /// Entries before the first whole page.
    before_pages: usize,
    /// Whole pages: none of what was reserved, which stays.
    pages: usize,
    /// Of which these were given back, and belong to whoever clears their bit.
    given_back: [AtomicU64; WORDS],
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
        let mut chunk = Self::of(Zeroed::new(len)?)?;
        chunk.find_pages();
        Some(chunk)
    }

    /// The same, and every page of it is written to, so that the first use of an entry does not pay for a page fault (1.2 µs each).
    pub(super) fn reserved(len: usize) -> Option<Box<Self>> {
        let chunk = Self::of(Zeroed::to_be_filled(len)?)?;
        chunk.touch();
        Some(chunk)
    }

    /// None if the memory lies where it can't be used. The stacks in `shard` keep a count above the address, so that this has 48 bits. No system
    /// gives out other addresses unless asked to; but an allocator may put a tag into the highest ones.
    fn of(entries: Zeroed<Entry>) -> Option<Box<Self>> {
        debug_assert!(entries.len() > 0);
        let (first, bytes) = (entries.first().addr().get(), entries.len() * size_of::<Entry>());
        if first.checked_add(bytes).is_none_or(|end| end >> 48 != 0) {
            return None;
        }
        #[cfg(loom)]
        for index in 0..entries.len() {
            // SAFETY: in bounds of the allocation. (Zeroed memory is a free entry, but not one that loom knows of.)
            unsafe { entries.at(index).write(Entry::new_free()) };
        }
        Some(Box::new(Self {
            entries,
            issued: AtomicUsize::new(0),
            before_pages: 0,
            pages: 0,
            given_back: std::array::from_fn(|_| AtomicU64::new(0)),
            older: std::ptr::null_mut(),
        }))
    }

    fn find_pages(&mut self) {
        let a_page = entries_a_page();
        if a_page > 0 {
            let begins = self.entries.first().addr().get() / size_of::<Entry>();
            self.before_pages = if cfg!(loom) { 0 } else { begins.next_multiple_of(a_page) - begins };
            self.pages = (self.len().saturating_sub(self.before_pages) / a_page).min(WORDS * 64);
        }
    }

    /// How many whole pages it has that may be given back.
    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    /// Where its entries begin, and how many bytes they take.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.entries.first().addr().get(), self.len() * size_of::<Entry>())
    }

    /// Which of these pages an entry of the chunk lies in; none if it lies at an edge.
    pub(super) fn page_of(&self, entry: NonNull<Entry>) -> Option<usize> {
        let index = (entry.addr().get() - self.entries.first().addr().get()) / size_of::<Entry>();
        let page = index.checked_sub(self.before_pages)? / entries_a_page();
        (page < self.pages).then_some(page)
    }

    /// The index of the first entry of a page.
    fn first_of(&self, page: usize) -> usize {
        self.before_pages + page * entries_a_page()
    }

    /// Gives up so many pages, from one on, all of whose entries are the caller's. They go to whoever takes them next
    /// ([`take_given_back`](Self::take_given_back)). Returns how many bytes the system has got.
    ///
    /// # Safety
    /// The pages are this chunk's; their entries are free, and belong to the caller alone.
    pub(super) unsafe fn give_back(&self, from: usize, pages: usize) -> usize {
        let len = pages * entries_a_page();
        // SAFETY: as above.
        let is_gone = unsafe { self.entries.discard(self.first_of(from), len) };
        for page in from..from + pages {
            // Release: pairs with the Acquire in `take_given_back`.
            self.given_back[page / 64].fetch_or(1 << (page % 64), Ordering::Release);
        }
        if is_gone { len * size_of::<Entry>() } else { 0 }
    }

    /// The entries of a page that was given back, if there is one: the caller's, and as fresh.
    pub(super) fn take_given_back(&self) -> Option<Run> {
        for (index, word) in self.given_back.iter().enumerate().take(self.pages.div_ceil(64)) {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let lowest = bits & bits.wrapping_neg();
                // Acquire: pairs with the Release in `give_back`.
                bits = word.fetch_and(!lowest, Ordering::Acquire);
                if bits & lowest != 0 {
                    let page = index * 64 + lowest.trailing_zeros() as usize;
                    // SAFETY: a page of this chunk, so all of its entries are.
                    let first = unsafe { self.entries.at(self.first_of(page)) };
                    return Some(Run { first, len: entries_a_page() });
                }
            }
        }
        None
    }

    /// How many pages are given back now.
    pub(super) fn given_back(&self) -> usize {
        self.given_back.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    fn is_given_back(&self, index: usize) -> bool {
        let Some(entries) = index.checked_sub(self.before_pages) else { return false };
        let page = entries.checked_div(entries_a_page()).unwrap_or(self.pages);
        page < self.pages && self.given_back[page / 64].load(Ordering::Relaxed) >> (page % 64) & 1 == 1
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

    /// All entries that were ever handed out, but for those whose memory has been given back.
    pub(super) fn issued(&self) -> impl Iterator<Item = NonNull<Entry>> {
        let issued = self.issued.load(Ordering::Relaxed).min(self.len());
        // SAFETY: below `len`.
        (0..issued).filter(|&index| !self.is_given_back(index)).map(|index| unsafe { self.entries.at(index) })
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
