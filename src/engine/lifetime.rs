//! The owners of an engine, and how its memory is freed.
//!
//! There are three kinds of owners, each counted in its own way. [`SharedRef`] uses one count, for
//! the few owners that rarely come and go. [`EngineRef`] uses a count per thread, for futures. The
//! handle bits of entries are not counted before the final sweep (`arena/mod.rs`, "The end").

use std::ops::Deref;
use std::ptr::NonNull;

use super::shared::{Shared, SharedPlan};
use crate::arena::Arena;
use crate::entry::{Handle, HandleGone};
use crate::shard::{EngineAddress, Number, Remote};
use crate::sync::Ordering;
use crate::thread::{LocalRefs, ShardedRef};

/// A counted owner of an engine's memory: the engine itself, the `Timer`s together, each worker or
/// the driver, each batch under way, each answer of a shutdown. Handles are not counted. Futures
/// hold an [`EngineRef`].
#[derive(Debug)]
pub(crate) struct SharedRef(NonNull<Shared>);

// SAFETY: like an `Arc<Shared>`: it gives out `&Shared`, and the last one frees it, on any thread.
// `Shared` is `Send` and `Sync`.
unsafe impl Send for SharedRef {}
// SAFETY: like an `Arc<Shared>`: it gives out `&Shared`, and the last one frees it, on any thread.
// `Shared` is `Send` and `Sync`.
unsafe impl Sync for SharedRef {}

impl SharedRef {
    /// Makes an engine's shared part, with one owner, and a shard for each number. Returns `None`
    /// if there is no memory for so many.
    pub(crate) fn create(plan: SharedPlan, numbers: Vec<Number>) -> Option<SharedRef> {
        let mut remotes = Vec::new();
        remotes.try_reserve_exact(numbers.len()).ok()?;
        // The remotes know their engine's address. So there is a place for it first.
        let shared = NonNull::from(Box::leak(Box::<Shared>::new_uninit())).cast::<Shared>();
        let numbers = numbers.into_iter().enumerate();
        // SAFETY: 1. The remotes become a part of what is written to this address, and have their
        // places below. 2. The place was made for this, and nobody else knows it yet.
        unsafe {
            let engine = EngineAddress(shared.cast().as_ptr());
            remotes.extend(numbers.map(|(index, number)| Remote::new(index, number, engine)));
            shared.write(Shared::new(plan, remotes));
        }
        let shared = SharedRef(shared);
        shared.remotes().iter().for_each(Remote::has_its_place);
        Some(shared)
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
            // SAFETY: this was the last owner. It was counted once, and ends here.
            unsafe { Shared::end(self.0.as_ptr()) };
        }
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
        let shared = self.shared.as_ptr();
        // SAFETY: 1. This reference is not subtracted yet, so the engine is alive, and with it the
        // states of its threads. It was added to this count. 2. If `remove` says that the count is
        // this reference's to settle, it is not settled yet, so the engine is still alive. `settle`
        // takes a pointer, as it may free the engine.
        unsafe {
            if self.count.as_ref().remove() {
                ShardedRef::settle(&raw const (*shared).refs, 1);
            }
        }
    }
}

impl Shared {
    /// Returns a reference for a future.
    ///
    /// # Safety
    /// The caller has a timer of this engine. So the references are not closed yet.
    #[inline]
    pub(crate) unsafe fn engine_ref(&self) -> EngineRef {
        let count: &LocalRefs = self.thread_state().map_or(&self.refs.teardown, |mine| &mine.state().refs);
        // SAFETY: the caller has a timer. The `EngineRef` subtracts itself when it is dropped.
        unsafe { count.add() };
        EngineRef { shared: NonNull::from(self), count: NonNull::from(count) }
    }

    /// Closes the references, when the last timer has gone. `on_release` runs when the last
    /// reference has gone: at once if there is none.
    ///
    /// # Safety
    /// This is called once, and no timer of this engine is left. `on_release` keeps the engine
    /// alive.
    pub(crate) unsafe fn close_refs(&self, on_release: impl FnOnce() + Send + 'static) {
        // A thread whose state is not among these yet has made no reference: the thread that makes
        // one has a timer, and no timer is left.
        let counts = self.thread_states().map(|thread| &*thread.refs);
        // SAFETY: `on_release` keeps the engine alive, and no timer is left that could make a
        // reference.
        unsafe { ShardedRef::close(&raw const self.refs, counts, on_release) };
    }

    /// Gives a handle up by one exchange, which `cancels` the timeout, and its task is dropped, or
    /// comes after its cancel. The entry becomes a tombstone of the calling thread, if that has
    /// room for it. Returns the handle, and changes nothing, if that takes more exchanges.
    ///
    /// If it succeeds, the engine may be gone by now. For that reason it is not a method of the
    /// thread's state: a reference that is an argument has to be valid until its function returns.
    #[inline]
    pub(crate) fn give_up(handle: Handle, cancels: bool) -> Result<(), Handle> {
        let Some(seen) = handle.may_be_given_up(cancels) else { return Err(handle) };
        let remote = Remote::at(handle.home());
        // A tombstone in a slot may cost one wake-up. A driver would see that. A drain does not
        // wait for it, but has to look for it, if it is left after this look.
        if seen.is_linked() && (remote.has_worker.get() == 0 || remote.is_closed()) {
            return Err(handle);
        }
        let shared = Shared::of_remote(remote);
        if cancels && shared.limit.is_some() {
            // A place must not come back before the cancel, and the engine may be gone after it.
            return Err(handle);
        }
        let Some(mine) = shared.thread_state() else { return Err(handle) };
        if cancels {
            // Before the exchange, because the engine may be gone after it.
            shared.counts_of(mine, remote).cancelled.add(1);
        }
        // SAFETY: `remote` is the handle's home. The word has said that the entry is in no side
        // queue, and the handle is this call's. `give_up` and `keep` come next, on this thread.
        let is_listed = unsafe { mine.put_tombstone(&handle, remote) };
        if !cancels && !is_listed {
            return Err(handle);
        }
        // SAFETY: it may be given up. If the entry is listed, that was by this thread, and `keep`
        // takes it off.
        let given_up = unsafe { handle.give_up(seen, cancels, is_listed) };
        given_up.map_err(|handle| Self::keep(handle, cancels, is_listed))
    }

    /// Takes back what [`give_up`](Self::give_up) did before its exchange.
    #[cold]
    fn keep(handle: Handle, cancels: bool, is_listed: bool) -> Handle {
        let remote = Remote::at(handle.home());
        let shared = Self::of_remote(remote);
        let mine = shared.thread_state().expect("it has listed the entry");
        if cancels {
            let cancelled = &shared.counts_of(mine, remote).cancelled;
            cancelled.set(cancelled.get() - 1);
        }
        if is_listed {
            mine.take_back_tombstone(&handle);
        }
        handle
    }

    /// Gives up a handle's ownership of its entry. If the handle is the last owner, this frees the
    /// entry, or the whole engine. See `arena/mod.rs`, "The end".
    #[inline]
    pub(crate) fn drop_handle(handle: Handle) {
        let Err(handle) = Self::give_up(handle, false) else { return };
        let orphan = match handle.let_go() {
            HandleGone::OthersOwn => None,
            HandleGone::Last => Self::free_entry(handle),
            HandleGone::Orphan => Some(handle),
        };
        if let Some(orphan) = orphan {
            let shared = Shared::ptr_of_remote(Remote::at(orphan.home()));
            // SAFETY: 1. The final sweep counted this handle, which is subtracted here, once. The
            // arena is there until then. 2. If it was the last one, nobody else uses the engine.
            unsafe {
                if Arena::orphan_lets_go(&raw const (*shared).arena) {
                    Self::free_shared(shared);
                }
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
    unsafe fn end(shared: *mut Self) {
        // SAFETY: 1. The caller was the last owner, so nobody else sweeps, and the engine lives
        // until the sweep has counted its handles. 2. If there is none, nobody else uses the
        // engine.
        unsafe {
            if Arena::orphan_all(&raw const (*shared).arena) {
                Self::free_shared(shared);
            }
        }
    }

    /// Frees the engine. Out of line, so that dropping a handle saves no registers for it.
    ///
    /// # Safety
    /// Nobody else uses the engine, now or later.
    #[cold]
    #[inline(never)]
    unsafe fn free_shared(shared: *mut Self) {
        // SAFETY: it came from a box in `create`, and is the caller's.
        drop(unsafe { Box::from_raw(shared) });
    }

    /// Gives back an entry whose last owner is a handle. Returns the handle if the engine is gone
    /// and its final sweep counted it.
    #[inline]
    fn free_entry(handle: Handle) -> Option<Handle> {
        match Shared::of_remote(Remote::at(handle.home())).thread_state() {
            // Into this thread's own free list, where no other thread finds the entry before it is
            // marked free. If the final sweep has passed, that does no harm: this handle keeps the
            // engine's memory.
            // SAFETY: this thread's list is no other thread's, and `free` marks the entry below
            // before this thread takes anything out of it.
            Some(mine) => mine.put_entry(unsafe { handle.to_sole() }),
            None => return Self::free_entry_in_teardown(handle),
        }
        // From here on the engine may be gone, unless this returns the handle.
        handle.free()
    }

    /// Like [`free_entry`](Self::free_entry), on a thread in teardown, which has no free list of
    /// its own any more. Threads in teardown share a free list, and other threads take entries from
    /// it. So the entry must be marked free before it goes there. The thread owns the engine in
    /// between, so that the engine is not freed. If it can't become an owner, the engine is about
    /// to end, and the entry goes with the arena.
    #[cold]
    fn free_entry_in_teardown(handle: Handle) -> Option<Handle> {
        let owner = Self::owner_if_any(Remote::at(handle.home()));
        // SAFETY: nobody finds the entry before it is put below, after it is marked. It is not used
        // if this thread does not own the engine.
        let entry = unsafe { handle.to_sole() };
        let orphan = handle.free();
        if let Some(owner) = owner {
            owner.put_entry(entry);
        }
        orphan
    }

    /// Makes the caller an owner of the remote's engine, if that has one.
    fn owner_if_any(remote: &Remote) -> Option<SharedRef> {
        let add_one = |owners: usize| (owners > 0).then_some(owners + 1);
        // Relaxed: the engine has an owner, or this fails.
        let counted = Self::of_remote(remote).owners.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add_one);
        NonNull::new(Self::ptr_of_remote(remote)).filter(|_| counted.is_ok()).map(SharedRef)
    }
}
