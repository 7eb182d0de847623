//! Gives memory that no timeout uses back to the system, a page at a time.
//!
//! Entries are not unmapped while the engine lives, because a thread that still has an entry's
//! address may look at it. The system gets back the memory behind a page whose entries are all
//! free. Those entries read as zero afterwards, which is a free entry, and take no memory before
//! they are used again.
//!
//! *A page belongs to one party.* Its entries are free and belong to the thread that took them out
//! of the depot, so no other thread uses them. By setting the page's bit that thread gives all of
//! them up at once. The thread that clears the bit owns all of them, and hands them out as fresh
//! ones.

use std::ptr;

use super::Arena;
use super::Magazine;
use super::chunk::{A_FEW, Chunk, entries_a_page};
use crate::entry::{Entry, Token};
use crate::sync::Ordering;

/// Counts how many free entries of each page the caller holds.
struct Pages<'a> {
    /// Sorted by address, each with the index of its first count.
    chunks: Vec<(&'a Chunk, usize)>,
    counts: Vec<u16>,
}

impl<'a> Pages<'a> {
    /// Returns `None` if there is no memory to count with, or nothing that could be given back.
    fn of(arena: &'a Arena) -> Option<Self> {
        let mut this = Self { chunks: Vec::new(), counts: Vec::new() };
        let chunks = || arena.chunks.iter().filter(|chunk| chunk.pages > 0);
        this.chunks.try_reserve_exact(chunks().count() + 1).ok()?;
        // A chunk that another thread adds meanwhile is left out.
        this.chunks.extend(chunks().take(this.chunks.capacity()).map(|chunk| (chunk, 0)));
        this.chunks.sort_unstable_by_key(|(chunk, _)| chunk.place());
        let mut pages = 0;
        for (chunk, begin) in &mut this.chunks {
            *begin = pages;
            pages += chunk.pages;
        }
        this.counts.try_reserve_exact(pages).ok()?;
        this.counts.resize(pages, 0);
        (pages > 0).then_some(this)
    }

    /// Returns the count of the page that an entry lies in, or `None` if that page may not be given
    /// back.
    fn count(&mut self, entry: &Entry) -> Option<&mut u16> {
        let at = ptr::from_ref(entry).addr();
        let index = self.chunks.partition_point(|(chunk, _)| chunk.place().0 <= at).checked_sub(1)?;
        let (chunk, begin) = self.chunks[index];
        let (first, len) = chunk.place();
        let page = (at - first < len).then(|| chunk.page_of(entry)).flatten()?;
        Some(&mut self.counts[begin + page])
    }

    fn is_whole(count: u16) -> bool {
        usize::from(count) == entries_a_page()
    }
}

impl Arena {
    /// Gives back all pages whose entries are all in the depot. Returns how many bytes the system
    /// has got.
    ///
    /// A thread that needs entries meanwhile may find the depot empty, and take new memory.
    pub(crate) fn shrink(&self) -> usize {
        let Some(mut pages) = Pages::of(self) else { return 0 };
        let mut free = self.take_depot(|entry| {
            if let Some(count) = pages.count(entry) {
                *count += 1;
            }
        });
        let mut begun = None;
        while let Some((entry, others)) = free.map(Magazine::pop) {
            free = others;
            if pages.count(&entry).is_some_and(|count| Pages::is_whole(*count)) {
                // It goes with its page below.
                entry.into_raw();
                continue;
            }
            begun = Some(Magazine::push(begun, entry));
            if let Some(full) = begun.take_if(|magazine| magazine.len == A_FEW) {
                self.depot.put(full);
            }
        }
        begun.into_iter().for_each(|rest| self.depot.put(rest));
        let mut bytes = 0;
        for (chunk, begin) in &pages.chunks {
            let counts = &pages.counts[*begin..begin + chunk.pages];
            let mut page = 0;
            for run in counts.chunk_by(|a, b| Pages::is_whole(*a) == Pages::is_whole(*b)) {
                if Pages::is_whole(run[0]) {
                    // Before the pages can be taken, because the thread that takes one subtracts
                    // it.
                    self.given_back.fetch_add(run.len(), Ordering::Relaxed);
                    // SAFETY: this thread has all of their entries, and has put none of them
                    // anywhere.
                    bytes += unsafe { chunk.give_back(page, run.len()) };
                }
                page += run.len();
            }
        }
        bytes
    }

    /// Takes all magazines, as one list of entries, and shows each entry to `look`.
    fn take_depot(&self, mut look: impl FnMut(&Entry)) -> Option<Magazine> {
        let mut all = None;
        // Bounded by the memory there is now, as other threads may add magazines all the time.
        for _ in 0..=self.capacity() / A_FEW {
            let mut magazine = self.depot.take();
            if magazine.is_none() {
                break;
            }
            while let Some((entry, others)) = magazine.map(Magazine::pop) {
                look(&entry);
                all = Some(Magazine::push(all, entry));
                magazine = others;
            }
        }
        all
    }
}
