//! One thread's part of an engine: its free entries, its tombstones, its counts, its references.
//! [`NoWait`] says whether the thread may wait for a worker of any engine.

mod sharded_ref;
mod tombstones;

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

use crossbeam_utils::CachePadded;

pub(crate) use sharded_ref::{LocalRefs, ShardedRef};
use tombstones::Tombstones;

use crate::arena::{Arena, ArenaCache, EntryCache};
use crate::count::{Counter, Counts, Running};
use crate::entry::{Handle, Sole, Tomb};
use crate::shard::{EngineAddress, Remote};
use crate::sync::{OnceLock, get_or_set};

/// One thread's part of one engine. The fields that only that thread may touch are behind a
/// [`Bound`], which [`Local`] opens. Any thread may read the rest, and count in it.
///
/// In this field order a schedule writes one cache line: the tombstones, the free entries and the
/// first of the counts.
#[repr(C)]
pub(crate) struct ThreadState {
    own: Bound<Own>,
    /// The thread's counts for its home shard.
    home_counts: Counts,
    /// The remote of the home shard, on which this thread schedules; null before it has scheduled
    /// anything.
    home: Bound<Cell<*const Remote>>,
    /// The engine that it is a part of.
    engine: EngineAddress,
    /// The home shard's index plus one, for other threads; 0 if there is no home yet.
    known_home: Counter,
    /// The thread's counts for each other shard. A pool's threads need them, and threads that
    /// schedule on a shard of their choice. Padded, because two threads' may lie side by side.
    other_shards: OnceLock<Box<[CachePadded<Counts>]>>,
    /// The batch of this engine that the thread is running.
    pub(crate) running: Running,
    /// References of the futures that it made, or a thread that had its number before. On another
    /// cache line, as other threads may drop them.
    pub(crate) refs: CachePadded<LocalRefs>,
}

/// The entries that only the thread itself takes and puts.
#[repr(C)]
struct Own {
    /// Cancelled entries of the home shard, which this thread may revive in place.
    tombstones: Tombstones,
    free: EntryCache,
}

/// A value that belongs to one thread, in a place that other threads can reach.
#[repr(transparent)]
struct Bound<T>(T);

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
    unsafe fn get(&self) -> &T {
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
            own: Bound(Own { tombstones: Tombstones::default(), free: EntryCache::default() }),
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
}

/// The calling thread's state, with the arena of its engine. It can't be sent to another thread. So
/// what it offers takes no `unsafe`: the state is the caller's, and the free entries that it takes
/// are of that arena.
///
/// A thread in teardown has the state that such threads share, and holds its lock.
#[derive(Clone, Copy)]
pub(crate) struct Local<'a> {
    state: &'a ThreadState,
    arena: &'a Arena,
    not_send: PhantomData<*const ()>,
}

impl<'a> Local<'a> {
    /// # Safety
    /// The state is the calling thread's, or the calling thread holds the lock of it for `'a`.
    /// `arena` is that of the state's engine.
    #[inline]
    pub(crate) unsafe fn new(state: &'a ThreadState, arena: &'a Arena) -> Self {
        Self { state, arena, not_send: PhantomData }
    }

    /// Returns the state, for as long as the engine, for those of its parts that any thread may
    /// read.
    #[inline]
    pub(crate) fn state(self) -> &'a ThreadState {
        self.state
    }

    #[inline]
    fn own(self) -> &'a Own {
        // SAFETY: a `Local` is made for the calling thread's own state, or under the lock of the
        // shared one, and does not leave the thread (it is not `Send`).
        unsafe { self.state.own.get() }
    }

    #[inline]
    fn home(self) -> &'a Cell<*const Remote> {
        // SAFETY: a `Local` is made for the calling thread's own state, or under the lock of the
        // shared one, and does not leave the thread (it is not `Send`).
        unsafe { self.state.home.get() }
    }

    /// Returns the remote of the home shard, on which this thread schedules. At the first call
    /// `choose` chooses one. Not before that: workers and pool threads have states, too, to give
    /// entries back, and must not count when shards are dealt out.
    #[inline]
    pub(crate) fn home_or(self, choose: impl FnOnce() -> &'a Remote) -> &'a Remote {
        // SAFETY: null, or a remote of the state's engine, as is checked below. It is there as long
        // as the state.
        if let Some(home) = unsafe { self.home().get().as_ref() } {
            return home;
        }
        let home = choose();
        assert!(home.engine() == self.state.engine(), "a thread's home is a shard of its engine");
        self.home().set(home);
        self.state.known_home.set(home.index() as u64 + 1);
        home
    }

    /// Returns whether the remote, of the same engine, is that of the home shard.
    #[inline]
    fn is_home(self, remote: &Remote) -> bool {
        ptr::eq(self.home().get(), remote)
    }

    /// Returns the thread's counts for the shard of `remote`, one of `shards`.
    #[inline]
    pub(crate) fn counts(self, remote: &Remote, shards: usize) -> &'a Counts {
        if self.is_home(remote) { &self.state.home_counts } else { self.other_counts(remote.index(), shards) }
    }

    #[cold]
    fn other_counts(self, shard: usize, shards: usize) -> &'a Counts {
        let make = || (0..shards).map(|_| CachePadded::default()).collect();
        &get_or_set(&self.state.other_shards, make)[shard]
    }

    /// Returns the thread's free entries, with their arena.
    #[inline]
    pub(crate) fn cache(self) -> ArenaCache<'a> {
        // SAFETY: the state and the arena are of one engine.
        unsafe { self.own().free.with(self.arena) }
    }

    /// Puts an entry of this engine back.
    #[inline]
    pub(crate) fn put_entry(self, entry: Sole) {
        debug_assert!(
            entry.home().is_none_or(|home| Remote::at(home).engine() == self.state.engine()),
            "of this engine"
        );
        self.cache().put(entry);
    }

    /// Returns a tombstone of `remote`. It is in that inbox or in a slot, or was when it became a
    /// tombstone, and may be revived there.
    #[inline]
    pub(crate) fn take_tombstone(self, remote: &Remote) -> Option<Tomb> {
        if self.is_home(remote) { self.own().tombstones.take() } else { None }
    }

    /// Puts the entry of a handle on the list of tombstones, which is done before it becomes one.
    /// Returns false if it does not belong there, or the list is full.
    ///
    /// # Safety
    /// The entry is at home at `remote`, and in no side queue. Nobody else uses the handle. If this
    /// returns true, the caller makes it a tombstone next, by [`Handle::give_up`], and if that
    /// fails, [takes it back](Self::take_back_tombstone).
    #[inline]
    pub(crate) unsafe fn put_tombstone(self, handle: &Handle, remote: &Remote) -> bool {
        // SAFETY: `is_home`, so the entry is of the shard of all others in this list: a home stays
        // the same. The caller says the rest.
        self.is_home(remote) && unsafe { self.own().tombstones.push(handle) }
    }

    /// Undoes the last [`put_tombstone`](Self::put_tombstone), of this handle.
    pub(crate) fn take_back_tombstone(self, handle: &Handle) {
        self.own().tombstones.take_back(handle);
    }
}

// Without a destructor, so that a thread that has destroyed its thread-locals can still read it.
#[cfg(not(loom))]
thread_local! {
    static MAY_WAIT: Cell<bool> = const { Cell::new(true) };
}
// A model runs all its threads on one thread of the system, so std's macro would give them one
// variable.
#[cfg(loom)]
loom::thread_local! {
    static MAY_WAIT: Cell<bool> = Cell::new(true);
}

/// Returns whether the calling thread may wait for a worker: it has no [`NoWait`].
pub(crate) fn may_wait() -> bool {
    MAY_WAIT.with(Cell::get)
}

/// While it exists, the calling thread waits for no worker: it takes new memory instead. A worker
/// has one, as two workers could wait for each other. So has a thread that holds a lock which a
/// worker may need.
#[must_use = "the thread may wait again when it is dropped"]
pub(crate) struct NoWait {
    before: bool,
    /// It belongs to its thread.
    not_send: PhantomData<*const ()>,
}

impl NoWait {
    pub(crate) fn begin() -> Self {
        Self { before: MAY_WAIT.with(|may| may.replace(false)), not_send: PhantomData }
    }
}

impl Drop for NoWait {
    fn drop(&mut self) {
        MAY_WAIT.with(|may| may.set(self.before));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_wait_again_when_the_last_that_forbids_it_is_gone() {
        let outer = NoWait::begin();
        drop(NoWait::begin());
        assert!(!may_wait());
        drop(outer);
        assert!(may_wait());
    }
}
