//! Where entries live: chunks, free lists, and the way home.
//!
//! ```text
//!   chunk ──run of 64──► EntryCache (one per producer, one per worker) ──► entry in use
//!                          ▲   │ magazine full                            │ last owner lets go
//!                          │   ▼                                          │
//!                          └─ depot (queues of magazines of 64)   ◄───────┘ (into the EntryCache of that thread)
//! ```
//!
//! Entries are recycled and never given back to the allocator while the engine lives, so an address that the protocol
//! still allows somebody to touch is always an entry. Nothing here is shared by two threads but the depot and the chunk
//! counter, and those are touched once for 64 entries (magazines and depot: Bonwick and Adams, "Magazines and Vmem",
//! 2001).
//!
//! # The end
//!
//! A handle may outlive its engine, and costs no reference count. So when the engine's last owner has gone, the arena is
//! walked once ([`Arena::orphan_all`]): each entry ever handed out gets the ORPHAN mark by a read-modify-write on its
//! state word, and those whose HANDLE bit was set are counted (but for those that a producer keeps, which are free). From then
//! on the memory belongs to the handles that were counted, and the last of them frees it. Invariant: **a handle's last access
//! to the engine's memory is its read-modify-write on the state word** (`handle_lets_go`, or `keep`, while the engine still owns
//! the entry, `free` otherwise). If it comes before the walk's, the walk does not count the handle and the handle touches
//! nothing any more; if it comes after, the walk has counted the handle, and its answer says so.

mod chunk;
mod depot;
mod entry_cache;
mod per_thread;
mod shrink;

use std::ptr;

use chunk::{A_FEW, Chunk, LARGEST_CHUNK, Run};
use depot::{Depot, Magazine};
pub(crate) use entry_cache::EntryCache;

#[cfg(loom)]
pub(crate) use per_thread::give_number_back;
pub(crate) use per_thread::{PerThread, current as current_thread, with_remembered};

use crate::entry::entry_ref;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};

const FIRST_CHUNK: usize = A_FEW;
const A_LITTLE: usize = 16 * A_FEW;

/// By how much an arena grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Each chunk twice as large as the one before, up to the largest.
    Double,
    /// No more than it takes to go on.
    Little,
}

/// More than any number of handles; see [`Arena::orphan_all`].
const ORPHAN_BIAS: usize = usize::MAX / 2;

/// All memory of one engine's entries.
#[derive(Debug)]
pub(crate) struct Arena {
    newest: AtomicPtr<Chunk>,
    depot: Depot,
    /// How many pages are given back, about: what has been taken since may not be counted off yet.
    given_back: AtomicUsize,
    orphans: AtomicUsize,
}

// SAFETY: chunks are only read, and counted up atomically, until the arena is dropped.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena with memory for `capacity` entries, touched in advance. None if that memory can't be had.
    pub(crate) fn new(capacity: usize) -> Option<Self> {
        let arena = Self {
            newest: AtomicPtr::new(ptr::null_mut()),
            depot: Depot::new(),
            given_back: AtomicUsize::new(0),
            orphans: AtomicUsize::new(ORPHAN_BIAS),
        };
        if capacity > 0 {
            let chunk = Chunk::reserved(capacity)?;
            // Relaxed: nobody else knows the arena yet.
            arena.newest.store(Box::into_raw(chunk), Ordering::Relaxed);
        }
        Some(arena)
    }

    /// A magazine that came home, from the depot.
    fn take_magazine(&self) -> Option<Magazine> {
        self.depot.take()
    }

    fn return_magazine(&self, magazine: Magazine) {
        self.depot.put(magazine);
    }

    /// Fresh entries, of pages that were given back, or from the newest chunk; none if a new chunk is needed.
    fn take_run(&self) -> Option<Run> {
        if self.given_back.load(Ordering::Relaxed) > 0
            && let Some(run) = self.chunks().find_map(Chunk::take_given_back)
        {
            self.given_back.fetch_sub(1, Ordering::Relaxed);
            return Some(run);
        }
        // Acquire: pairs with the Release in `grow`: the chunk must be seen initialised.
        let newest = self.newest.load(Ordering::Acquire);
        // SAFETY: chunks live as long as the arena.
        unsafe { newest.as_ref() }.and_then(Chunk::take_run)
    }

    /// Adds a chunk, as large as there is memory for, and takes a run of it. None if there is none.
    #[cold]
    fn grow(&self, growth: Growth) -> Option<Run> {
        loop {
            // Acquire: as in `take_run`.
            let newest = self.newest.load(Ordering::Acquire);
            // SAFETY: chunks live as long as the arena.
            let len = unsafe { newest.as_ref() }.map_or(FIRST_CHUNK, |chunk| (chunk.len() * 2).min(LARGEST_CHUNK));
            let len = if growth == Growth::Little { len.min(A_LITTLE) } else { len };
            let mut lens =
                std::iter::successors(Some(len), |&len| (len > FIRST_CHUNK).then(|| FIRST_CHUNK.max(len / 2)));
            let Some(mut chunk) = lens.find_map(Chunk::new) else {
                // Another thread may have been luckier.
                return self.take_run();
            };
            chunk.older = newest;
            let run = chunk.take_run().expect("a new chunk has entries");
            let chunk = Box::into_raw(chunk);
            // Release: pairs with the Acquire in `take_run`.
            match self.newest.compare_exchange(newest, chunk, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Some(run),
                Err(_) => {
                    // Another thread was first. Its chunk will do for both.
                    // SAFETY: ours was not published, so nobody else knows it.
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
        // Acquire: as in `take_run`.
        let mut next = self.newest.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: chunks live as long as the arena, and `older` is not changed after a chunk's publication.
            let chunk = unsafe { next.as_ref() }?;
            next = chunk.older;
            Some(chunk)
        })
    }

    /// Entries for which there is memory.
    pub(crate) fn capacity(&self) -> usize {
        self.chunks().map(|chunk| chunk.len() - chunk.given_back() * chunk::entries_a_page()).sum()
    }

    /// Entries that are not free, wherever they are.
    #[cfg(loom)]
    pub(crate) fn in_use(&self) -> usize {
        // SAFETY: chunks live as long as the arena.
        self.chunks().flat_map(Chunk::issued).filter(|&entry| unsafe { entry_ref(entry) }.is_in_use()).count()
    }

    /// The engine's last owner has gone. True if no handle is left, and the memory is the caller's to free; otherwise it
    /// belongs to the handles, and to the last of those that [`orphan_lets_go`](Self::orphan_lets_go).
    ///
    /// # Safety
    /// `this` is an arena that is alive. By a pointer, as in the call below: the memory may be freed by another thread as
    /// soon as this one has subtracted, and a reference that is an argument has to be valid until its function returns.
    pub(crate) unsafe fn orphan_all(this: *const Self) -> bool {
        // SAFETY: alive until the subtraction.
        let held = unsafe { &*this }
            .chunks()
            .flat_map(Chunk::issued)
            // SAFETY: chunks live as long as the arena.
            .filter(|&entry| unsafe { entry_ref(entry) }.state.orphan())
            .count();
        // Handles that were counted early in the walk may have let go already; the bias keeps the number above zero
        // until all are counted.
        let surplus = ORPHAN_BIAS - held;
        // SAFETY: as above.
        unsafe { Self::subtract_orphans(this, surplus) }
    }

    /// A handle that the final sweep counted has gone. True if it was the last one: free the memory.
    ///
    /// # Safety
    /// As for [`orphan_all`](Self::orphan_all).
    pub(crate) unsafe fn orphan_lets_go(this: *const Self) -> bool {
        // SAFETY: handed on.
        unsafe { Self::subtract_orphans(this, 1) }
    }

    /// # Safety
    /// As for [`orphan_all`](Self::orphan_all).
    unsafe fn subtract_orphans(this: *const Self, number: usize) -> bool {
        // SAFETY: alive until the subtraction.
        let orphans = unsafe { &(*this).orphans };
        // AcqRel: the last one to subtract frees what all the others have used.
        orphans.fetch_sub(number, Ordering::AcqRel) == number
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // Acquire: as in `take_run`.
        let mut next = self.newest.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: made by `Box::into_raw`, and given up here once.
            let chunk = unsafe { Box::from_raw(next) };
            next = chunk.older;
        }
    }
}
