//! The memory of entries: chunks, entry caches, and the way back.
//!
//! ```text
//!   chunk ──run of 64──► EntryCache (one per producer, one per worker) ──► entry in use
//!                          ▲   │ a magazine is full                        │ the last owner
//!                          │   ▼                                           │ gives it up
//!                          └─ depot (magazines of 64)   ◄──────────────────┘
//! ```
//!
//! Entries are recycled, and never given back to the allocator while the engine lives. So an
//! address that the protocol still allows a thread to touch is always an entry. Two threads share
//! only the depot and the chunk counter, and touch them once for 64 entries (magazines and depot:
//! Bonwick and Adams, "Magazines and Vmem", 2001).
//!
//! # The end
//!
//! A handle may outlive its engine, and costs no reference count. So when the engine's last owner
//! has gone, [`Arena::orphan_all`] makes the *final sweep* over the arena. It sets the ORPHAN mark
//! on each entry ever handed out, by a read-modify-write on the state word, and counts the entries
//! whose HANDLE bit was set. It does not count tombstones, which are free. From then on the memory
//! belongs to the counted handles, and the last of them frees it.
//!
//! Invariant: **a handle's last access to the engine's memory is its read-modify-write on the state
//! word**. That is `handle_lets_go`, `leave_tombstone` or `give_up` while the engine still owns the
//! entry, and `free` otherwise. If it comes before the sweep's, the sweep does not count the
//! handle, and the handle touches nothing any more. If it comes after, the sweep has counted the
//! handle, and the handle's answer says so.

mod chunk;
mod depot;
mod entry_cache;
mod per_thread;
mod shrink;

use std::ptr;

use chunk::{A_FEW, Chunk, LARGEST_CHUNK, Run};
use depot::{Depot, Magazine};
pub(crate) use entry_cache::EntryCache;

pub(crate) use per_thread::PerThread;
#[cfg(loom)]
pub(crate) use per_thread::give_number_back;

use crate::entry::entry_ref;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};

const FIRST_CHUNK: usize = A_FEW;
const A_LITTLE: usize = 16 * A_FEW;

/// By how much an arena grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Each chunk is twice as large as the one before, up to the largest.
    Double,
    /// Only enough to go on.
    Little,
}

/// More than any number of handles; see [`Arena::orphan_all`].
const ORPHAN_BIAS: usize = usize::MAX / 2;

/// All memory of one engine's entries.
#[derive(Debug)]
pub(crate) struct Arena {
    newest: AtomicPtr<Chunk>,
    depot: Depot,
    /// About how many pages are given back: a page that was taken may not be subtracted yet.
    given_back: AtomicUsize,
    orphans: AtomicUsize,
}

// SAFETY: until the arena is dropped, its chunks are only read, and counted up atomically.
unsafe impl Send for Arena {}
// SAFETY: until the arena is dropped, its chunks are only read, and counted up atomically.
unsafe impl Sync for Arena {}

impl Arena {
    /// Returns an arena with memory for `capacity` entries, touched in advance, or `None` if there
    /// is no memory.
    pub(crate) fn new(capacity: usize) -> Option<Self> {
        let arena = Self {
            newest: AtomicPtr::new(ptr::null_mut()),
            depot: Depot::new(),
            given_back: AtomicUsize::new(0),
            orphans: AtomicUsize::new(ORPHAN_BIAS),
        };
        if capacity > 0 {
            let chunk = Chunk::reserved(capacity)?;
            // Relaxed: no other thread knows the arena yet.
            arena.newest.store(Box::into_raw(chunk), Ordering::Relaxed);
        }
        Some(arena)
    }

    /// Returns a magazine from the depot, or `None` if the depot is empty.
    fn take_magazine(&self) -> Option<Magazine> {
        self.depot.take()
    }

    fn return_magazine(&self, magazine: Magazine) {
        self.depot.put(magazine);
    }

    /// Returns fresh entries, from a page that was given back or from the newest chunk. Returns
    /// `None` if a new chunk is needed.
    fn take_run(&self) -> Option<Run> {
        if self.given_back.load(Ordering::Relaxed) > 0
            && let Some(run) = self.chunks().find_map(Chunk::take_given_back)
        {
            self.given_back.fetch_sub(1, Ordering::Relaxed);
            return Some(run);
        }
        // Acquire: pairs with the Release in `grow`, so that the chunk is seen initialised.
        let newest = self.newest.load(Ordering::Acquire);
        // SAFETY: chunks live as long as the arena.
        unsafe { newest.as_ref() }.and_then(Chunk::take_run)
    }

    /// Adds a chunk, as large as there is memory for, and takes a run of it. Returns `None` if
    /// there is no memory.
    #[cold]
    fn grow(&self, growth: Growth) -> Option<Run> {
        loop {
            // Acquire: pairs with the Release below, so that the chunk is seen initialised.
            let newest = self.newest.load(Ordering::Acquire);
            // SAFETY: chunks live as long as the arena.
            let len = unsafe { newest.as_ref() }.map_or(FIRST_CHUNK, |chunk| (chunk.len() * 2).min(LARGEST_CHUNK));
            let len = if growth == Growth::Little { len.min(A_LITTLE) } else { len };
            let mut lens =
                std::iter::successors(Some(len), |&len| (len > FIRST_CHUNK).then(|| FIRST_CHUNK.max(len / 2)));
            let Some(mut chunk) = lens.find_map(Chunk::new) else {
                // Another thread may have got memory.
                return self.take_run();
            };
            chunk.older = newest;
            let run = chunk.take_run().expect("a new chunk has entries");
            let chunk = Box::into_raw(chunk);
            // Release: pairs with the Acquire in `take_run`.
            match self.newest.compare_exchange(newest, chunk, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Some(run),
                Err(_) => {
                    // Another thread was first. Its chunk is large enough for both.
                    // SAFETY: ours was not published, so no other thread knows it.
                    drop(unsafe { Box::from_raw(chunk) });
                    let run = self.take_run();
                    if run.is_some() {
                        return run;
                    }
                }
            }
        }
    }

    fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        // Acquire: pairs with the Release in `grow`, so that the chunk is seen initialised.
        let mut next = self.newest.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: chunks live as long as the arena, and `older` is not changed after a chunk's
            // publication.
            let chunk = unsafe { next.as_ref() }?;
            next = chunk.older;
            Some(chunk)
        })
    }

    /// Returns how many entries there is memory for.
    pub(crate) fn capacity(&self) -> usize {
        self.chunks().map(|chunk| chunk.len() - chunk.given_back() * chunk::entries_a_page()).sum()
    }

    /// Returns how many entries are not free.
    #[cfg(loom)]
    pub(crate) fn in_use(&self) -> usize {
        // SAFETY: chunks live as long as the arena.
        self.chunks().flat_map(Chunk::issued).filter(|&entry| unsafe { entry_ref(entry) }.is_in_use()).count()
    }

    /// Makes the final sweep, when the engine's last owner has gone. Returns true if no handle is
    /// left, and the memory is the caller's to free. Otherwise the memory belongs to the handles,
    /// and the last one that calls [`orphan_lets_go`](Self::orphan_lets_go) frees it.
    ///
    /// # Safety
    /// `this` is an arena that is alive. It is a pointer, here and below, because another thread
    /// may free the memory as soon as this one has subtracted, and a reference that is an argument
    /// has to be valid until its function returns.
    pub(crate) unsafe fn orphan_all(this: *const Self) -> bool {
        // SAFETY: the caller says that the arena is alive, and it stays so until the subtraction.
        let held = unsafe { &*this }
            .chunks()
            .flat_map(Chunk::issued)
            // SAFETY: chunks live as long as the arena.
            .filter(|&entry| unsafe { entry_ref(entry) }.state.orphan())
            .count();
        // Handles that were counted early in the sweep may have gone already. The bias keeps the
        // number above zero until all are counted.
        let surplus = ORPHAN_BIAS - held;
        // SAFETY: the arena is alive until the subtraction.
        unsafe { Self::subtract_orphans(this, surplus) }
    }

    /// Subtracts a handle that the final sweep counted. Returns true if it was the last one: then
    /// the caller frees the memory.
    ///
    /// # Safety
    /// As for [`orphan_all`](Self::orphan_all).
    pub(crate) unsafe fn orphan_lets_go(this: *const Self) -> bool {
        // SAFETY: the caller's handle was counted, so the arena is alive until the subtraction.
        unsafe { Self::subtract_orphans(this, 1) }
    }

    /// # Safety
    /// As for [`orphan_all`](Self::orphan_all).
    unsafe fn subtract_orphans(this: *const Self, number: usize) -> bool {
        // SAFETY: the caller says that the arena is alive, and it stays so until the subtraction.
        let orphans = unsafe { &(*this).orphans };
        // AcqRel: the last thread to subtract frees what all the others have used.
        orphans.fetch_sub(number, Ordering::AcqRel) == number
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // Acquire: pairs with the Release in `grow`, so that the chunk is seen initialised.
        let mut next = self.newest.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: made by `Box::into_raw`, and given up here once.
            let chunk = unsafe { Box::from_raw(next) };
            next = chunk.older;
        }
    }
}
