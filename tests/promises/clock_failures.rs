//! A clock that panics while a batch runs: on a pool's thread or on a worker, no timeout is lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tourbillon::{Clock, Inline, Shutdown, ThreadPool, Timeout, Timer};

use crate::common::{HOUR, Runs, assert_counters_reconcile, eventually};

/// Fails for the next looks of threads other than the test's, this number of times.
#[derive(Clone)]
struct Fails {
    spared: ThreadId,
    looks: Arc<AtomicUsize>,
}

impl Clock for Fails {
    fn now(&self) -> Instant {
        if thread::current().id() != self.spared {
            let fewer = |looks: usize| looks.checked_sub(1);
            let failed = self.looks.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer).is_ok();
            assert!(!failed, "on purpose, in a clock");
        }
        Instant::now()
    }
}

/// Panics at one look: the n-th from now on.
#[derive(Clone, Default)]
struct FailsOnce(Arc<AtomicUsize>);

impl Clock for FailsOnce {
    fn now(&self) -> Instant {
        let fewer = |looks: usize| looks.checked_sub(1);
        let was = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
        assert!(was != Ok(1), "on purpose, in a clock");
        Instant::now()
    }
}

#[test]
fn a_shutdown_whose_clock_panics_ends_the_engine_or_leaves_it_whole() {
    for (look, how) in (1..=4).flat_map(|look| [Shutdown::Cancel, Shutdown::Drain(HOUR)].map(|how| (look, how))) {
        let clock = FailsOnce::default();
        let built = Timer::builder().clock(clock.clone()).build_driven();
        let (timer, driver) = built.expect("the options make sense");
        let timeouts = [0; 3].map(|_| timer.schedule(HOUR, || ()).expect("accepted"));
        clock.0.store(look, Ordering::SeqCst);
        let first = catch_unwind(AssertUnwindSafe(|| timer.shutdown_with(how)));
        clock.0.store(0, Ordering::SeqCst);
        let left = match first {
            Ok(left) => left.expect("the first"),
            Err(_) => {
                assert!(!timer.is_shutdown() && timeouts.iter().all(Timeout::is_pending), "look {look}");
                timer.shutdown().expect("the first that did anything")
            }
        };
        assert_eq!((left.len(), timer.is_shutdown()), (3, true), "look {look}");
        drop(driver);
    }
}

#[test]
fn a_clock_that_panics_while_a_batch_runs_loses_none_of_it() {
    for builder in [Timer::builder().executor(ThreadPool::new(1)), Timer::builder().executor(Inline)] {
        let clock = Fails { spared: thread::current().id(), looks: Arc::default() };
        let timer = builder.shards(1).clock(clock.clone()).build().expect("the options make sense");
        let runs = Runs::new(100);
        let mut tasks: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for id in 0..100 {
            let (run, looks) = (runs.task(id), Arc::clone(&clock.looks));
            tasks.push(Box::new(move || {
                run();
                // From here on the clock fails a few times: within the batch, and on the worker.
                if id == 50 {
                    looks.store(5, Ordering::SeqCst);
                }
            }));
        }
        drop(timer.schedule_many(Duration::ZERO, tasks).expect("accepted"));
        eventually("all have run", || runs.total() == 100);
        runs.assert_each_ran_once();
        let after = timer.schedule(Duration::ZERO, || ()).expect("accepted");
        eventually("and it goes on", || after.is_expired() && timer.pending() == 0);
        eventually("all runs are counted", || timer.stats().fired == 101);
        assert_counters_reconcile(&timer.stats());
        drop(timer.shutdown().expect("the first"));
    }
}
