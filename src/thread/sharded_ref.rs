//! A reference count with a part for each thread, as Linux's `percpu_ref` has one for each processor.
//!
//! It counts what keeps an engine going beside its timers: futures that may need it later. One count for all of a server's futures would be
//! a cache line that all of its threads write to. So each thread counts the references that it makes. The thread that drops a reference, be it
//! another one, counts it off where it was made. Nobody needs the sum while there is a timer.
//!
//! When the last timer has gone, no reference is made any more. Then the counts are closed one after the other. A count that is at zero then
//! is settled by the thread that closes it, and any other by the reference that brings it to zero. The thread that settles the last count runs
//! the release callback, which ends the engine. (Threads in teardown share a count, and so do those of a forked child.)

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

/// What ends the engine. Keeps the engine until then.
type OnRelease = Box<dyn FnOnce() + Send>;

const CLOSED: usize = 1 << (usize::BITS - 1);

/// The references that one thread has made.
#[derive(Debug)]
pub(crate) struct LocalRefs(AtomicUsize);

impl LocalRefs {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Counts a reference. The caller has a timer.
    #[inline]
    pub(crate) fn add(&self) {
        // Relaxed: the timer keeps the engine going as yet.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a reference off. True if the caller has to [settle](ShardedRef::settle) this count.
    #[inline]
    pub(crate) fn remove(&self) -> bool {
        // Release: the thread that runs the callback sees what was done with this reference. Acquire: if this settles the count, that is
        // after all that was done with the others of it.
        self.0.fetch_sub(1, Ordering::AcqRel) == CLOSED | 1
    }

    /// True if it was at zero: then it is settled.
    fn close(&self) -> bool {
        // Release: a reference that settles it finds it counted. Acquire: as in `remove`.
        self.0.fetch_or(CLOSED, Ordering::AcqRel) == 0
    }
}

/// What all threads share of the count.
pub(crate) struct ShardedRef {
    /// Counts that are closed and not settled yet; one more until all are closed.
    unsettled: AtomicUsize,
    on_release: Mutex<Option<OnRelease>>,
    /// Of the threads that have no state of their own.
    teardown: CachePadded<LocalRefs>,
}

impl ShardedRef {
    pub(crate) fn new() -> Self {
        Self {
            unsettled: AtomicUsize::new(1),
            on_release: Mutex::new(None),
            teardown: CachePadded::new(LocalRefs::new()),
        }
    }

    /// The count that threads share which have no state of their own.
    pub(crate) fn teardown(&self) -> &LocalRefs {
        &self.teardown
    }

    /// Closes all counts: `threads` are those of the threads. `on_release` runs when the last reference has gone, at once if there is none.
    ///
    /// By a pointer: what this is a part of may go in `on_release`, and a reference that is an argument has to be valid until its function
    /// returns.
    ///
    /// # Safety
    /// `this` is valid, and is called with once. `on_release` keeps it valid until it has run. No reference is made any more.
    pub(crate) unsafe fn close<'a>(
        this: *const Self,
        threads: impl Iterator<Item = &'a LocalRefs>,
        on_release: impl FnOnce() + Send + 'static,
    ) {
        // SAFETY: as above.
        let shared = unsafe { &*this };
        *lock(&shared.on_release) = Some(Box::new(on_release));
        let settled = threads.chain([&*shared.teardown]).filter(|count| {
            // First, so that no reference settles it before it is counted. Relaxed: a reference that settles it has seen it closed.
            shared.unsettled.fetch_add(1, Ordering::Relaxed);
            count.close()
        });
        let settled = settled.count();
        // SAFETY: these counts were found at zero, and closed, so that nobody else settles them; and the one more is the caller's.
        unsafe { Self::settle(this, settled + 1) };
    }

    /// Settles so many counts.
    ///
    /// # Safety
    /// They are the caller's to settle, so that the release callback has not run.
    pub(crate) unsafe fn settle(this: *const Self, counts: usize) {
        // AcqRel: the thread that settles the last sees the callback, and all that was done with the other references.
        // SAFETY: as above: this is valid as long as a count is not settled.
        if unsafe { &(*this).unsettled }.fetch_sub(counts, Ordering::AcqRel) == counts {
            // SAFETY: the callback, which runs here and nowhere else, keeps this valid until then.
            let on_release = lock(unsafe { &(*this).on_release }).take();
            // Not under the lock, and the last access, as this may go with it.
            if let Some(on_release) = on_release {
                on_release();
            }
        }
    }
}
