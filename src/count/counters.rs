//! Event counters. Each counter has one writer thread, so that counting is a load and a store.

use crate::sync::{AtomicU64, Ordering, Shown};

/// A counter with one writer and any number of readers.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter. Only the writer may call this: it is not a read-modify-write. With 0 it
    /// writes nothing, so that others keep the line.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        if n > 0 {
            self.set(self.get() + n);
        }
    }

    /// Sets the counter. Only the writer may call this.
    ///
    /// Release: pairs with the Acquire in `get`. A reader that sees this value, and then reads
    /// another counter, gets at least what the writer had stored there before.
    #[inline]
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Release);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // Acquire: pairs with the Release in `set`.
        self.0.load(Ordering::Acquire)
    }
}

/// The whole of which [`Counters::cancelled_share`] is a part.
pub(crate) const WHOLE: usize = 256;

/// The counts of one thread on one shard.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Counts {
    /// The first field, because it is written together with the data that precede the counts.
    pub(crate) scheduled: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) reset: Counter,
    pub(crate) rejected: Counter,
    /// One-shot timeouts that this thread has run out of a batch.
    pub(crate) fired: Counter,
    /// Runs of periodic timeouts that this thread has begun.
    pub(crate) runs: Counter,
    /// Periodic timeouts that ended after a run, other than by a cancel.
    pub(crate) finished: Counter,
    /// Timeouts that a shutdown returned, or dropped, on their way to a thread that would have run
    /// them.
    pub(crate) returned: Counter,
    /// Schedules that waited for the worker to give entries back.
    pub(crate) waits: Counter,
    /// Tasks that have run to their end on this thread, and futures that it has woken.
    pub(crate) completed: Counter,
}

impl Counts {
    /// Timeouts that ended on this thread.
    pub(crate) fn ended(&self) -> u64 {
        self.fired.get() + self.cancelled.get() + self.finished.get() + self.returned.get()
    }
}

/// The counts of a shard's worker, which is their only writer. In this order a turn writes one
/// cache line if it only fires, and two if it also takes in.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Counters {
    pub(crate) turns: Counter,
    /// Turns that left entries for the next turn.
    pub(crate) over_budget: Counter,
    /// When the last turn began, in nanoseconds of the engine's time, plus one; 0 before the first.
    last_turn: Shown,
    /// When a driver has to turn the shard again, in nanoseconds of the engine's time. A worker
    /// stores in the shard's `wake_at` until when it sleeps.
    pub(crate) next_turn: Shown,
    /// Returns from a park.
    pub(crate) wakeups: Counter,
    /// One-shot timeouts that the worker fired itself, and futures.
    pub(crate) fired: Counter,
    /// Entries in the wheel.
    pub(crate) linked: Counter,
    pub(crate) cascaded: Counter,
    /// Entries taken out of the inbox, including cancelled ones.
    pub(crate) transferred: Counter,
    /// Arrivals that were turned round, before they are linked.
    pub(crate) turned_round: Counter,
    /// Entries that were linked again because their deadline had been moved.
    pub(crate) relinked: Counter,
    /// Cancelled entries that the worker has freed.
    pub(crate) collected: Counter,
    /// The length of the inbox when the worker last took it. 0 once the worker has gone through all
    /// of those entries.
    pub(crate) backlog: Counter,
    /// Like `backlog`, for the cancelled queue.
    pub(crate) cancelled_backlog: Counter,
    /// Like `backlog`, for the moved queue.
    pub(crate) moved_backlog: Counter,
    /// The share of cancelled entries among those last taken out of the inbox: how many
    /// of [`WHOLE`].
    pub(crate) cancelled_share: Counter,
    /// Timeouts that a shutdown returned.
    pub(crate) returned: Counter,
    /// Turns that panicked, after which the worker went on.
    pub(crate) panicked_turns: Counter,
    /// The core that the worker is pinned to, plus one; 0 if it is not pinned.
    pub(crate) pinned_to: Shown,
}

impl Counters {
    /// Notes when a turn begins.
    #[inline]
    pub(crate) fn begin_turn(&self, now_ns: u64) {
        self.last_turn.set(now_ns.saturating_add(1));
    }

    /// Returns when the last turn began, in nanoseconds of the engine's time, or `None` before the
    /// first.
    pub(crate) fn last_turn(&self) -> Option<u64> {
        self.last_turn.get().checked_sub(1)
    }
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
    fn fired_cancelled_finished_and_returned_timeouts_have_ended() {
        let counts = Counts::default();
        counts.scheduled.add(100);
        counts.reset.add(100);
        counts.runs.add(100);
        counts.rejected.add(100);
        assert_eq!(counts.ended(), 0);
        counts.cancelled.add(10);
        counts.finished.add(20);
        counts.returned.add(40);
        counts.fired.add(80);
        assert_eq!(counts.ended(), 150);
    }
}
