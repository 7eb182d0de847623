//! The state of each thread that uses an engine: free entries, home shard, counters.

use std::cell::Cell;
use std::ptr;

use crossbeam_utils::CachePadded;

use super::sharded_ref::LocalRefs;
use super::tombstones::Tombstones;
use crate::arena::EntryCache;
use crate::count::{Counter, Counts, Running};
use crate::shard::{EngineAddress, Remote};
use crate::sync::OnceLock;

/// One thread's part of one engine. What only that thread may touch is behind a [`Bound`], which
/// [`Local`](super::Local) opens. Any thread may read the rest, and count in it.
///
/// In this field order a schedule writes one cache line: the tombstones, the free entries and the
/// first of the counts.
#[repr(C)]
pub(crate) struct ThreadState {
    pub(super) own: Bound<Own>,
    /// What the thread did on its home shard.
    pub(super) home_counts: Counts,
    /// The remote of the home shard, on which this thread schedules; null before it has scheduled
    /// anything.
    pub(super) home: Bound<Cell<*const Remote>>,
    /// The engine that it is a part of.
    engine: EngineAddress,
    /// The home shard's index plus one, for other threads; 0 if there is no home yet.
    pub(super) known_home: Counter,
    /// What the thread did on each other shard. A pool's threads need it, and threads that schedule
    /// on a shard of their choice. Padded, because two threads' may lie side by side.
    pub(super) other_shards: OnceLock<Box<[CachePadded<Counts>]>>,
    /// The batch of this engine that the thread is running.
    pub(crate) running: Running,
    /// References of the futures that it made. On another cache line, as other threads may drop
    /// them.
    refs: CachePadded<LocalRefs>,
}

/// The entries that only the thread itself takes and puts.
#[repr(C)]
pub(super) struct Own {
    /// Cancelled entries of the home shard, which this thread may revive in place.
    pub(super) tombstones: Tombstones,
    pub(super) free: EntryCache,
}

/// A value that belongs to one thread, in a place that other threads can reach.
#[repr(transparent)]
pub(super) struct Bound<T>(T);

// SAFETY: only `get` gives the value out, and only to its thread.
unsafe impl<T> Sync for Bound<T> {}
// SAFETY: a state changes its thread only while nobody uses it: before it is shared, at the end of
// its thread, and when it is dropped. It alone has such values, and all that they point to, entries
// and a remote, are parts of its engine.
unsafe impl<T> Send for Bound<T> {}

impl<T> Bound<T> {
    /// # Safety
    /// The calling thread is the one that the value belongs to, or holds the lock under which
    /// threads share it, for as long as it uses what is returned.
    #[inline]
    pub(super) unsafe fn get(&self) -> &T {
        &self.0
    }
}

#[cfg(all(not(loom), target_pointer_width = "64"))]
const _: () = {
    use std::mem::offset_of;
    assert!(
        align_of::<ThreadState>() >= 64 && offset_of!(ThreadState, home_counts) + offset_of!(Counts, scheduled) < 64
    );
};

impl ThreadState {
    /// Makes a state that is used with the engine at this address.
    ///
    /// # Safety
    /// This is the address of a `Shared`, which is there for as long as the state.
    pub(crate) unsafe fn of(engine: EngineAddress) -> Self {
        Self {
            engine,
            own: Bound(Own { tombstones: Tombstones::new(), free: EntryCache::new() }),
            home: Bound(Cell::new(ptr::null())),
            known_home: Counter::default(),
            home_counts: Counts::default(),
            other_shards: OnceLock::new(),
            running: Running::default(),
            refs: CachePadded::default(),
        }
    }

    /// Returns the engine that the state is used with, as given to [`of`](Self::of).
    #[inline]
    pub(crate) fn engine(&self) -> EngineAddress {
        self.engine
    }

    /// Sums one of the counts over one shard, or over all.
    pub(crate) fn sum(&self, shard: Option<usize>, count: impl Fn(&Counts) -> u64) -> u64 {
        let is_home = |shard| self.known_home.get() == shard as u64 + 1;
        let home_counts = if shard.is_none_or(is_home) { count(&self.home_counts) } else { 0 };
        let other_shards = self.other_shards.get().map_or(&[][..], |counts| counts);
        let other_shards =
            other_shards.iter().enumerate().filter(|(index, _)| shard.is_none_or(|shard| shard == *index));
        home_counts + other_shards.map(|(_, counts)| count(counts)).sum::<u64>()
    }

    /// Returns the references that this thread has made, and threads that had its number before.
    #[inline]
    pub(crate) fn refs(&self) -> &LocalRefs {
        &self.refs
    }
}
