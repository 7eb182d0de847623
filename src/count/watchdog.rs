//! What the watchdog reads: which batch a thread is running and since when, and why a shard is not
//! turned.

// Not through `sync`: these are observations, which no protocol depends on and which would only
// slow models down.
use std::sync::atomic::{AtomicU64, Ordering};

// Why a shard is not turned, if it is not.
/// The last turn has panicked.
pub(crate) const PANICKING: u64 = 1;
/// The system had no thread for the worker.
pub(crate) const CANNOT_START: u64 = 2;
/// The shard has been closed, and that is no fault.
pub(crate) const ENDED: u64 = 3;

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
}
