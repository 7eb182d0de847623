//! A handle that outlives its engine: the last of the two frees the memory, once, and no thread
//! touches it after that.
//!
//! The models check this from outside: freed memory is poisoned and counted (`memory.rs`), and
//! every use of it must happen before its release (`sync.rs`).

use super::check::check;
use super::rig::{Bare, NO_LIMITS, driven, run_batches, run_elsewhere, ticks};
use crate::arena::give_number_back;
use crate::sync::thread;
use crate::time::Subtick;

/// Invariant: the handle of a timeout that is pending when the engine ends may outlive the engine,
/// and what its cancel or its reset pushes to a side queue meanwhile is freed once.
/// Legal ends: the engine frees everything; the handle does.
#[test]
fn a_pending_handle_outlives_its_engine() {
    for (linked, resets) in [(false, false), (true, false), (true, true)] {
        check(3, move |ledger| {
            let (timer, mut driver, _clock) = driven(|b| b);
            let timeout = timer.schedule(ticks(5), ledger.task()).expect("open");
            if linked {
                driver.turn();
            }
            let handle = thread::spawn(move || {
                if resets {
                    let _ = timeout.reset(ticks(1));
                } else {
                    timeout.cancel();
                    assert!(timeout.is_cancelled());
                }
            });
            drop(timer);
            drop(driver);
            handle.join().expect("no panic");
            ledger.assert_closed(0);
        });
    }
}

/// Invariant: a handle that is the last owner of its entry may give it back while the engine ends.
/// Legal ends: the engine frees everything; the handle does.
#[test]
fn a_handle_of_a_timeout_that_has_run_outlives_its_engine() {
    check(None, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b);
        let timeout = timer.schedule(ticks(0), ledger.task()).expect("open");
        assert_eq!(driver.turn(), 1);
        let handle = thread::spawn(move || drop(timeout));
        drop(timer);
        drop(driver);
        handle.join().expect("no panic");
        ledger.assert_closed(1);
    });
}

/// Invariant: two handles may outlive the engine, one of a timeout that is pending and one of a
/// timeout that has run.
/// Legal ends: the engine frees everything; one of the two does.
#[test]
fn two_handles_outlive_their_engine() {
    check(3, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b.capacity(2));
        let one = timer.schedule(ticks(0), ledger.task()).expect("open");
        let other = timer.schedule(ticks(5), ledger.task()).expect("open");
        assert_eq!(driver.turn(), 1);
        let handles = [one, other].map(|timeout| thread::spawn(move || drop(timeout)));
        drop(timer);
        drop(driver);
        handles.into_iter().for_each(|handle| handle.join().expect("no panic"));
        ledger.assert_closed(1);
    });
}

/// Invariant: a batch that is still under way when all else has gone keeps the engine's memory,
/// also against the handle of a timeout in it.
/// Legal ends: the thread that runs the batch frees everything; the handle does.
#[test]
fn a_batch_and_a_handle_outlive_their_engine() {
    check(None, |ledger| {
        let (bare, mut shard, timeout, batches) = Bare::with_one_due(&ledger);
        let runner = run_elsewhere(batches);
        let handle = thread::spawn(move || drop(timeout));
        assert_eq!(shard.close(&bare.shared).len(), 0);
        drop((bare, shard));
        runner.join().expect("no panic");
        handle.join().expect("no panic");
        ledger.assert_closed(1);
    });
}

/// Invariant: threads in teardown have no free list of their own any more, and share one. If one of
/// them gives an entry back, another does not arm it before it is free.
/// Legal end: the timeout that was scheduled meanwhile is the engine's, in a recycled entry or in a
/// fresh one.
#[test]
fn two_threads_in_teardown_share_a_free_list() {
    check(3, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b.capacity(3));
        let [one, other] = [0; 2].map(|_| timer.schedule(ticks(0), ledger.task()).expect("open"));
        assert_eq!(driver.turn(), 2);
        let one = thread::spawn(move || {
            give_number_back();
            drop(one);
        });
        let (theirs, task) = (timer.clone(), ledger.task());
        let other = thread::spawn(move || {
            give_number_back();
            drop(other);
            theirs.schedule_detached(ticks(5), task).expect("open");
        });
        one.join().expect("no panic");
        other.join().expect("no panic");
        assert_eq!(timer.shutdown().expect("the first").len(), 1);
        ledger.assert_closed(2);
    });
}

/// Invariant: the handle of a thread in teardown may outlive its engine like any other.
/// Legal ends: the engine frees everything; the handle does.
#[test]
fn a_handle_of_a_thread_in_teardown_outlives_its_engine() {
    check(None, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b);
        let timeout = timer.schedule(ticks(0), ledger.task()).expect("open");
        assert_eq!(driver.turn(), 1);
        let handle = thread::spawn(move || {
            give_number_back();
            drop(timeout);
        });
        drop(timer);
        drop(driver);
        handle.join().expect("no panic");
        ledger.assert_closed(1);
    });
}

/// Invariant: a thread in teardown may cancel a timeout in its slot, or reset it to earlier, and
/// drop the handle while the worker pops the entry off the side queue. The entry comes back once.
/// Legal ends: the runner, the queue or the handle is its last owner; it ran, or was cancelled.
#[test]
fn a_thread_in_teardown_lets_go_of_what_it_has_queued() {
    for cancels in [false, true] {
        check(3, move |ledger| {
            let (bare, mut shard) = Bare::new(1, NO_LIMITS);
            let timeout = bare.schedule(Subtick::new(3), &ledger);
            shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
            let handle = thread::spawn(move || {
                give_number_back();
                let done = if cancels { timeout.cancel() } else { timeout.reset(ticks(2)) };
                drop(timeout);
                done
            });
            let now = Subtick::new(3);
            shard.turn(&bare.shared, now, || None, run_batches);
            let cancelled = handle.join().expect("no panic") && cancels;
            shard.turn(&bare.shared, now, || None, run_batches);
            assert_eq!(bare.shared.arena.in_use(), 0, "the entry has come back");
            assert_eq!(shard.close(&bare.shared).len(), 0);
            ledger.assert_closed(usize::from(!cancelled));
        });
    }
}
