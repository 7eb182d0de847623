//! Memory for entries: chunks that are handed out in runs.

use std::ptr::{self, NonNull};

use crate::entry::{Entry, fits_links};
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::sys::memory::{Zeroed, page_size};

/// How many entries move between threads at a time. Few under loom and Miri, as all bounds of this
/// kind: they check what happens when a bound is reached.
pub(super) const A_FEW: usize = if cfg!(loom) {
    1
} else if cfg!(miri) {
    4
} else {
    64
};

/// Chunks double up to this many entries (2 MiB).
pub(crate) const LARGEST_CHUNK: usize = 32_768;

/// How many fresh entries a producer takes at a time: 4 KiB, one page.
pub(super) const RUN: usize = A_FEW;

/// Words with one bit for each page of the largest chunk that can be given back, and one word more,
/// because a chunk need not begin with a page.
const WORDS: usize = if cfg!(loom) { 1 } else { LARGEST_CHUNK * size_of::<Entry>() / 4096 / 64 + 1 };

/// Returns how many entries a page of memory holds: they are given back together. It is one in a
/// model, and zero where no memory can be given back.
pub(super) fn entries_a_page() -> usize {
    if cfg!(loom) { 1 } else { page_size() / size_of::<Entry>() }
}

/// Returns the place in memory of the page that an entry lies in, in pages. Call it only where the
/// system takes pages back: elsewhere a page holds no entries, and this would divide by zero.
pub(super) fn page_of(entry: NonNull<Entry>) -> usize {
    entry.addr().get() / size_of::<Entry>() / entries_a_page()
}

/// An array of entries, of which the first `issued` have been handed out.
///
/// Dropping it would leak tasks that are still in entries. There are none: the thread that takes an
/// entry out of PENDING takes its task, and the engine withdraws the pending entries before it
/// ends.
#[derive(Debug)]
pub(super) struct Chunk {
    entries: Zeroed<Entry>,
    issued: AtomicUsize,
    /// Entries before the first whole page.
    before_pages: usize,
    /// Whole pages that may be given back. Reserved memory stays, so it counts none.
    pub(super) pages: usize,
    /// A bit for each page that was given back. The page belongs to the thread that clears its bit.
    given_back: [AtomicU64; WORDS],
    /// The chunk that was the newest before this one; see [`Chunks`].
    older: *mut Chunk,
}

/// Fresh entries, one after the other in memory. They are the holder's.
#[derive(Debug)]
#[must_use = "the entries are lost if they are not kept"]
pub(super) struct Run {
    pub(super) first: NonNull<Entry>,
    pub(super) len: usize,
}

/// The chunks of an arena, from the newest on. Each stays where it is until the list is dropped.
#[derive(Debug)]
pub(super) struct Chunks {
    newest: AtomicPtr<Chunk>,
}

impl Chunks {
    pub(super) fn new(first: Option<Box<Chunk>>) -> Self {
        Self { newest: AtomicPtr::new(first.map_or(ptr::null_mut(), Box::into_raw)) }
    }

    pub(super) fn newest(&self) -> Option<&Chunk> {
        // Acquire: pairs with the Release in `add`, so that the chunk is seen initialised.
        let newest = self.newest.load(Ordering::Acquire);
        // SAFETY: null, or a chunk of the list, which stays until the list is dropped.
        unsafe { newest.as_ref() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Chunk> {
        std::iter::successors(self.newest(), |chunk| {
            // SAFETY: null, or a chunk of the list, which stays until the list is dropped. `older`
            // is not changed after the newer chunk's publication.
            unsafe { chunk.older.as_ref() }
        })
    }

    /// Adds a chunk if `newest` is still the newest one. Otherwise another thread was first: then
    /// this drops the chunk, and returns `false`.
    pub(super) fn add(&self, mut chunk: Box<Chunk>, newest: Option<&Chunk>) -> bool {
        let before = self.newest.load(Ordering::Relaxed);
        if !ptr::eq(before, newest.map_or(ptr::null(), ptr::from_ref)) {
            return false;
        }
        chunk.older = before;
        let chunk = Box::into_raw(chunk);
        // Release: pairs with the Acquire in `newest`.
        let is_added = self.newest.compare_exchange(before, chunk, Ordering::Release, Ordering::Relaxed).is_ok();
        if !is_added {
            // SAFETY: it was not published, so no other thread knows it.
            drop(unsafe { Box::from_raw(chunk) });
        }
        is_added
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        // Acquire: as in `newest`.
        let mut next = self.newest.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: made by `Box::into_raw`, and given up here once.
            let chunk = unsafe { Box::from_raw(next) };
            next = chunk.older;
        }
    }
}

impl Chunk {
    /// Returns a chunk of `len` free entries, or `None` if there is no memory. Does not touch the
    /// memory.
    pub(super) fn new(len: usize) -> Option<Box<Self>> {
        Self::of(Zeroed::new(len)?, entries_a_page())
    }

    /// Like `new`, but writes to every page, so that the first use of an entry does not pay for a
    /// page fault (1.2 µs each).
    pub(super) fn reserved(len: usize) -> Option<Box<Self>> {
        let chunk = Self::of(Zeroed::to_be_filled(len)?, 0)?;
        // In a model the memory holds loom's entries, not zeros.
        #[cfg(not(loom))]
        // SAFETY: the array was just made, and no entry of it was handed out.
        unsafe {
            chunk.entries.touch();
        }
        Some(chunk)
    }

    /// Returns `None` if links can't name the memory. Its whole pages, of `a_page` entries, may be
    /// given back, or none if that is zero.
    fn of(entries: Zeroed<Entry>, a_page: usize) -> Option<Box<Self>> {
        debug_assert!(entries.len() > 0);
        if !fits_links(entries.get(0).cast(), entries.len() * size_of::<Entry>()) {
            return None;
        }
        #[cfg(loom)]
        for index in 0..entries.len() {
            // SAFETY: a place of this array, which no other thread knows. (Zeroed memory is a free
            // entry, but loom does not know its atomics.)
            unsafe { entries.get(index).write(Entry::new_free()) };
        }
        let begins = if cfg!(loom) { 0 } else { entries.get(0).addr().get() / size_of::<Entry>() };
        let before_pages = begins.checked_next_multiple_of(a_page).map_or(0, |page| page - begins);
        let pages = entries.len().saturating_sub(before_pages).checked_div(a_page).unwrap_or(0);
        Some(Box::new(Self {
            entries,
            issued: AtomicUsize::new(0),
            before_pages,
            pages: pages.min(WORDS * 64),
            given_back: std::array::from_fn(|_| AtomicU64::new(0)),
            older: ptr::null_mut(),
        }))
    }

    /// Returns the [place](page_of) of a page.
    pub(super) fn place(&self, page: usize) -> usize {
        page_of(self.entries.get(self.first_of(page)))
    }

    /// Returns the index of the first entry of a page.
    fn first_of(&self, page: usize) -> usize {
        self.before_pages + page * entries_a_page()
    }

    /// Gives `pages` pages back to the system, from page `from` on. The next thread that calls
    /// [`take_given_back`](Self::take_given_back) gets a page's entries. Returns how many bytes the
    /// system has got.
    ///
    /// # Safety
    /// The pages are this chunk's. Their entries are free, and belong to the caller alone.
    pub(super) unsafe fn give_back(&self, from: usize, pages: usize) -> usize {
        let len = pages * entries_a_page();
        // SAFETY: they are whole pages of this chunk (`of`). All their entries are free and
        // the caller's, so nobody reads what is lost: zeros are free entries too.
        let is_gone = unsafe { self.entries.discard(self.first_of(from), len) };
        for page in from..from + pages {
            // Release: pairs with the Acquire in `take_given_back`.
            self.given_back[page / 64].fetch_or(1 << (page % 64), Ordering::Release);
        }
        if is_gone { len * size_of::<Entry>() } else { 0 }
    }

    /// Returns the entries of a page that was given back, or `None` if there is none. They are the
    /// caller's, and like fresh ones.
    pub(super) fn take_given_back(&self) -> Option<Run> {
        for (index, word) in self.given_back.iter().enumerate().take(self.pages.div_ceil(64)) {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let lowest = bits & bits.wrapping_neg();
                // Acquire: pairs with the Release in `give_back`.
                bits = word.fetch_and(!lowest, Ordering::Acquire);
                if bits & lowest != 0 {
                    let page = index * 64 + lowest.trailing_zeros() as usize;
                    return Some(Run { first: self.entries.get(self.first_of(page)), len: entries_a_page() });
                }
            }
        }
        None
    }

    /// Returns how many pages are given back now.
    pub(super) fn given_back(&self) -> usize {
        self.given_back.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    /// Returns whether a place lies in a page that is given back. A place at an edge of the chunk,
    /// outside of the whole pages, does not.
    fn is_given_back(&self, index: usize) -> bool {
        let page = index.checked_sub(self.before_pages).and_then(|index| index.checked_div(entries_a_page()));
        let is_set =
            |page: usize| Some(self.given_back.get(page / 64)?.load(Ordering::Relaxed) >> (page % 64) & 1 == 1);
        page.and_then(is_set).unwrap_or(false)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Hands out up to `RUN` fresh entries, or returns `None` if all have been handed out. Takes
    /// one read-modify-write a run.
    pub(super) fn take_run(&self) -> Option<Run> {
        // Relaxed: the number alone decides which thread owns which entries. The memory was
        // published with the chunk.
        if self.issued.load(Ordering::Relaxed) >= self.len() {
            return None;
        }
        let from = self.issued.fetch_add(RUN, Ordering::Relaxed);
        let len = self.len().saturating_sub(from).min(RUN);
        (len > 0).then(|| Run { first: self.entries.get(from), len })
    }

    /// Returns all entries that were ever handed out, except those whose memory has been given
    /// back.
    pub(super) fn issued(&self) -> impl Iterator<Item = &Entry> {
        let issued = self.issued.load(Ordering::Relaxed).min(self.len());
        (0..issued).filter(|&index| !self.is_given_back(index)).map(|index| {
            // SAFETY: a place of this array, in which zeros are a free entry. All fields of an
            // entry have interior mutability, so shared references never conflict.
            unsafe { self.entries.get(index).as_ref() }
        })
    }
}

#[cfg(loom)]
impl Drop for Chunk {
    fn drop(&mut self) {
        for index in 0..self.len() {
            // SAFETY: written in `of`, and dropped here once.
            unsafe { self.entries.get(index).drop_in_place() };
        }
    }
}
