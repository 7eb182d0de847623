//! Counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

/// The counters of this process's timers since their start, as
/// [`DurableTimer::stats`](crate::DurableTimer::stats) returns them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Schedules that are on disk.
    pub scheduled: u64,
    /// Resets that are on disk. One that found no row, or a run, is not counted.
    pub reset: u64,
    /// Cancels that are on disk. One that found no row, or a run, is not counted.
    pub cancelled: u64,
    /// Claims, each of which was one attempt.
    pub claimed: u64,
    /// Timeouts that came up in the wheel and that somebody else had changed or taken by then.
    pub lost_claims: u64,
    /// Runs that were done, and whose rows are deleted.
    pub completed: u64,
    /// Runs that are to be repeated, those that panicked among them.
    pub retried: u64,
    /// Handlers that panicked.
    pub panicked: u64,
    /// Rows that were moved to the dead letters.
    pub dead_lettered: u64,
    /// Runs that ended after their row had gone to another process, or was scheduled anew.
    pub stale_completions: u64,
    /// Commits that waited for the disk.
    pub commits: u64,
    /// Operations in those commits.
    pub written: u64,
    /// Scans for what comes up soon, and for what others have committed: four a second at least.
    pub scans: u64,
    /// Rows that scans have taken.
    pub taken: u64,
    /// Leases renewed by a query of their own.
    pub renewals: u64,
    /// Connections that were lost.
    pub disconnects: u64,
    /// Calls to the store that it has refused.
    pub store_errors: u64,
    /// Rows that the store can't read or write, and that are left alone for a while. Each try
    /// counts.
    pub set_aside: u64,
    /// Jumps of the wall clock, suspends of the machine among them.
    pub clock_jumps: u64,
    /// Calls that wait for the writer now.
    pub waiting: usize,
    /// Timeouts that this process has in its wheel now.
    pub held: usize,
    /// Timeouts that are claimed now: they run, or wait for a thread.
    pub running: usize,
    /// How late runs began: half of them by less.
    pub lateness_p50: Duration,
    /// How late runs began: 99 of 100 by less.
    pub lateness_p99: Duration,
    /// How late the latest run began.
    pub lateness_max: Duration,
}

macro_rules! counters {
    ($($name:ident),* $(,)?) => {
        /// Counters that one thread or several write, and any reads. Nothing is ordered by them.
        #[derive(Debug)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
            pub(crate) held: AtomicU64,
            pub(crate) running: AtomicU64,
            lateness: Mutex<Histogram<u64>>,
        }

        impl Counters {
            pub(crate) fn new() -> Self {
                // Of microseconds, to one percent.
                let lateness = Histogram::new(2).expect("two digits can be kept");
                Self {
                    $($name: Counter::default(),)*
                    held: AtomicU64::new(0),
                    running: AtomicU64::new(0),
                    lateness: Mutex::new(lateness),
                }
            }

            pub(crate) fn snapshot(&self, waiting: usize) -> Stats {
                let quantile = |lateness: &Histogram<u64>, q| Duration::from_micros(lateness.value_at_quantile(q));
                let lateness = self.lateness();
                Stats {
                    $($name: self.$name.get(),)*
                    waiting,
                    held: to_usize(&self.held),
                    running: to_usize(&self.running),
                    lateness_p50: quantile(&lateness, 0.5),
                    lateness_p99: quantile(&lateness, 0.99),
                    lateness_max: Duration::from_micros(lateness.max()),
                }
            }
        }

        #[cfg(feature = "metrics")]
        impl Stats {
            /// The counters, each with its name.
            pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters!(
    scheduled,
    reset,
    cancelled,
    claimed,
    lost_claims,
    completed,
    retried,
    panicked,
    dead_lettered,
    stale_completions,
    commits,
    written,
    scans,
    taken,
    renewals,
    disconnects,
    store_errors,
    set_aside,
    clock_jumps,
);

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn record_lateness(&self, lateness: Duration) {
        let micros = u64::try_from(lateness.as_micros()).unwrap_or(u64::MAX);
        // It grows for a long value, and that can fail only for want of memory.
        _ = self.lateness().record(micros);
    }

    pub(crate) fn set(gauge: &AtomicU64, value: usize) {
        gauge.store(value as u64, Ordering::Relaxed);
    }

    fn lateness(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.lateness.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn to_usize(gauge: &AtomicU64) -> usize {
    usize::try_from(gauge.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
}
