//! The calling thread's own part of an engine, as only that thread can reach it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

use crossbeam_utils::CachePadded;

use super::state::{Own, ThreadState};
use crate::arena::{Arena, ArenaCache};
use crate::count::Counts;
use crate::entry::{Handle, Sole, Tomb};
use crate::shard::Remote;
use crate::sync::get_or_set;

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

    /// Returns a tombstone of `remote`. It is in that inbox, or was when it became a tombstone, and
    /// may be revived there.
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
