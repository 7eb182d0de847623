//! What each thread that uses an engine has of it for itself: free entries, a home shard, counters.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use crossbeam_utils::CachePadded;

use super::sharded_ref::LocalRefs;
use super::tombstones::Tombstones;
use crate::arena::{Arena, EntryCache, Growth};
use crate::count::{Counter, Counts, Running};
use crate::entry::Entry;
use crate::shard::Remote;

/// One thread's part of one engine. Reached through the engine only ([`Shared::with_thread_state`](super::Shared::with_thread_state) and what it
/// is made of), which gives it to no two threads at a time, but for what any thread may look at, or count.
///
/// In this order, what a schedule writes is one cache line: the kept and the free entries, and the first of the counts.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ThreadState {
    /// Entries on the home shard that were cancelled, to be armed again where they are.
    tombstones: Tombstones,
    free: EntryCache,
    /// What it did on its home shard.
    home_counts: Counts,
    /// The remote of the shard that this thread schedules on, once it has scheduled anything; null before.
    home: Cell<*const Remote>,
    /// The engine that it is a part of; null in one that threads share. Only `engine` knows its type.
    engine: *const (),
    /// Its index, plus one, for other threads; 0 if there is none yet.
    known_home: Counter,
    /// What it did on each shard, as far as that is not its home: few threads ever need it.
    other_shards: OnceLock<Box<[Counts]>>,
    /// The batch of this engine that the thread is running.
    pub(crate) running: Running,
    /// Of futures that it made. Apart, as other threads may drop them.
    refs: CachePadded<LocalRefs>,
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::offset_of;
    assert!(
        align_of::<ThreadState>() >= 64 && offset_of!(ThreadState, home_counts) + offset_of!(Counts, scheduled) < 64
    );
};

// SAFETY: other threads use the counters and the references only, which are atomic; the rest is private to this file, and is used by
// the thread that the producer belongs to.
unsafe impl Sync for ThreadState {}

impl ThreadState {
    /// A thread's own; `engine` is what it will be a part of.
    pub(crate) fn of(engine: *const ()) -> Self {
        Self { engine, ..Self::in_teardown() }
    }

    /// One for threads in teardown, which have none of their own any more and share it.
    pub(crate) fn in_teardown() -> Self {
        Self {
            engine: ptr::null(),
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

    /// The engine that a thread's own state is a part of, as [`of`](Self::of) was told.
    #[inline]
    pub(crate) fn engine(&self) -> *const () {
        self.engine
    }

    /// The remote of the shard that this thread schedules on; chosen by `choose`, of the producer's engine, at the first call. (Not before:
    /// workers and pool threads have producers, too, to give entries back, and must not count when shards are dealt out.)
    #[inline]
    pub(crate) fn home_or<'a>(&'a self, choose: impl FnOnce() -> &'a Remote) -> &'a Remote {
        // SAFETY: null, or a remote of the engine that this producer, too, is a part of, or that its user has.
        if let Some(home) = unsafe { self.home.get().as_ref() } {
            return home;
        }
        let home = choose();
        self.home.set(home);
        self.known_home.set(home.index() as u64 + 1);
        home
    }

    /// Whether the remote, of the same engine, is that of the thread's home shard.
    #[inline]
    fn is_home(&self, remote: &Remote) -> bool {
        ptr::eq(self.home.get(), remote)
    }

    /// The counts, to be written by the thread that the producer belongs to, for the shard of `remote`, one of `shards`.
    #[inline]
    pub(crate) fn counts(&self, remote: &Remote, shards: usize) -> &Counts {
        if self.is_home(remote) { &self.home_counts } else { self.other_counts(remote.index(), shards) }
    }

    #[cold]
    fn other_counts(&self, shard: usize, shards: usize) -> &Counts {
        &self.other_shards.get_or_init(|| (0..shards).map(|_| Counts::default()).collect())[shard]
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

    /// The references that the thread has made, and the threads that had its number before.
    #[inline]
    pub(crate) fn refs(&self) -> &LocalRefs {
        &self.refs
    }

    /// A free entry that the thread has at hand.
    ///
    /// # Safety
    /// The state is the calling thread's.
    #[inline]
    pub(crate) unsafe fn take_free(&self) -> Option<NonNull<Entry>> {
        self.free.take()
    }

    /// A free entry out of the arena, after the thread has used up its own; none if there is none.
    ///
    /// # Safety
    /// The state is the calling thread's, and `arena` is its engine's.
    pub(crate) unsafe fn refill(&self, arena: &Arena) -> Option<NonNull<Entry>> {
        // SAFETY: handed on.
        unsafe { self.free.refill(arena) }
    }

    /// A free entry, for which the arena grows; none if there is no memory.
    ///
    /// # Safety
    /// As for [`refill`](Self::refill).
    pub(crate) unsafe fn grow(&self, arena: &Arena, growth: Growth) -> Option<NonNull<Entry>> {
        // SAFETY: handed on.
        unsafe { self.free.grow(arena, growth) }
    }

    /// A free entry that will be no timeout's; none if there is no memory for one. Waits for nobody.
    ///
    /// # Safety
    /// As for [`take_entry`](Self::take_entry).
    #[inline]
    pub(crate) unsafe fn take_node(&self, arena: &Arena) -> Option<NonNull<Entry>> {
        // SAFETY: handed on.
        let refill = || unsafe { self.free.refill(arena) };
        // SAFETY: handed on.
        let grow = || unsafe { self.free.grow(arena, Growth::Double) };
        let node = self.free.take().or_else(refill).or_else(grow)?;
        #[cfg(loom)]
        // SAFETY: just taken.
        unsafe { crate::entry::entry_ref(node) }.set_in_use(true);
        Some(node)
    }

    /// An entry that lies in the inbox of `remote`, or did when it was kept, and may be armed again there.
    #[inline]
    pub(crate) fn take_tombstone(&self, remote: &Remote) -> Option<NonNull<Entry>> {
        if self.is_home(remote) { self.tombstones.take() } else { None }
    }

    /// Puts an entry of `remote` among the kept ones, if it can be one of these; see [`Tombstones::push`].
    ///
    /// # Safety
    /// As there; and the producer is the calling thread's.
    #[inline]
    pub(crate) unsafe fn put_tombstone(&self, entry: NonNull<Entry>, remote: &Remote) -> bool {
        // SAFETY: handed on; a home, once there is one, stays the same.
        self.is_home(remote) && unsafe { self.tombstones.push(entry) }
    }

    /// Undoes that.
    pub(crate) fn take_back_tombstone(&self) {
        self.tombstones.take_back();
    }

    /// Gives the thread's free entries to the depot.
    ///
    /// # Safety
    /// The producer is the calling thread's, and `arena` is its engine's.
    pub(crate) unsafe fn flush(&self, arena: &Arena) {
        // SAFETY: handed on.
        unsafe { self.free.flush(arena) };
    }

    /// Puts an entry back.
    ///
    /// # Safety
    /// As for [`take_entry`](Self::take_entry), and the caller is the entry's sole owner.
    #[inline]
    pub(crate) unsafe fn put_entry(&self, arena: &Arena, entry: NonNull<Entry>) {
        // SAFETY: handed on.
        unsafe { self.free.put(arena, entry) };
    }
}
