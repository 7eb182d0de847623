//! Waits for a worker that makes no progress.

use std::time::Duration;

use crate::sync::Shown;

/// A worker that has not moved for as long, while threads waited for it, is stuck.
const STUCK: Duration = Duration::from_secs(1);

/// What the threads that wait for one worker have seen. Threads that write at the same time may
/// lose what one of them saw: it is an estimate.
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

    /// Notes how far the worker is, and returns whether it is stuck. That nobody has looked for as
    /// long proves nothing: the worker may have had nothing to do. So then the time begins anew.
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
