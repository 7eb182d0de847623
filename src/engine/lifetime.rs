//! The owners of an engine, and how its memory is freed.
//!
//! There are three kinds of owners, each counted in its own way. [`SharedRef`] uses one count, for
//! the few owners that rarely come and go. [`EngineRef`] uses a count per thread, for futures. The
//! handle bits of entries are not counted before the final sweep (`arena/mod.rs`, "The end").

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;

use super::shared::{Shared, SharedPlan};
use crate::arena::Arena;
use crate::entry::{Entry, HandleGone, Remains, Sole, Task, entry_ref};
use crate::shard::Remote;
use crate::sync::Ordering;
use crate::thread::{Local, LocalRefs, ShardedRef, ThreadState};

/// A counted owner of an engine's memory: the engine itself, the `Timer`s together, each worker,
/// each batch under way. Handles are not counted. Futures hold an [`EngineRef`].
pub(crate) struct SharedRef(NonNull<Shared>);

// SAFETY: an engine is `Send` and `Sync`.
unsafe impl Send for SharedRef {}
// SAFETY: an engine is `Send` and `Sync`.
unsafe impl Sync for SharedRef {}

impl SharedRef {
    /// Makes an engine's shared part, with one owner. Returns `None` if there is no memory for so
    /// many shards.
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
        // Relaxed: the new owner is made from one that exists.
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

/// Keeps an engine alive for a future, as a timer does.
pub(crate) struct EngineRef {
    shared: NonNull<Shared>,
    /// Where it is counted: in the engine, or in a thread's part of it.
    count: NonNull<LocalRefs>,
}

// SAFETY: everything that it does with the engine, several threads may do at the same time.
unsafe impl Send for EngineRef {}
// SAFETY: everything that it does with the engine, several threads may do at the same time.
unsafe impl Sync for EngineRef {}

impl EngineRef {
    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: the release callback frees the engine, and does not run before this reference is
        // subtracted.
        unsafe { self.shared.as_ref() }
    }
}

impl Drop for EngineRef {
    #[inline]
    fn drop(&mut self) {
        let shared = self.shared;
        // SAFETY: 1. This reference is not subtracted yet, so the engine is alive, and the thread
        // states with it. 2. It was added to this count when it was made. 3. If it was the last of
        // a closed count, that count is this thread's to settle, and the engine is alive until
        // then.
        unsafe {
            if self.count.as_ref().remove() {
                ShardedRef::settle(&raw const (*shared.as_ptr()).refs, 1);
            }
        }
    }
}

impl fmt::Debug for EngineRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineRef").finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns a reference for a future. The caller has a timer.
    #[inline]
    pub(crate) fn engine_ref(&self) -> EngineRef {
        let count = self.thread_state().map_or(self.refs.teardown(), |mine| mine.state().refs());
        // SAFETY: the caller has a timer, so the counts are not closed. The `EngineRef` gives the
        // reference back to this count when it is dropped.
        unsafe { count.add() };
        EngineRef { shared: NonNull::from(self), count: NonNull::from(count) }
    }

    /// Closes the references, when the last timer has gone. `on_release` runs when the last
    /// reference has gone: at once if there is none. It keeps the engine alive. Called once.
    pub(crate) fn close_refs(&self, on_release: impl FnOnce() + Send + 'static) {
        // A thread whose state is not among these yet has made no reference: the thread that makes
        // one has a timer, and no timer is left.
        let counts = self.thread_states().map(ThreadState::refs);
        // SAFETY: `on_release` keeps the engine alive, and no timer is left that could make a
        // reference.
        unsafe { ShardedRef::close(&raw const self.refs, counts, on_release) };
    }

    /// Cancels a timeout and gives its handle up by one exchange, if the worker has not linked the
    /// timeout yet. Returns the task. Returns `None`, and changes nothing, if that takes two.
    ///
    /// # Safety
    /// The caller owns the entry's handle, and gives it up if this returns a task.
    #[inline]
    pub(crate) unsafe fn give_up(entry: NonNull<Entry>) -> Option<Task> {
        // SAFETY: the caller owns the handle, which keeps the entry alive.
        let this = unsafe { entry_ref(entry) };
        let kind = this.state.may_be_given_up()?;
        // SAFETY: the caller owns the handle, and gives it up last.
        let remote = unsafe { Remote::of_entry(this) };
        let shared = Shared::of_remote(remote);
        if shared.has_limit() {
            // A place must not come back before the cancel, and the engine may be gone after it.
            return None;
        }
        let mine = shared.thread_state()?;
        // SAFETY: the caller owns the handle, and `may_be_given_up` has told the kind.
        let copy = unsafe { this.copy_own_task(kind) };
        // SAFETY: the caller owns the handle, and the entry becomes a tombstone next, or is taken
        // back.
        let is_listed = unsafe { shared.list_tombstone(mine, entry, remote) };
        let remains = if is_listed { Remains::Tombstone } else { Remains::Cancelled };
        // Before the exchange, because the engine may be gone after it.
        let cancelled = &shared.counts_of(mine, remote).cancelled;
        cancelled.add(1);
        if this.state.give_up(remains) {
            // SAFETY: the exchange took the entry out of PENDING after the copy was made.
            return Some(unsafe { copy.into_task() });
        }
        cancelled.take_back(1);
        if is_listed {
            mine.take_back_tombstone();
        }
        None
    }

    /// Gives up a handle's ownership of its entry. If the handle is the last owner, this frees the
    /// entry, or the whole engine. See `arena/mod.rs`, "The end".
    ///
    /// # Safety
    /// The caller owns the entry's handle and gives it up.
    #[inline]
    pub(crate) unsafe fn drop_handle(entry: NonNull<Entry>) {
        // SAFETY: the caller owns the handle, which keeps the entry alive.
        let this = unsafe { entry_ref(entry) };
        let home = this.home().cast::<Remote>();
        // SAFETY: the caller owns the handle, the entry may become a tombstone, and `home` is its
        // home.
        if this.state.may_be_tombstone() && unsafe { Self::leave_tombstone(home, entry) } {
            return;
        }
        let orphaned = match this.state.handle_lets_go() {
            HandleGone::OthersOwn => false,
            HandleGone::Orphan => true,
            // SAFETY: the handle is the last owner, so `home` is alive; see `free_entry`.
            HandleGone::Last => unsafe { Self::free_entry(home, entry) },
        };
        if orphaned {
            // SAFETY: the final sweep counted this handle, so the engine lives until the handle is
            // subtracted.
            let shared = Shared::ptr_of_remote(unsafe { &*home });
            // SAFETY: the engine lives until the handle is subtracted.
            let arena = unsafe { &raw const (*shared.as_ptr()).arena };
            // SAFETY: the handle was counted and not subtracted yet, so the arena is alive.
            if unsafe { Arena::orphan_lets_go(arena) } {
                // SAFETY: the last handle is gone, so nobody else uses the engine.
                unsafe { Self::free_shared(shared) };
            }
        }
    }

    /// Makes the final sweep when no owner is left, and frees the engine if no handle is left
    /// either.
    ///
    /// # Safety
    /// The caller was the last owner.
    #[cold]
    #[inline(never)]
    unsafe fn end(shared: NonNull<Self>) {
        // SAFETY: the engine lives until the sweep has counted its handles.
        let arena = unsafe { &raw const (*shared.as_ptr()).arena };
        // SAFETY: the caller was the last owner, so nobody else sweeps, and the arena is alive.
        if unsafe { Arena::orphan_all(arena) } {
            // SAFETY: no owner and no handle is left.
            unsafe { Self::free_shared(shared) };
        }
    }

    /// Frees the engine. Out of line, so that dropping a handle saves no registers for it.
    ///
    /// # Safety
    /// Nobody else uses the engine, now or later.
    #[cold]
    #[inline(never)]
    unsafe fn free_shared(shared: NonNull<Self>) {
        // SAFETY: it came from a box in `create`, and is the caller's.
        drop(unsafe { Box::from_raw(shared.as_ptr()) });
    }

    /// Puts an entry on the calling thread's list of tombstones, which is done before it becomes
    /// one. Returns false if timeouts must not take over its place, or it does not belong there.
    ///
    /// # Safety
    /// As for [`Local::put_tombstone`].
    #[inline]
    unsafe fn list_tombstone(&self, mine: Local<'_>, entry: NonNull<Entry>, remote: &Remote) -> bool {
        // SAFETY: the caller upholds what `put_tombstone` asks for, which checks the shard.
        !self.strict_order && unsafe { mine.put_tombstone(entry, remote) }
    }

    /// Turns a cancelled entry into a tombstone of the calling thread, if it can. If this returns
    /// true, the engine may be gone by now. For that reason it is not a method of the thread's
    /// state: a reference that is an argument has to be valid until its function returns.
    ///
    /// # Safety
    /// The caller owns the entry's handle, and gives it up if this returns true. The entry may
    /// become a tombstone. `home` is its home.
    #[inline]
    unsafe fn leave_tombstone(home: *const Remote, entry: NonNull<Entry>) -> bool {
        // SAFETY: the caller owns the handle, which keeps the engine's memory alive.
        let remote = unsafe { &*home };
        let shared = Shared::of_remote(remote);
        let Some(mine) = shared.thread_state() else { return false };
        // SAFETY: the caller owns the handle, and says that the entry may become a tombstone.
        if !unsafe { shared.list_tombstone(mine, entry, remote) } {
            return false;
        }
        // SAFETY: the caller owns the handle, which keeps the entry alive.
        if unsafe { entry_ref(entry) }.state.leave_tombstone() {
            return true;
        }
        mine.take_back_tombstone();
        false
    }

    /// Gives back an entry whose last owner is a handle. Returns true if the engine is gone and its
    /// final sweep counted the handle.
    ///
    /// # Safety
    /// The caller's handle is the last owner, and `home` is the entry's.
    #[inline]
    unsafe fn free_entry(home: *const Remote, entry: NonNull<Entry>) -> bool {
        // SAFETY: the handle is not given up before `free` below, so the engine is alive until
        // then.
        let state = &unsafe { entry_ref(entry) }.state;
        if !state.is_orphan() {
            // SAFETY: the handle is not given up before `free` below, so the remote is alive.
            let shared = Shared::ptr_of_remote(unsafe { &*home });
            // SAFETY: the handle is not given up before `free` below, so the engine is alive.
            let alive = unsafe { shared.as_ref() };
            match alive.thread_state() {
                // Into this thread's own free list, where no other thread finds the entry before it
                // is marked free.
                // SAFETY: the handle is the sole owner.
                Some(mine) => mine.put_entry(unsafe { Sole::new(entry) }),
                // SAFETY: the caller's handle is the last owner, and `shared` is the engine of its
                // home.
                None => return unsafe { Self::free_entry_in_teardown(shared, entry) },
            }
        }
        // From here on the engine may be gone, unless this returns true.
        state.free()
    }

    /// Like [`free_entry`](Self::free_entry), on a thread in teardown, which has no free list of
    /// its own any more. Threads in teardown share a free list, and other threads take entries from
    /// it. So the entry must be marked free before it goes there. The thread owns the engine in
    /// between, so that the engine is not freed. If it can't become an owner, the engine is about
    /// to end, and the entry goes with the arena.
    ///
    /// # Safety
    /// As for [`free_entry`](Self::free_entry); `shared` is the entry's engine.
    #[cold]
    unsafe fn free_entry_in_teardown(shared: NonNull<Shared>, entry: NonNull<Entry>) -> bool {
        let add_one = |owners: usize| (owners > 0).then_some(owners + 1);
        // SAFETY: the handle is not given up before `free` below, so the engine is alive until
        // then.
        let owners = &unsafe { shared.as_ref() }.owners;
        // Relaxed: the engine has an owner, or this fails.
        let owner = owners.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add_one).ok().map(|_| SharedRef(shared));
        // SAFETY: the handle is not given up before `free`, so the entry is alive.
        let orphaned = unsafe { entry_ref(entry) }.state.free();
        if let Some(owner) = owner {
            // SAFETY: the final sweep does not begin while there is an owner. So the entry is free,
            // and only this thread has it.
            owner.put_entry(unsafe { Sole::new(entry) });
        }
        orphaned
    }
}
