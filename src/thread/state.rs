//! The state of each thread that uses an engine: free entries, home shard, counters.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use crossbeam_utils::CachePadded;

use super::sharded_ref::LocalRefs;
use super::tombstones::Tombstones;
use crate::arena::{Arena, EntryCache, Growth};
use crate::count::{Counter, Counts, Running};
use crate::entry::{Handle, Listed, Sole, Tomb};
use crate::shard::Remote;

/// One thread's part of one engine. Only the engine gives it out (`Shared::with_thread_state` and
/// the functions that it calls), and never to two threads at a time. The exceptions are the parts
/// that any thread may read or count in.
///
/// In this field order a schedule writes one cache line: the tombstones, the free entries and the
/// first of the counts.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ThreadState {
    /// Cancelled entries of the home shard, which this thread may revive in place.
    tombstones: Tombstones,
    free: EntryCache,
    /// What the thread did on its home shard.
    home_counts: Counts,
    /// The remote of the home shard, on which this thread schedules; null before it has scheduled
    /// anything.
    home: Cell<*const Remote>,
    /// The engine that it is a part of. Only `engine` knows its type.
    engine: NonNull<()>,
    /// The home shard's index plus one, for other threads; 0 if there is no home yet.
    known_home: Counter,
    /// What the thread did on each other shard. A pool's threads need it, and threads that schedule
    /// on a shard of their choice. Padded, because two threads' may lie side by side.
    other_shards: OnceLock<Box<[CachePadded<Counts>]>>,
    /// The batch of this engine that the thread is running.
    pub(crate) running: Running,
    /// References of the futures that it made. On another cache line, as other threads may drop
    /// them.
    refs: CachePadded<LocalRefs>,
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::offset_of;
    assert!(
        align_of::<ThreadState>() >= 64 && offset_of!(ThreadState, home_counts) + offset_of!(Counts, scheduled) < 64
    );
};

// SAFETY: other threads use only the counters and the references, which are atomic. The rest is
// private to this file, and only the thread that the state belongs to uses it.
unsafe impl Sync for ThreadState {}

impl ThreadState {
    /// Makes a state that is used with the engine at this address.
    ///
    /// # Safety
    /// This is the address of a `Shared`, which is there for as long as the state.
    pub(crate) unsafe fn of(engine: NonNull<()>) -> Self {
        Self {
            engine,
            free: EntryCache::new(),
            tombstones: Tombstones::new(),
            home: Cell::new(ptr::null()),
            known_home: Counter::default(),
            home_counts: Counts::default(),
            other_shards: OnceLock::new(),
            running: Running::default(),
            refs: CachePadded::new(LocalRefs::new()),
        }
    }

    /// Returns the engine that the state is used with, as given to [`of`](Self::of).
    #[inline]
    pub(crate) fn engine(&self) -> NonNull<()> {
        self.engine
    }

    /// Returns the remote of the home shard, on which this thread schedules. At the first call
    /// `choose` chooses one of the same engine. Not before that: workers and pool threads have
    /// states, too, to give entries back, and must not count when shards are dealt out.
    #[inline]
    pub(crate) fn home_or<'a>(&'a self, choose: impl FnOnce() -> &'a Remote) -> &'a Remote {
        // SAFETY: null, or a remote of the engine that this state is a part of, or, if threads
        // share it, of the engine that the caller has.
        if let Some(home) = unsafe { self.home.get().as_ref() } {
            return home;
        }
        let home = choose();
        self.home.set(home);
        self.known_home.set(home.index() as u64 + 1);
        home
    }

    /// Returns whether the remote, of the same engine, is that of the home shard.
    #[inline]
    fn is_home(&self, remote: &Remote) -> bool {
        ptr::eq(self.home.get(), remote)
    }

    /// Returns the counts for the shard of `remote`, one of `shards`. Only the thread that the
    /// state belongs to writes to them.
    #[inline]
    pub(crate) fn counts(&self, remote: &Remote, shards: usize) -> &Counts {
        if self.is_home(remote) { &self.home_counts } else { self.other_counts(remote.index(), shards) }
    }

    #[cold]
    fn other_counts(&self, shard: usize, shards: usize) -> &Counts {
        &self.other_shards.get_or_init(|| (0..shards).map(|_| CachePadded::default()).collect())[shard]
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

    /// Returns a free entry of the thread's entry cache.
    ///
    /// # Safety
    /// The state is the calling thread's.
    #[inline]
    pub(crate) unsafe fn take_free(&self) -> Option<Sole> {
        self.free.take()
    }

    /// Returns a free entry out of the arena, after the thread has used up its own, or `None` if
    /// the arena has none.
    ///
    /// # Safety
    /// The state is the calling thread's, and `arena` is its engine's.
    pub(crate) unsafe fn refill(&self, arena: &Arena) -> Option<Sole> {
        // SAFETY: the caller says that `arena` is the one that this cache is used with.
        unsafe { self.free.refill(arena) }
    }

    /// Grows the arena, and returns a free entry, or `None` if there is no memory.
    ///
    /// # Safety
    /// As for [`refill`](Self::refill).
    pub(crate) unsafe fn grow(&self, arena: &Arena, growth: Growth) -> Option<Sole> {
        // SAFETY: the caller says that `arena` is the one that this cache is used with.
        unsafe { self.free.grow(arena, growth) }
    }

    /// Returns a tombstone of `remote`. It is in that inbox, or was when it became a tombstone, and
    /// may be revived there.
    #[inline]
    pub(crate) fn take_tombstone(&self, remote: &Remote) -> Option<Tomb> {
        if self.is_home(remote) { self.tombstones.take() } else { None }
    }

    /// Puts the entry of a handle on the list of tombstones; see [`Tombstones::push`]. Returns
    /// `None` if it does not belong there, or the list is full.
    ///
    /// # Safety
    /// The state is the calling thread's, and the entry is at home at `remote`. What is returned
    /// goes to [`Handle::leave_tombstone`] or [`Handle::give_up`] next, for this handle, and if
    /// that fails to [`take_back_tombstone`](Self::take_back_tombstone) of this state.
    #[inline]
    pub(crate) unsafe fn put_tombstone(&self, handle: &Handle, remote: &Remote) -> Option<Listed> {
        // SAFETY: all entries of the list are of the thread's home, which, once there is one, stays
        // the same. The caller says what it does with the entry next.
        if self.is_home(remote) { unsafe { self.tombstones.push(handle) } } else { None }
    }

    /// Undoes the last [`put_tombstone`](Self::put_tombstone).
    pub(crate) fn take_back_tombstone(&self, listed: Listed) {
        self.tombstones.take_back(listed);
    }

    /// Gives the thread's free entries to the depot.
    ///
    /// # Safety
    /// The state is the calling thread's, and `arena` is its engine's.
    pub(crate) unsafe fn flush(&self, arena: &Arena) {
        // SAFETY: the caller says that `arena` is the one that this cache is used with.
        unsafe { self.free.flush(arena) };
    }

    /// Puts an entry back.
    ///
    /// # Safety
    /// As for [`refill`](Self::refill).
    #[inline]
    pub(crate) unsafe fn put_entry(&self, arena: &Arena, entry: Sole) {
        // SAFETY: the caller says that `arena` is the one that this cache is used with.
        unsafe { self.free.put(arena, entry) };
    }
}
