//! What the watchdog reads: which batch a thread is running and since when, and when a shard was
//! last turned.

// Not through `sync`: these are observations, which no protocol depends on and which would only
// slow models down.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The clock is read once for this many tasks of a batch.
pub(crate) const TASKS_A_LOOK: usize = 64;

/// The task that a thread is running. The thread that runs the batch writes it, and any thread may
/// read it.
#[derive(Debug, Default)]
pub(crate) struct Running {
    /// When the running task began, or one of the 63 tasks before it in its batch. In nanoseconds
    /// of the engine's time, plus one; 0 if no task is running.
    since: AtomicU64,
    shard: AtomicU64,
}

impl Running {
    /// Returns what the thread was running before, for `restore`: a task may run a batch.
    pub(crate) fn begin(&self, shard: usize) -> (u64, u64) {
        let before = (self.since.load(Ordering::Relaxed), self.shard.load(Ordering::Relaxed));
        self.shard.store(shard as u64, Ordering::Relaxed);
        before
    }

    #[inline]
    pub(crate) fn look(&self, now_ns: u64) {
        // Release: pairs with the Acquire in `get`. A reader that sees this time sees the shard
        // too.
        self.since.store(now_ns.saturating_add(1), Ordering::Release);
    }

    pub(crate) fn restore(&self, (since, shard): (u64, u64)) {
        self.shard.store(shard, Ordering::Relaxed);
        self.since.store(since, Ordering::Release);
    }

    /// Returns the shard whose task is running, and since when.
    pub(crate) fn get(&self) -> Option<(usize, u64)> {
        let since = self.since.load(Ordering::Acquire).checked_sub(1)?;
        Some((usize::try_from(self.shard.load(Ordering::Relaxed)).ok()?, since))
    }
}

/// When a shard's last turn began, and when its next turn is due, in nanoseconds of the engine's
/// time. Its worker or driver is the only writer.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    /// Plus one; 0 if the shard was never turned.
    last: AtomicU64,
    next: AtomicU64,
}

impl Heartbeat {
    pub(crate) fn beat(&self, now_ns: u64) {
        self.last.store(now_ns.saturating_add(1), Ordering::Relaxed);
    }

    /// Returns `None` if the shard was never turned.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Sets when the next turn is due. Only drivers call this, after a turn: a worker announces it
    /// when it goes to sleep.
    pub(crate) fn rest_until(&self, ns: u64) {
        self.next.store(ns, Ordering::Relaxed);
    }

    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}

/// Set when a periodic timeout was armed for a time that has already come. A driver then turns the
/// shards once more.
#[derive(Debug, Default)]
pub(crate) struct Overdue(AtomicBool);

impl Overdue {
    pub(crate) fn set(&self) {
        // Where no driver clears it, it stays set: then producers keep the line.
        if !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Reads and clears the flag. Relaxed is enough: only a driver calls this, and the runs that
    /// set the flag for it were on its own thread.
    pub(crate) fn take(&self) -> bool {
        // As a rule it is not set. Only a read, then: producers read this line at each schedule.
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

/// Why a shard is not turned.
#[derive(Debug, Default)]
pub(crate) struct Fault(AtomicU64);

impl Fault {
    const CANNOT_START: u64 = u64::MAX;
    const CLOSED: u64 = u64::MAX - 1;

    /// Records that this many turns in a row have panicked.
    pub(crate) fn set_panics(&self, turns: u64) {
        self.0.store(turns, Ordering::Relaxed);
    }

    pub(crate) fn set_cannot_start(&self) {
        self.0.store(Self::CANNOT_START, Ordering::Relaxed);
    }

    pub(crate) fn cannot_start(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::CANNOT_START
    }

    /// Records that the shard has been closed. Nobody turns it any more, and that is no fault.
    pub(crate) fn set_closed(&self) {
        self.0.store(Self::CLOSED, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::CLOSED
    }

    pub(crate) fn is_panicking(&self) -> bool {
        !matches!(self.0.load(Ordering::Relaxed), 0 | Self::CANNOT_START | Self::CLOSED)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_running_task_is_reported_with_its_shard_and_start() {
        let running = Running::default();
        assert_eq!(running.get(), None);
        running.begin(3);
        assert_eq!(running.get(), None, "not before the clock has been read");
        running.look(0);
        assert_eq!(running.get(), Some((3, 0)));
        running.look(70);
        assert_eq!(running.get(), Some((3, 70)));
        running.look(u64::MAX);
        assert_eq!(running.get(), Some((3, u64::MAX - 1)), "the end of time is as good as its last moment");
    }

    #[test]
    fn a_batch_within_a_task_restores_the_outer_task() {
        let running = Running::default();
        let outside = running.begin(1);
        running.look(10);
        let before = running.begin(2);
        running.look(20);
        assert_eq!(running.get(), Some((2, 20)));
        running.restore(before);
        assert_eq!(running.get(), Some((1, 10)));
        running.restore(outside);
        assert_eq!(running.get(), None);
    }

    #[test]
    fn a_heartbeat_is_that_of_the_last_turn() {
        let heartbeat = Heartbeat::default();
        assert_eq!((heartbeat.last(), heartbeat.next()), (None, 0));
        heartbeat.beat(0);
        assert_eq!(heartbeat.last(), Some(0));
        heartbeat.beat(9);
        heartbeat.rest_until(25);
        assert_eq!((heartbeat.last(), heartbeat.next()), (Some(9), 25));
    }

    #[test]
    fn overdue_is_taken_once() {
        let overdue = Overdue::default();
        assert!(!overdue.take());
        overdue.set();
        overdue.set();
        assert!(overdue.take() && !overdue.take());
    }

    #[test]
    fn a_shard_has_one_fault_at_a_time() {
        let fault = Fault::default();
        let says = || [fault.is_panicking(), fault.cannot_start(), fault.is_closed()];
        assert_eq!(says(), [false; 3]);
        for turns in [1, 2, 1_000_000] {
            fault.set_panics(turns);
            assert_eq!(says(), [true, false, false]);
        }
        fault.set_panics(0);
        assert_eq!(says(), [false; 3]);
        fault.set_cannot_start();
        assert_eq!(says(), [false, true, false]);
        fault.set_closed();
        assert_eq!(says(), [false, false, true]);
    }
}
