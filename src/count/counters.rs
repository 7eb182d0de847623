//! What is counted, each counter written by one thread only, so that counting is a load and a store.

use crate::sync::{AtomicU64, Ordering};

/// A counter with one writer and any number of readers.
#[derive(Debug)]
pub(crate) struct Counter(AtomicU64);

impl Default for Counter {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Counter {
    /// By the writer alone: not a read-modify-write.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.set(self.get() + n);
    }

    /// By the writer alone. Release: pairs with the Acquire in `get`, so that a reader who sees what was counted here, and
    /// then looks at another counter, does not find that one older.
    #[inline]
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Release);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// A part of a whole, in 256ths.
pub(crate) struct Share;

impl Share {
    pub(crate) fn of(part: usize, whole: usize) -> usize {
        part * 256 / whole.max(1)
    }

    /// As large a part of another whole.
    pub(crate) fn part(share: u64, whole: usize) -> usize {
        whole * usize::try_from(share).unwrap_or(256) / 256
    }
}

/// What one thread has done on one shard.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Counts {
    /// In front: it is written together with what stands before the counts.
    pub(crate) scheduled: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) reset: Counter,
    pub(crate) rejected: Counter,
    /// Runs of series that it has begun.
    pub(crate) runs: Counter,
    /// Series that ended after a run, other than by a cancel.
    pub(crate) finished: Counter,
    /// Series that ended because their shard was closed before the next run.
    pub(crate) returned: Counter,
    /// Schedules that waited for the worker to give entries back.
    pub(crate) waits: Counter,
}

impl Counts {
    /// Timeouts that came to an end here.
    pub(crate) fn ended(&self) -> u64 {
        self.cancelled.get() + self.finished.get() + self.returned.get()
    }
}

/// Written by a shard's worker.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Out of the inbox, cancelled ones included.
    pub(crate) transferred: Counter,
    /// Those that run once.
    pub(crate) fired: Counter,
    /// Linked again, because the deadline had been moved.
    pub(crate) relinked: Counter,
    pub(crate) cascaded: Counter,
    /// Handed back by shutdown.
    pub(crate) returned: Counter,
    pub(crate) turns: Counter,
    /// Turns that left something over for the next.
    pub(crate) over_budget: Counter,
    /// Cancelled entries that the worker has let go of.
    pub(crate) collected: Counter,
    /// Returns from a park.
    pub(crate) wakeups: Counter,
    /// Turns that panicked, after which the worker went on.
    pub(crate) restarts: Counter,
    /// Entries that were in the inbox when it was last taken, while some of them have not been gone through.
    pub(crate) backlog: Counter,
    /// The same of the cancelled queue.
    pub(crate) cancelled_backlog: Counter,
    /// How many of those that were taken out of the inbox last were cancelled, as a [`Share`].
    pub(crate) cancelled_share: Counter,
    /// Entries in the wheel.
    pub(crate) linked: Counter,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_counter_adds_up_and_can_be_set() {
        let counter = Counter::default();
        assert_eq!(counter.get(), 0);
        counter.add(5);
        counter.add(2);
        assert_eq!(counter.get(), 7);
        counter.set(3);
        counter.add(0);
        assert_eq!(counter.get(), 3);
    }

    #[test]
    fn what_was_cancelled_finished_or_returned_has_ended() {
        let counts = Counts::default();
        counts.scheduled.add(100);
        counts.reset.add(100);
        counts.runs.add(100);
        counts.rejected.add(100);
        assert_eq!(counts.ended(), 0);
        counts.cancelled.add(10);
        counts.finished.add(20);
        counts.returned.add(40);
        assert_eq!(counts.ended(), 70);
    }
}
