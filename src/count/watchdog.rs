//! Signs that something stands still: which batch a thread is running and since when, why a shard
//! is not turned, and how long a worker has not moved while threads wait for it.

// Not through `sync`: these are observations, which no protocol depends on and which would only
// slow models down.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::sync::Shown;

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
    /// Returns what the thread was running before, for `restore`: a task may run a batch. Until the
    /// first look, the time is still the outer task's.
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
        // Release: as in `look`.
        self.since.store(since, Ordering::Release);
    }

    /// Returns the shard whose task is running, and since when.
    pub(crate) fn get(&self) -> Option<(usize, u64)> {
        // Acquire: pairs with the Release in `look` and `restore`.
        let since = self.since.load(Ordering::Acquire).checked_sub(1)?;
        Some((usize::try_from(self.shard.load(Ordering::Relaxed)).ok()?, since))
    }
}

/// A worker that has not moved for as long, while threads waited for it, is stuck.
const STUCK: Duration = Duration::from_secs(1);

/// The observations of the threads that wait for one worker. Threads that write at the same time
/// may lose one of them: it is an estimate.
#[derive(Debug)]
pub(crate) struct Stall {
    /// The worker's progress when a thread looked last.
    progress: Shown,
    /// When a thread first saw that progress, in nanoseconds since some moment.
    since: Shown,
    /// When a thread looked last.
    looked: Shown,
}

impl Stall {
    pub(crate) const fn none() -> Self {
        // No progress is that large, so the first look begins the time.
        Self { progress: Shown::new(u64::MAX), since: Shown::new(0), looked: Shown::new(0) }
    }

    /// Notes how far the worker is, and returns whether it is stuck. If nobody has looked for as
    /// long, that proves nothing: the worker may have had nothing to do. So the time then begins
    /// anew.
    pub(crate) fn is_stuck(&self, progress: u64, now_ns: u64) -> bool {
        let has_passed = |since: &Shown| Duration::from_nanos(now_ns.saturating_sub(since.get())) >= STUCK;
        if self.progress.get() != progress || has_passed(&self.looked) {
            self.progress.set(progress);
            self.since.set(now_ns);
        }
        self.looked.set(now_ns);
        has_passed(&self.since)
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

    const MS: u64 = 1_000_000;

    #[test]
    fn a_worker_is_stuck_that_stands_for_a_second_while_threads_look() {
        let (stall, start) = (Stall::none(), 5_000 * MS);
        assert!(!stall.is_stuck(7, start));
        assert!(!stall.is_stuck(7, start + 900 * MS));
        assert!(stall.is_stuck(7, start + 1_000 * MS));
        assert!(stall.is_stuck(7, start + 1_500 * MS), "and stays so");
        assert!(!stall.is_stuck(8, start + 1_501 * MS), "until it moves");
    }

    #[test]
    fn the_first_look_begins_the_time_however_young_the_process_is() {
        let stall = Stall::none();
        assert!(!stall.is_stuck(0, 500 * MS) && !stall.is_stuck(0, 1_499 * MS));
        assert!(stall.is_stuck(0, 1_500 * MS));
    }

    #[test]
    fn a_worker_that_nobody_has_looked_at_for_a_second_is_given_another() {
        let (stall, start) = (Stall::none(), 5_000 * MS);
        assert!(!stall.is_stuck(7, start) && !stall.is_stuck(7, start + 999 * MS));
        assert!(!stall.is_stuck(7, start + 2_000 * MS));
        assert!(!stall.is_stuck(7, start + 2_500 * MS));
        assert!(stall.is_stuck(7, start + 3_000 * MS));
    }
}
