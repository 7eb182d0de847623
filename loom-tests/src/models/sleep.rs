//! Futures that sleep: a task that polls one while it rings is woken, or finds it ready.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use super::check::check;
use super::rig::{assert_all_home, driven, ticks};
use crate::future::Sleep;
use crate::sync::thread;
use crate::time::ManualClock;
use crate::timer::{Driver, Timer};

/// Counts outside of loom, so that counting orders nothing.
#[derive(Debug, Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A task that polls.
#[derive(Clone, Debug)]
struct Task {
    woken: Arc<Woken>,
    waker: Waker,
}

impl Task {
    fn new() -> Self {
        let woken = Arc::<Woken>::default();
        Self { waker: Waker::from(Arc::clone(&woken)), woken }
    }

    fn finds_ready(&self, sleep: &mut Sleep) -> bool {
        Pin::new(sleep).poll(&mut Context::from_waker(&self.waker)).is_ready()
    }

    fn woken(&self) -> usize {
        self.woken.0.load(Ordering::Relaxed)
    }

    /// Asserts that nothing else holds its waker any more.
    fn assert_forgotten(&self) {
        assert_eq!(Arc::strong_count(&self.woken), 2, "a waker has leaked, or was dropped twice");
    }
}

/// Returns a sleep whose time has come and which `task` has polled, and its engine, which has not
/// been turned since.
fn about_to_ring(task: &Task) -> (Timer, Driver, ManualClock, Sleep) {
    let (timer, driver, clock) = driven(|b| b.capacity(2));
    let mut sleep = timer.sleep(ticks(1));
    assert!(!task.finds_ready(&mut sleep));
    clock.advance(ticks(1));
    (timer, driver, clock, sleep)
}

/// Invariant: a sleep that another task polls while it rings is ready, or wakes that task.
/// Legal ends: ready; woken, and then ready.
#[test]
fn a_task_that_polls_while_it_rings_is_woken_or_finds_it_ready() {
    check(4, |_| {
        let (first, second) = (Task::new(), Task::new());
        let (timer, mut driver, _clock, mut sleep) = about_to_ring(&first);
        let task = second.clone();
        let other = thread::spawn(move || (task.finds_ready(&mut sleep), sleep));
        driver.turn();
        let (ready, mut sleep) = other.join().expect("no panic");
        assert!(ready || second.woken() == 1, "it waits for ever");
        assert!(first.woken() + second.woken() <= 1);
        assert!(second.finds_ready(&mut sleep));
        drop(sleep);
        first.assert_forgotten();
        // This task, and the clone that has gone with its thread.
        second.assert_forgotten();
        assert_all_home(&timer, &mut driver);
    });
}

/// Invariant: so does one that the same task polls again.
/// Legal ends: ready; woken, and then ready.
#[test]
fn a_task_that_polls_again_while_it_rings_finds_it_ready() {
    check(None, |_| {
        let task = Task::new();
        let (timer, mut driver, _clock, mut sleep) = about_to_ring(&task);
        let again = task.clone();
        let other = thread::spawn(move || (again.finds_ready(&mut sleep), sleep));
        assert_eq!(driver.turn(), 1);
        let (_, mut sleep) = other.join().expect("no panic");
        assert!(task.woken() == 1 && task.finds_ready(&mut sleep), "it waits for ever");
        drop(sleep);
        task.assert_forgotten();
        assert_all_home(&timer, &mut driver);
    });
}

/// Invariant: a sleep that is dropped while it rings leaves neither waker nor entry behind.
/// Legal ends: cancelled; woken once.
#[test]
fn a_sleep_is_dropped_while_it_rings() {
    check(4, |_| {
        let task = Task::new();
        let (timer, mut driver, _clock, sleep) = about_to_ring(&task);
        let other = thread::spawn(move || drop(sleep));
        let fired = driver.turn();
        other.join().expect("no panic");
        assert_eq!(task.woken(), fired);
        driver.turn();
        task.assert_forgotten();
        assert_all_home(&timer, &mut driver);
    });
}

/// Invariant: a sleep that is reset to later while it rings is not ready before its new deadline,
/// and then it is. A task that polls it after the reset is woken.
/// Legal ends: it rang, and was armed anew; it was moved.
#[test]
fn a_sleep_is_reset_while_it_rings() {
    check(3, |_| {
        let (first, second) = (Task::new(), Task::new());
        let (timer, mut driver, clock, mut sleep) = about_to_ring(&first);
        let task = second.clone();
        let other = thread::spawn(move || {
            sleep.reset(ticks(1));
            assert!(!task.finds_ready(&mut sleep), "early");
            sleep
        });
        driver.turn();
        let mut sleep = other.join().expect("no panic");
        assert!(second.woken() == 0);
        clock.advance(ticks(1));
        driver.turn();
        assert!(second.woken() == 1, "it waits for ever");
        assert!(second.finds_ready(&mut sleep));
        drop(sleep);
        first.assert_forgotten();
        second.assert_forgotten();
        assert_all_home(&timer, &mut driver);
    });
}

/// Invariant: a task that polls a sleep while a shutdown ends it is woken, or finds it ready. No
/// waker is left behind.
/// Legal ends: the poll finds it ready; the poll comes before, and its task is woken; the poll
/// comes in between, so that no task needs to be woken.
#[test]
fn a_task_that_polls_during_a_shutdown_is_woken_or_finds_it_ready() {
    check(4, |_| {
        let (first, second) = (Task::new(), Task::new());
        let (timer, driver, _clock) = driven(|b| b.capacity(2));
        let mut sleep = timer.sleep(ticks(1));
        assert!(!first.finds_ready(&mut sleep));
        let task = second.clone();
        let other = thread::spawn(move || {
            let is_ready = task.finds_ready(&mut sleep);
            (sleep, is_ready)
        });
        assert!(timer.shutdown().expect("the first").is_empty());
        let (mut sleep, is_ready) = other.join().expect("no panic");
        assert!(is_ready || second.woken() == 1, "no thread wakes the task that polled last");
        assert!(first.woken() + second.woken() <= 1);
        first.assert_forgotten();
        second.assert_forgotten();
        assert!(second.finds_ready(&mut sleep) && sleep.ended_by_shutdown());
        drop((sleep, driver));
    });
}

/// Invariant: when a shutdown has returned, a sleep that it did not return has been woken, even if
/// another thread was waking it.
/// Legal ends: the shutdown returned it; it was woken before the shutdown returned.
#[test]
fn a_shutdown_waits_for_wakes_under_way() {
    check(None, |_| {
        let task = Task::new();
        let (timer, mut driver, _clock, sleep) = about_to_ring(&task);
        let turns = thread::spawn(move || {
            driver.turn();
            driver
        });
        let left = timer.shutdown().expect("the first");
        assert_eq!(left.len() + task.woken(), 1, "neither returned nor woken");
        drop(left);
        drop(turns.join().expect("no panic"));
        drop(sleep);
        task.assert_forgotten();
    });
}

/// Invariant: the links of a batch of wake-ups are the batch's, and the link of a tombstone is its
/// producer's.
/// Legal end: each sleep is dropped before the shutdown, during it, or after it.
#[test]
fn sleeps_are_dropped_while_a_shutdown_collects_the_wakes() {
    check(3, |_| {
        let task = Task::new();
        let (timer, driver, _clock) = driven(|b| b.capacity(3));
        let (mut first, mut second) = (timer.sleep(ticks(9)), timer.sleep(ticks(9)));
        assert!(!task.finds_ready(&mut first));
        assert!(!task.finds_ready(&mut second));
        let other = thread::spawn(move || {
            drop(timer.shutdown());
            drop(driver);
        });
        // The list of tombstones writes to an entry when the next is pushed.
        drop(first);
        drop(second);
        other.join().expect("no panic");
    });
}
