//! The entry cache: one thread's free entries.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::Arena;
use super::Magazine;
use super::chunk::{A_FEW, Run};
use crate::entry::{Entry, Sole, Token};
use crate::sync::prefetch;

/// Entries in a full magazine. A thread keeps two magazines, so that taking and giving back in turn
/// does not go to the depot each time.
const MAGAZINE: usize = A_FEW;

/// A thread's free entries: two magazines, and a run of fresh entries. Two threads must not use it
/// at the same time.
#[derive(Debug, Default)]
pub(crate) struct EntryCache {
    /// A list of `free_len` free entries, which only `put` and `open` fill.
    free: Cell<*mut Entry>,
    /// Such a list that was full, so it has `MAGAZINE` entries.
    spare: Cell<Option<NonNull<Entry>>>,
    /// The rest of a run of fresh entries.
    fresh: Cell<*mut Entry>,
    free_len: Cell<u16>,
    fresh_len: Cell<u16>,
}

// SAFETY: free entries belong to the thread that holds them.
unsafe impl Send for EntryCache {}

impl EntryCache {
    #[inline]
    fn has_fresh(&self) -> bool {
        self.fresh_len.get() > 0
    }

    /// Returns the first entry of a full magazine, and keeps the others.
    #[cold]
    fn open(&self, magazine: Magazine) -> Sole {
        debug_assert_eq!(self.free_len.get(), 0, "the list is empty");
        let (first, others) = magazine.pop();
        let (rest, len) = others.map_or((ptr::null_mut(), 0), Magazine::into_list);
        self.free.set(rest);
        self.free_len.set(short(len));
        first
    }

    /// Returns the cache together with its arena.
    ///
    /// # Safety
    /// `arena` is the one that this `EntryCache` has always been used with.
    #[inline]
    pub(crate) unsafe fn with<'a>(&'a self, arena: &'a Arena) -> ArenaCache<'a> {
        ArenaCache { cache: self, arena }
    }

    fn begin(&self, run: Run) -> Sole {
        let Run { first, len } = run;
        self.fresh.set(first.as_ptr().wrapping_add(1));
        self.fresh_len.set(short(len - 1));
        sole(first)
    }

    #[cold]
    fn change_magazine(&self, arena: &Arena) {
        if let Some(first) = self.spare.replace(NonNull::new(self.free.get())) {
            arena.depot.put(Magazine { first, len: MAGAZINE });
        }
        self.free.set(ptr::null_mut());
        self.free_len.set(0);
    }
}

/// An entry cache, and the arena that its entries are of.
#[derive(Clone, Copy)]
pub(crate) struct ArenaCache<'a> {
    cache: &'a EntryCache,
    arena: &'a Arena,
}

impl ArenaCache<'_> {
    /// Returns a free entry, which is the caller's. Returns `None` if the cache is empty: then the
    /// caller asks the arena for more ([`refill`](Self::refill)).
    #[inline]
    pub(crate) fn take(self) -> Option<Sole> {
        let cache = self.cache;
        if let Some(entry) = NonNull::new(cache.free.get()) {
            let entry = sole(entry);
            let next = entry.next();
            prefetch(next);
            cache.free.set(next);
            cache.free_len.set(cache.free_len.get() - 1);
            return Some(entry);
        }
        // Entries that were used before go first.
        if cache.has_fresh() && cache.spare.get().is_none() {
            let entry = cache.fresh.get();
            cache.fresh.set(entry.wrapping_add(1));
            cache.fresh_len.set(cache.fresh_len.get() - 1);
            return NonNull::new(entry).map(sole);
        }
        cache.spare.take().map(|first| cache.open(Magazine { first, len: MAGAZINE }))
    }

    /// Returns a free entry of the arena, and keeps more for the next calls. Returns `None` if the
    /// arena has to [`grow`](Self::grow) first.
    pub(crate) fn refill(self) -> Option<Sole> {
        let Self { cache, arena } = self;
        debug_assert!(!cache.has_fresh() && cache.spare.get().is_none(), "only after `take` has found nothing");
        arena.depot.take().map(|magazine| cache.open(magazine)).or_else(|| arena.take_run().map(|run| cache.begin(run)))
    }

    /// Returns a fresh entry out of new memory, for `most` entries at most. Returns `None` if there
    /// is no memory.
    pub(crate) fn grow(self, most: usize) -> Option<Sole> {
        debug_assert!(!self.cache.has_fresh(), "only after `take` has found nothing");
        self.arena.grow(most).map(|run| self.cache.begin(run))
    }

    /// Puts an entry of this arena back. May push a magazine to the depot.
    #[inline]
    pub(crate) fn put(self, entry: Sole) {
        #[cfg(loom)]
        entry.set_in_use(false);
        let cache = self.cache;
        if usize::from(cache.free_len.get()) == MAGAZINE {
            cache.change_magazine(self.arena);
        }
        entry.set_next(cache.free.get());
        cache.free.set(entry.into_raw().as_ptr());
        cache.free_len.set(cache.free_len.get() + 1);
    }

    /// Gives all entries to the depot, except the rest of a run of fresh ones.
    pub(crate) fn flush(self) {
        let Self { cache, arena } = self;
        if let Some(first) = cache.spare.take() {
            arena.depot.put(Magazine { first, len: MAGAZINE });
        }
        if let Some(first) = NonNull::new(cache.free.replace(ptr::null_mut())) {
            arena.depot.put(Magazine { first, len: cache.free_len.replace(0).into() });
        }
    }
}

/// Takes an entry out of a list of free ones, a magazine or a run.
#[inline]
fn sole(entry: NonNull<Entry>) -> Sole {
    // SAFETY: a free entry has no owner but the holder of the list, magazine or run that it is in,
    // and this file takes each out once.
    unsafe { Sole::new(entry) }
}

/// The length of a magazine or of a run, which is a page at most.
fn short(len: usize) -> u16 {
    u16::try_from(len).expect("a page has fewer entries")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::chunk::{Chunk, LARGEST_CHUNK, entries_a_page};
    use super::*;
    use std::collections::HashSet;

    fn of<'a>(cache: &'a EntryCache, arena: &'a Arena) -> ArenaCache<'a> {
        // SAFETY: each test uses a cache with one arena.
        unsafe { cache.with(arena) }
    }

    /// Takes `n` distinct entries.
    fn take(cache: &EntryCache, arena: &Arena, n: usize) -> Vec<Sole> {
        let mut taken = Vec::new();
        for _ in 0..n {
            let entry = of(cache, arena).take().or_else(|| of(cache, arena).refill());
            taken.push(entry.unwrap_or_else(|| of(cache, arena).grow(LARGEST_CHUNK).expect("memory")));
        }
        let distinct: HashSet<_> = taken.iter().map(|entry| std::ptr::from_ref::<Entry>(entry)).collect();
        assert_eq!(distinct.len(), n, "no entry is given out twice");
        taken
    }

    fn put(cache: &EntryCache, arena: &Arena, entries: Vec<Sole>) {
        entries.into_iter().for_each(|entry| of(cache, arena).put(entry));
    }

    #[test]
    fn entries_are_recycled_within_a_thread() {
        let arena = Arena::new(0).expect("memory");
        let cache = EntryCache::default();
        let (rounds, most) = if cfg!(miri) { (3, 200) } else { (100, 1000) };
        for n in [1, 63, 64, 65, 127, 128, 129, most] {
            let taken = take(&cache, &arena, n);
            put(&cache, &arena, taken);
        }
        let capacity = arena.capacity();
        for _ in 0..rounds {
            let taken = take(&cache, &arena, most);
            put(&cache, &arena, taken);
        }
        assert_eq!(arena.capacity(), capacity, "nothing was allocated once there was enough");
    }

    #[test]
    fn entries_come_home_from_a_thread_that_only_gives_back() {
        let arena = Arena::new(0).expect("memory");
        let (thread, worker) = (EntryCache::default(), EntryCache::default());
        for _ in 0..if cfg!(miri) { 5 } else { 1000 } {
            let taken = take(&thread, &arena, 640);
            put(&worker, &arena, taken);
        }
        assert!(arena.capacity() <= 2048, "{} entries for 640 in use", arena.capacity());
    }

    #[test]
    #[cfg_attr(miri, ignore = "its numbers are those of the real sizes, and many")]
    fn a_thread_that_has_taken_and_then_gives_back_keeps_two_magazines_at_most() {
        let arena = Arena::new(0).expect("memory");
        let (thread, both) = (EntryCache::default(), EntryCache::default());
        let taken = take(&thread, &arena, 640);
        put(&thread, &arena, taken);
        let capacity = arena.capacity();
        // Take one entry out of a magazine from the depot, and not the last of that magazine.
        let one = take(&both, &arena, 1);
        put(&both, &arena, one);
        for _ in 0..1000 {
            let taken = take(&thread, &arena, 448);
            put(&both, &arena, taken);
        }
        assert_eq!(arena.capacity(), capacity, "448 in use, 128 and a begun magazine with each");
    }

    #[test]
    #[cfg_attr(miri, ignore = "its numbers are those of the real sizes, and many")]
    fn chunks_double_up_to_the_largest_so_that_there_are_few() {
        let arena = Arena::new(0).expect("memory");
        take(&EntryCache::default(), &arena, 140_000);
        let mut lens: Vec<_> = arena.chunks.iter().map(Chunk::len).collect();
        lens.reverse();
        assert_eq!(lens, [64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 32_768, 32_768, 32_768]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing goes back to the system there")]
    fn pages_that_were_given_back_are_used_before_new_memory_and_what_stayed_is_in_whole_magazines() {
        let arena = Arena::new(0).expect("memory");
        let cache = EntryCache::default();
        // All of six chunks.
        let mut taken = take(&cache, &arena, 4_032);
        let chunks = arena.chunks.iter().count();
        // Some pages are free, and of the others an entry is in use.
        let (_kept, others): (Vec<_>, Vec<_>) =
            taken.split_off(2_048).into_iter().enumerate().partition(|(nth, _)| nth % 64 == 0);
        put(&cache, &arena, taken);
        put(&cache, &arena, others.into_iter().map(|(_, entry)| entry).collect());
        of(&cache, &arena).flush();
        assert!(arena.shrink() > 0);
        let first = of(&cache, &arena).refill().expect("some have stayed");
        assert_eq!(usize::from(cache.free_len.get()), MAGAZINE - 1);
        put(&cache, &arena, vec![first]);
        take(&cache, &arena, 4_000);
        assert_eq!(arena.chunks.iter().count(), chunks);
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing goes back to the system there")]
    fn the_final_sweep_looks_at_all_entries_but_those_of_pages_that_were_given_back() {
        let arena = Arena::new(0).expect("memory");
        let cache = EntryCache::default();
        // All of seven chunks. Of about every other page an entry is in use.
        let is_kept = |nth: usize| nth.is_multiple_of(2 * entries_a_page());
        let (_kept, others): (Vec<_>, Vec<_>) =
            take(&cache, &arena, 8_128).into_iter().enumerate().partition(|(nth, _)| is_kept(*nth));
        put(&cache, &arena, others.into_iter().map(|(_, entry)| entry).collect());
        of(&cache, &arena).flush();
        assert!(arena.shrink() > 0);
        assert_eq!(arena.entries().count(), arena.capacity());
    }

    #[test]
    fn reserved_memory_is_used_before_new_memory() {
        let arena = Arena::new(1000).expect("memory");
        take(&EntryCache::default(), &arena, 1000);
        assert_eq!(arena.capacity(), 1000);
    }
}
