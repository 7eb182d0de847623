//! Counts the batches that are on their way to an executor, or in it, and waits until there are
//! none.

use std::time::Duration;

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, lock, wait_for};

/// How often a thread that waits looks whether a batch needs help.
const HELP_AFTER: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Given to an executor that is sure to run them, or running.
    under_way: AtomicUsize,
    running: AtomicUsize,
    /// How many threads wait.
    waiters: Mutex<usize>,
    has_ended: Condvar,
}

impl InFlight {
    /// Counts a batch as under way.
    pub(crate) fn begin(&self) {
        // Relaxed: the thread that waits has made sure in another way that no more batches begin.
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a batch that is under way as running.
    pub(crate) fn run(&self) {
        // Relaxed: the thread that waits has made sure in another way that no more batches begin.
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a batch that ran as ended.
    pub(crate) fn end(&self) {
        // Release: pairs with the Acquire of the waiters, which see what the tasks did.
        let no_other_runs = self.running.fetch_sub(1, Ordering::AcqRel) == 1;
        if self.under_way.fetch_sub(1, Ordering::AcqRel) == 1 || no_other_runs {
            // Under the lock, so that the notification can't fall between a waiter's look and its
            // sleep. Only if a thread waits: a notification is a system call, and every timeout
            // that expires alone comes here.
            if *lock(&self.waiters) > 0 {
                self.has_ended.notify_all();
            }
        }
    }

    /// Returns whether a batch is running.
    pub(crate) fn is_running(&self) -> bool {
        // Relaxed: nothing is read by it.
        self.running.load(Ordering::Relaxed) > 0
    }

    /// Blocks until no batch is under way. With `only_running` those that wait in an executor don't
    /// count. Calls `help` now and then: a batch may need a thread.
    pub(crate) fn wait(&self, only_running: bool, mut help: impl FnMut()) {
        let batches = if only_running { &self.running } else { &self.under_way };
        let mut waiters = lock(&self.waiters);
        *waiters += 1;
        // Acquire: pairs with the release in `end`.
        while batches.load(Ordering::Acquire) != 0 {
            drop(wait_for(&self.has_ended, waiters, HELP_AFTER));
            help();
            waiters = lock(&self.waiters);
        }
        *waiters -= 1;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    /// Returns whether a thread that waits in this way returns before, and after, `end`.
    fn comes_back(wait: impl FnOnce() + Send, end: impl FnOnce()) -> [bool; 2] {
        let (send, receive) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                wait();
                let _ = send.send(());
            });
            let before = receive.recv_timeout(Duration::from_millis(60)) != Err(RecvTimeoutError::Timeout);
            end();
            [before, before || receive.recv_timeout(Duration::from_secs(5)).is_ok()]
        })
    }

    #[test]
    fn waiting_for_all_includes_batches_that_have_not_begun_to_run() {
        let in_flight = InFlight::default();
        in_flight.begin();
        in_flight.begin();
        in_flight.run();
        in_flight.end();
        in_flight.wait(true, || ());
        let ends = || {
            in_flight.run();
            in_flight.end();
        };
        assert_eq!(comes_back(|| in_flight.wait(false, || ()), ends), [false, true]);
    }

    #[test]
    fn waiting_for_running_batches_ignores_the_rest() {
        let in_flight = InFlight::default();
        in_flight.begin();
        in_flight.begin();
        in_flight.run();
        assert_eq!(comes_back(|| in_flight.wait(true, || ()), || in_flight.end()), [false, true]);
        // Once more: nobody waits now, and then a thread waits again.
        in_flight.run();
        assert_eq!(comes_back(|| in_flight.wait(true, || ()), || in_flight.end()), [false, true]);
        assert_eq!(*lock(&in_flight.waiters), 0, "no thread waits, so no notification costs a system call");
    }
}
