//! How many batches are under way to, or in, an executor, and how to wait until there are none.

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, lock};

#[derive(Debug)]
pub(crate) struct InFlight {
    batches: AtomicUsize,
    /// How many have ended so far.
    ended: AtomicUsize,
    at_zero: Mutex<()>,
    zero: Condvar,
}

impl InFlight {
    pub(super) fn new() -> Self {
        Self { batches: AtomicUsize::new(0), ended: AtomicUsize::new(0), at_zero: Mutex::new(()), zero: Condvar::new() }
    }

    pub(crate) fn begin(&self) {
        // Relaxed: the one who waits has made sure in another way that no more batches begin.
        self.batches.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.ended.fetch_add(1, Ordering::AcqRel);
        // Release: pairs with the Acquire in `wait`: whoever waits sees what the tasks did.
        if self.batches.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Under the lock, so that it can't fall between the waiter's look and its sleep.
            let _at_zero = lock(&self.at_zero);
            self.zero.notify_all();
        }
    }

    /// How many batches have ended so far.
    pub(crate) fn ended(&self) -> usize {
        // Acquire: whoever sees a batch ended sees what its tasks did.
        self.ended.load(Ordering::Acquire)
    }

    /// Blocks until no batch is under way.
    pub(crate) fn wait(&self) {
        let mut at_zero = lock(&self.at_zero);
        while self.batches.load(Ordering::Acquire) != 0 {
            at_zero = self.zero.wait(at_zero).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}
