//! Who keeps an engine, and how its memory goes.
//!
//! Three kinds of owners, each counted in its own way: [`SharedRef`], one count, for the few that come and go seldom; [`EngineRef`], a count for
//! each thread, for futures; and the handle bit of each entry, which nobody counts before the final sweep (`arena/mod.rs`, "The end").

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;

use super::shared::{Shared, SharedPlan};
use crate::arena::Arena;
use crate::entry::{Entry, HandleGone, entry_ref};
use crate::shard::Remote;
use crate::sync::Ordering;
use crate::thread::{LocalRefs, ShardedRef, ThreadState};

/// A counted owner of an engine's memory: the engine itself, the `Timer`s together, each worker, each batch under way. Handles are not counted; futures
/// keep the engine by an [`EngineRef`].
pub(crate) struct SharedRef(NonNull<Shared>);

// SAFETY: an engine is `Send` and `Sync`.
unsafe impl Send for SharedRef {}
// SAFETY: as above.
unsafe impl Sync for SharedRef {}

impl SharedRef {
    /// Makes an engine's shared part, with one owner. None if there is no memory for so many shards.
    pub(crate) fn create(plan: SharedPlan) -> Option<SharedRef> {
        let shared = NonNull::from(Box::leak(Box::new(Shared::new(plan)?)));
        // SAFETY: just made.
        unsafe { shared.as_ref() }.remotes().iter().for_each(|remote| remote.set_engine(shared.cast()));
        Some(SharedRef(shared))
    }
}

impl Deref for SharedRef {
    type Target = Shared;

    #[inline]
    fn deref(&self) -> &Shared {
        // SAFETY: a counted owner keeps the engine alive.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for SharedRef {
    fn clone(&self) -> Self {
        // Relaxed: a new owner is made from one that is there.
        self.owners.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for SharedRef {
    fn drop(&mut self) {
        // AcqRel: the last owner sees all that the others did.
        if self.owners.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: this was the last owner.
            unsafe { Shared::end(self.0) };
        }
    }
}

impl fmt::Debug for SharedRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Keeps an engine going, as a timer does. For a future.
pub(crate) struct EngineRef {
    shared: NonNull<Shared>,
    /// Where it is counted: in the engine, or in a thread's part of it.
    count: NonNull<LocalRefs>,
}

// SAFETY: all that it does with the engine, others do, too, at the same time.
unsafe impl Send for EngineRef {}
// SAFETY: as above.
unsafe impl Sync for EngineRef {}

impl EngineRef {
    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: the engine goes with the release callback, which does not run before this reference is counted off.
        unsafe { self.shared.as_ref() }
    }
}

impl Drop for EngineRef {
    #[inline]
    fn drop(&mut self) {
        let shared = self.shared;
        // SAFETY: as in `shared`; threads' states stay as long as the engine.
        if unsafe { self.count.as_ref() }.remove() {
            // SAFETY: the engine is there, as this count is not settled yet.
            let refs = unsafe { &raw const (*shared.as_ptr()).refs };
            // SAFETY: it is this reference's to settle.
            unsafe { ShardedRef::settle(refs, 1) };
        }
    }
}

impl fmt::Debug for EngineRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineRef").finish_non_exhaustive()
    }
}

impl Shared {
    /// A reference for a future. The caller has a timer.
    #[inline]
    pub(crate) fn engine_ref(&self) -> EngineRef {
        let count = self.thread_state().map_or(self.refs.teardown(), ThreadState::refs);
        count.add();
        EngineRef { shared: NonNull::from(self), count: NonNull::from(count) }
    }

    /// The last timer has gone: `on_release` runs when the last reference has, at once if there is none. Once. It keeps the engine.
    pub(crate) fn close_refs(&self, on_release: impl FnOnce() + Send + 'static) {
        // A thread whose state is not among these yet has made no reference: those were made by somebody who had a timer, before it went.
        let counts = self.thread_states().map(ThreadState::refs);
        // SAFETY: `on_release` keeps the engine, and no timer is left that could make a reference.
        unsafe { ShardedRef::close(&raw const self.refs, counts, on_release) };
    }

    /// A handle lets go of its entry, and whoever is last frees it, or the whole engine. See `arena/mod.rs`, "The end".
    ///
    /// # Safety
    /// The caller owns the entry's handle and gives it up.
    #[inline]
    pub(crate) unsafe fn drop_handle(entry: NonNull<Entry>) {
        // SAFETY: a handle keeps its entry alive.
        let this = unsafe { entry_ref(entry) };
        let home = this.home().cast::<Remote>();
        // SAFETY: as above.
        if this.state.may_be_tombstone() && unsafe { Self::leave_tombstone(home, entry) } {
            return;
        }
        let orphaned = match this.state.handle_lets_go() {
            HandleGone::OthersOwn => false,
            HandleGone::Orphan => true,
            // SAFETY: the handle is the last owner; so `home` is alive, see there.
            HandleGone::Last => unsafe { Self::free_entry(home, entry) },
        };
        if orphaned {
            // SAFETY: the final sweep counted this handle, so the engine lives until it is counted off.
            let shared = Shared::ptr_of_remote(unsafe { &*home });
            // SAFETY: as above.
            let arena = unsafe { &raw const (*shared.as_ptr()).arena };
            // SAFETY: as above.
            if unsafe { Arena::orphan_lets_go(arena) } {
                // SAFETY: the last one frees.
                unsafe { Self::free_shared(shared) };
            }
        }
    }

    /// No owner is left: the final sweep, and the end of the engine if no handle is left either.
    ///
    /// # Safety
    /// The caller was the last owner.
    #[cold]
    #[inline(never)]
    unsafe fn end(shared: NonNull<Self>) {
        // SAFETY: the engine lives until the walk has counted its handles.
        let arena = unsafe { &raw const (*shared.as_ptr()).arena };
        // SAFETY: as above.
        if unsafe { Arena::orphan_all(arena) } {
            // SAFETY: no owner and no handle is left.
            unsafe { Self::free_shared(shared) };
        }
    }

    /// Out of line, as a handle's drop saves no registers for it then.
    ///
    /// # Safety
    /// Nobody else uses the engine, now or later.
    #[cold]
    #[inline(never)]
    unsafe fn free_shared(shared: NonNull<Self>) {
        // SAFETY: it came from a box in `create`, and is the caller's.
        drop(unsafe { Box::from_raw(shared.as_ptr()) });
    }

    /// Lets the calling thread keep an entry that was cancelled, if it can. If true, the engine may be gone by now. (That is
    /// why this is not the producer's: a reference that is an argument has to be valid until its function returns.)
    ///
    /// # Safety
    /// The caller owns the entry's handle, and gives it up if this returns true; the entry may be kept; `home` is its home.
    #[inline]
    unsafe fn leave_tombstone(home: *const Remote, entry: NonNull<Entry>) -> bool {
        // SAFETY: the handle keeps the engine's memory.
        let remote = unsafe { &*home };
        let Some(mine) = Shared::of_remote(remote).thread_state() else { return false };
        // SAFETY: the producer is this thread's; the rest is handed on.
        if !unsafe { mine.put_tombstone(entry, remote) } {
            return false;
        }
        // SAFETY: the handle keeps the entry alive.
        if unsafe { entry_ref(entry) }.state.leave_tombstone() {
            return true;
        }
        mine.take_back_tombstone();
        false
    }

    /// Gives an entry back whose last owner is a handle. True if the engine is gone and counted on the handle.
    ///
    /// # Safety
    /// The caller's handle is the last owner, and `home` is the entry's.
    #[inline]
    unsafe fn free_entry(home: *const Remote, entry: NonNull<Entry>) -> bool {
        // SAFETY: the handle is not counted off before `free` below, so the engine is alive until then.
        let state = &unsafe { entry_ref(entry) }.state;
        if !state.is_orphan() {
            // SAFETY: as above.
            let shared = Shared::ptr_of_remote(unsafe { &*home });
            // SAFETY: as above.
            let alive = unsafe { shared.as_ref() };
            match alive.thread_state() {
                // Into this thread's own free list, where nobody else finds the entry before it is marked as free.
                // SAFETY: the handle is the sole owner, the producer is this thread's.
                Some(mine) => unsafe { mine.put_entry(&alive.arena, entry) },
                // SAFETY: as above.
                None => return unsafe { Self::free_entry_in_teardown(shared, entry) },
            }
        }
        // From here on the engine may be gone, unless the answer is true.
        state.free()
    }

    /// The same on a thread that has no free list of its own any more. Others take entries from the one that such threads
    /// share, so the entry must be marked as free before it goes there; and so that the engine does not go in between, the
    /// thread owns it for that time. If it can't, the engine is about to end, and the entry goes with the arena.
    ///
    /// # Safety
    /// As for [`free_entry`](Self::free_entry); `shared` is the entry's.
    #[cold]
    unsafe fn free_entry_in_teardown(shared: NonNull<Shared>, entry: NonNull<Entry>) -> bool {
        let add_one = |owners: usize| (owners > 0).then_some(owners + 1);
        // SAFETY: the handle is not counted off before `free` below, so the engine is alive until then.
        let owners = &unsafe { shared.as_ref() }.owners;
        // Relaxed: as in `SharedRef::clone`.
        let owner = owners.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add_one).ok().map(|_| SharedRef(shared));
        // SAFETY: as above.
        let orphaned = unsafe { entry_ref(entry) }.state.free();
        if let Some(owner) = owner {
            // SAFETY: while there are owners the final sweep has not begun; so the entry is free, and nobody's but ours.
            unsafe { owner.put_entry(entry) };
        }
        orphaned
    }
}
