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

use std::collections::HashMap;

use super::Arena;
use super::Magazine;
use super::chunk::{A_FEW, entries_a_page, page_of};
use crate::entry::{Sole, Token};
use crate::sync::Ordering;

impl Arena {
    /// Gives back all pages whose entries are all in the depot. Returns how many bytes the system
    /// has got.
    ///
    /// A thread that needs entries meanwhile may find the depot empty, and take new memory.
    pub(crate) fn shrink(&self) -> usize {
        let Some(mut pages) = self.pages() else { return 0 };
        let mut free = self.take_depot(|entry| {
            if let Some(count) = pages.get_mut(&page_of(entry.address())) {
                *count += 1;
            }
        });
        // Only whole ones are given back.
        pages.retain(|_, count| *count == entries_a_page());
        let mut begun = None;
        while let Some((entry, others)) = free.map(Magazine::pop) {
            free = others;
            if pages.contains_key(&page_of(entry.address())) {
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
        for chunk in self.chunks.iter() {
            let mut page = 0;
            while page < chunk.pages {
                let len = (page..chunk.pages).take_while(|page| pages.contains_key(&chunk.place(*page))).count();
                if len > 0 {
                    // Before the pages can be taken, because the thread that takes one subtracts
                    // it.
                    self.given_back.fetch_add(len, Ordering::Relaxed);
                    // SAFETY: this thread has all of their entries, and has put none of them
                    // anywhere.
                    bytes += unsafe { chunk.give_back(page, len) };
                }
                page += len.max(1);
            }
        }
        bytes
    }

    /// Returns a count of zero for each page that may be given back, by [`page_of`]. Returns `None`
    /// if there is no memory to count with, or no such page.
    fn pages(&self) -> Option<HashMap<usize, usize>> {
        let mut counts = HashMap::new();
        counts.try_reserve(self.chunks.iter().map(|chunk| chunk.pages).sum()).ok()?;
        let places = self.chunks.iter().flat_map(|chunk| (0..chunk.pages).map(|page| chunk.place(page)));
        // If another thread adds a chunk meanwhile, some may be left out.
        counts.extend(places.take(counts.capacity()).map(|place| (place, 0)));
        (!counts.is_empty()).then_some(counts)
    }

    /// Takes all magazines, as one list of entries, and shows each entry to `look`.
    fn take_depot(&self, mut look: impl FnMut(&Sole)) -> Option<Magazine> {
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
