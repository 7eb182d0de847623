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
//! word**. That is `handle_lets_go` or `give_up` while the engine still owns the entry, and `free`
//! otherwise. If it comes before the sweep's, the sweep does not count the handle, and the handle
//! touches nothing any more. If it comes after, the sweep has counted the handle, and the handle's
//! answer says so.

mod chunk;
mod entry_cache;
mod per_thread;
mod shrink;

use std::ptr::{self, NonNull};

pub(crate) use chunk::LARGEST_CHUNK;
use chunk::{A_FEW, Chunk, Chunks, Run};
pub(crate) use entry_cache::{ArenaCache, EntryCache};
pub(crate) use per_thread::PerThread;
#[cfg(all(loom, test))]
pub(crate) use per_thread::give_number_back;

use crate::entry::{Entry, Link, Sole, Token, tables_fit};
use crate::sync::{AtomicUsize, Ordering, SegQueue};

const FIRST_CHUNK: usize = A_FEW;
/// By so many entries an arena grows that is only to go on.
pub(crate) const A_LITTLE: usize = 16 * A_FEW;

/// More than any number of handles; see [`Arena::orphan_all`].
const ORPHAN_BIAS: usize = usize::MAX / 2;

/// All memory of one engine's entries.
#[derive(Debug)]
pub(crate) struct Arena {
    chunks: Chunks,
    depot: Depot,
    /// About how many pages are given back: a page that was taken may not be subtracted yet.
    given_back: AtomicUsize,
    orphans: AtomicUsize,
}

impl Arena {
    /// Returns an arena with memory for `capacity` entries, touched in advance, or `None` if there
    /// is no memory.
    pub(crate) fn new(capacity: usize) -> Option<Self> {
        if !tables_fit() {
            return None;
        }
        let reserved = if capacity > 0 { Some(Chunk::reserved(capacity)?) } else { None };
        Some(Self {
            chunks: Chunks::new(reserved),
            depot: Depot::new(),
            given_back: AtomicUsize::new(0),
            orphans: AtomicUsize::new(ORPHAN_BIAS),
        })
    }

    /// Returns fresh entries, from a page that was given back or from the newest chunk. Returns
    /// `None` if a new chunk is needed.
    fn take_run(&self) -> Option<Run> {
        if self.given_back.load(Ordering::Relaxed) > 0
            && let Some(run) = self.chunks.iter().find_map(Chunk::take_given_back)
        {
            self.given_back.fetch_sub(1, Ordering::Relaxed);
            return Some(run);
        }
        self.chunks.newest()?.take_run()
    }

    /// Adds a chunk, as large as there is memory for, and takes a run of it. Each chunk is twice as
    /// large as the one before, up to `most` entries. Returns `None` if there is no memory.
    #[cold]
    fn grow(&self, most: usize) -> Option<Run> {
        loop {
            let newest = self.chunks.newest();
            let len = newest.map_or(FIRST_CHUNK, |chunk| (chunk.len() * 2).min(most));
            let mut lens =
                std::iter::successors(Some(len), |&len| (len > FIRST_CHUNK).then(|| FIRST_CHUNK.max(len / 2)));
            let Some(chunk) = lens.find_map(Chunk::new) else {
                // Another thread may have got memory.
                return self.take_run();
            };
            let run = chunk.take_run().expect("a new chunk has entries");
            if self.chunks.add(chunk, newest) {
                return Some(run);
            }
            // Another thread was first. Its chunk is large enough for both.
            let run = self.take_run();
            if run.is_some() {
                return run;
            }
        }
    }

    /// Returns how many entries there is memory for.
    pub(crate) fn capacity(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len() - chunk.given_back() * chunk::entries_a_page()).sum()
    }

    /// Returns how many entries are not free.
    #[cfg(loom)]
    pub(crate) fn in_use(&self) -> usize {
        self.entries().filter(|entry| entry.is_in_use()).count()
    }

    /// Returns all entries that were ever handed out.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flat_map(Chunk::issued)
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
        // SAFETY: the bias keeps `orphans` above zero, so no handle that goes meanwhile is the last
        // one, and nobody frees the arena before this call subtracts.
        let arena = unsafe { &*this };
        // SAFETY: the engine's last owner has gone, and this is its sweep.
        let is_held = |entry: &&Entry| unsafe { entry.orphan() };
        let held = arena.entries().filter(is_held).count();
        // Handles that were counted early in the sweep may have gone already. The bias keeps the
        // number above zero until all are counted.
        subtract(&arena.orphans, ORPHAN_BIAS - held)
    }

    /// Subtracts a handle that the final sweep counted. Returns true if it was the last one: then
    /// the caller frees the memory.
    ///
    /// # Safety
    /// `this` is an arena whose final sweep has counted the caller's handle. This is called once
    /// for that handle.
    pub(crate) unsafe fn orphan_lets_go(this: *const Self) -> bool {
        // SAFETY: the caller's handle was counted, so the arena is alive until the subtraction.
        subtract(unsafe { &(*this).orphans }, 1)
    }
}

/// Subtracts orphans. Returns true if they were the last. The memory may be gone when this returns:
/// a reference to an atomic may be an argument all the same, because other threads may change all
/// of what it points at.
fn subtract(orphans: &AtomicUsize, number: usize) -> bool {
    // AcqRel: the last thread to subtract frees what all the others have used.
    orphans.fetch_sub(number, Ordering::AcqRel) == number
}

/// How many magazines fit without an allocation. They hold 16,384 entries, as many as wait for a
/// worker before producers let it catch up.
#[cfg(not(loom))]
const SHELF: usize = if cfg!(miri) { 2 } else { 256 };

/// A list of `len` free entries, at least one, linked through `next`, of which the last has none.
/// It owns them, and may go from thread to thread.
#[derive(Debug)]
#[must_use = "the entries are lost if they are not given back"]
struct Magazine {
    first: NonNull<Entry>,
    len: usize,
}

// SAFETY: the free entries in it belong to the thread that holds the magazine.
unsafe impl Send for Magazine {}

impl Magazine {
    /// Returns the first entry and how many there are. The list is the caller's.
    fn into_list(self) -> (Link, usize) {
        (self.first.as_ptr(), self.len)
    }

    /// Puts an entry in front of the others, if there are any.
    fn push(others: Option<Self>, entry: Sole) -> Self {
        let (next, len) = others.map_or((ptr::null_mut(), 0), Self::into_list);
        entry.set_next(next);
        Self { first: entry.into_raw(), len: len + 1 }
    }

    /// Returns the first entry, and the others.
    fn pop(self) -> (Sole, Option<Self>) {
        // SAFETY: the magazine owns its entries, and this one leaves it here.
        let entry = unsafe { Sole::new(self.first) };
        let others = NonNull::new(entry.next()).map(|first| Self { first, len: self.len - 1 });
        (entry, others)
    }
}

/// A bounded queue, which never allocates, and an unbounded one for the magazines that don't fit.
#[derive(Debug)]
struct Depot {
    #[cfg(not(loom))]
    shelf: crossbeam_queue::ArrayQueue<Magazine>,
    overflow: SegQueue<Magazine>,
}

impl Depot {
    fn new() -> Self {
        Self {
            #[cfg(not(loom))]
            shelf: crossbeam_queue::ArrayQueue::new(SHELF),
            overflow: SegQueue::new(),
        }
    }

    fn put(&self, magazine: Magazine) {
        #[cfg(not(loom))]
        let Err(magazine) = self.shelf.push(magazine) else { return };
        self.overflow.push(magazine);
    }

    /// Returns `None` if the depot is empty.
    fn take(&self) -> Option<Magazine> {
        #[cfg(not(loom))]
        if let Some(magazine) = self.shelf.pop() {
            return Some(magazine);
        }
        self.overflow.pop()
    }
}
