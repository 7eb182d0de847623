//! A reference count with one part per thread, as Linux's `percpu_ref` has one per processor.
//!
//! It counts what keeps an engine alive beside its timers: futures that may need it later. If all
//! futures of a server shared one count, all its threads would write to one cache line. So each
//! thread counts the references that it makes. The thread that drops a reference subtracts it where
//! it was counted, which may be in another thread's part. Nobody needs the sum while there is a
//! timer.
//!
//! When the last timer has gone, no reference is made any more. Then the counts are closed one
//! after the other. A count that is at zero then is settled by the thread that closes it. Any other
//! count is settled by the thread whose reference brings it to zero. The thread that settles the
//! last count runs the release callback, which ends the engine. Threads in teardown share a count,
//! and so do the threads of a forked child.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

/// The release callback, which ends the engine. Keeps the engine alive until then.
type OnRelease = Box<dyn FnOnce() + Send>;

const CLOSED: usize = 1 << (usize::BITS - 1);

/// The references that one thread has made.
#[derive(Debug, Default)]
pub(crate) struct LocalRefs(AtomicUsize);

impl LocalRefs {
    /// Counts a reference.
    ///
    /// # Safety
    /// The counts are not closed: the caller has a timer, or another reference. The engine lives
    /// until the caller gives the reference to [`remove`](Self::remove).
    #[inline]
    pub(crate) unsafe fn add(&self) {
        // Relaxed: the caller's timer still keeps the engine alive.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Subtracts a reference. Returns true if the caller has to [settle](ShardedRef::settle) this
    /// count.
    ///
    /// # Safety
    /// The caller has a reference that was added to this count, and gives it up.
    #[inline]
    pub(crate) unsafe fn remove(&self) -> bool {
        // Release: the thread that runs the callback sees what was done with this reference.
        // Acquire: a thread that settles the count does so after all that was done with its other
        // references.
        self.0.fetch_sub(1, Ordering::AcqRel) == CLOSED | 1
    }

    /// Closes the count. Returns true if it was at zero: then the caller has to settle it.
    fn close(&self) -> bool {
        // Release: a reference that settles the count sees it in `unsettled`. Acquire: the closing
        // thread sees all that was done with the references.
        self.0.fetch_or(CLOSED, Ordering::AcqRel) == 0
    }
}

/// The part of the count that all threads share.
pub(crate) struct ShardedRef {
    /// How many counts are closed and not settled yet, plus one until all are closed.
    unsettled: AtomicUsize,
    on_release: Mutex<Option<OnRelease>>,
    /// The count of the threads that have no state of their own.
    pub(crate) teardown: CachePadded<LocalRefs>,
}

impl ShardedRef {
    pub(crate) fn new() -> Self {
        Self { unsettled: AtomicUsize::new(1), on_release: Mutex::new(None), teardown: CachePadded::default() }
    }

    /// Closes all counts; `threads` are those of the threads that have a state. `on_release` runs
    /// when the last reference has gone: at once, on this thread, if there is none.
    ///
    /// `this` is a pointer because `on_release` may free the object that this is a part of, and a
    /// reference that is an argument has to be valid until its function returns.
    ///
    /// # Safety
    /// `this` is valid, and this is called once for it. `on_release` keeps it valid until it has
    /// run. No reference is made any more.
    pub(crate) unsafe fn close<'a>(
        this: *const Self,
        threads: impl Iterator<Item = &'a LocalRefs>,
        on_release: impl FnOnce() + Send + 'static,
    ) {
        // SAFETY: 1. `on_release` keeps `this` valid until it has run. 2. The counts that were
        // closed at zero, and the initial one, are settled here and nowhere else.
        unsafe { Self::settle(this, (*this).close_all(threads, Box::new(on_release)) + 1) };
    }

    /// Closes all counts. Returns how many were zero.
    fn close_all<'a>(&self, threads: impl Iterator<Item = &'a LocalRefs>, on_release: OnRelease) -> usize {
        *lock(&self.on_release) = Some(on_release);
        let close = |count: &LocalRefs| {
            // Add before closing, so that no reference settles the count before it is added.
            // Relaxed: a reference that settles it has seen it closed.
            self.unsettled.fetch_add(1, Ordering::Relaxed);
            count.close()
        };
        threads.filter(|count| close(count)).count() + usize::from(close(&self.teardown))
    }

    /// Settles `counts` counts. The thread that settles the last one runs the release callback.
    ///
    /// # Safety
    /// These counts are the caller's to settle, so the release callback has not run.
    pub(crate) unsafe fn settle(this: *const Self, counts: usize) {
        // SAFETY: 1. The caller's counts are not settled before the subtraction, so the callback
        // has not run, and keeps `this` valid. 2. If they were the last, the callback runs below
        // and nowhere else.
        let on_release = unsafe {
            // AcqRel: the thread that settles the last count sees the callback, and all that was
            // done with the other references.
            if (*this).unsettled.fetch_sub(counts, Ordering::AcqRel) != counts {
                return;
            }
            lock(&(*this).on_release).take()
        };
        // Run it without the lock, and as the last access: `this` may be freed in it.
        if let Some(on_release) = on_release {
            on_release();
        }
    }
}
