//! Tombstones: a timeout that is armed in the entry of a cancelled one, still in the inbox or in
//! its slot, is a timeout like any other, whatever the worker does to the cancelled one meanwhile.

use super::check::check;
use super::rig::{
    Ledger, Resting, assert_all_home, driven, entries_in_use, shutdown_elsewhere, ticks, with_tombstones_in_slots,
};
use crate::sync::thread;
use crate::time::ManualClock;
use crate::timer::{Driver, Shutdown, Timeout, Timer};

/// Leaves this thread with a tombstone, if the worker has not taken it out of the inbox in between.
fn schedule_and_cancel(timer: &Timer, ledger: &Ledger) {
    let timeout = timer.schedule(ticks(9), ledger.task()).expect("open");
    assert!(timeout.cancel());
    drop(timeout);
}

/// Schedules a timeout whose slot may keep a tombstone.
fn schedule_into_a_slot(timer: &Timer, driver: &mut Driver, ledger: &Ledger) -> Timeout {
    let timeout = timer.schedule(ticks(9), ledger.task()).expect("open");
    with_tombstones_in_slots(&timeout);
    driver.turn();
    timeout
}

/// Turns as an event loop does, until one task has run.
fn turn_until_one_ran(driver: &mut Driver, clock: &ManualClock, ledger: &Ledger) {
    let me = thread::current();
    driver.on_earlier(move || me.unpark());
    while ledger.ran() < 1 {
        driver.turn();
        if ledger.ran() < 1 && driver.next_wakeup().is_none_or(|at| at > clock.now()) {
            thread::park();
        }
    }
}

/// Invariant: a revived entry wakes a worker that sleeps past the new deadline. The worker sleeps
/// because of a later timeout at first, so the push of the entry, for later still, leaves it
/// asleep. (A park has no end here: a lost wake-up is a deadlock.)
/// Legal end: the revived timeout has run, and the others were dropped.
#[test]
fn a_revived_entry_wakes_the_worker() {
    check(2, |ledger| {
        let (timer, mut driver, clock) = driven(|b| b.capacity(3));
        timer.schedule_detached(ticks(5), ledger.task()).expect("open");
        driver.turn();
        assert!(driver.next_wakeup().is_some_and(|at| at > clock.now()));
        let theirs = ledger.clone();
        let worker = thread::spawn(move || {
            turn_until_one_ran(&mut driver, &clock, &theirs);
            driver
        });
        schedule_and_cancel(&timer, &ledger);
        timer.schedule_detached(ticks(0), ledger.task()).expect("open");
        drop(worker.join().expect("no panic"));
        ledger.assert_closed(1);
    });
}

/// Invariant: this holds also if the tombstone is in a slot, which comes up after the new deadline:
/// another entry is pushed.
/// Legal end: the second timeout has run.
#[test]
fn a_timeout_before_the_slot_of_a_tombstone_wakes_the_worker() {
    check(2, |ledger| {
        let (timer, mut driver, clock) = driven(|b| b.capacity(3));
        let first = schedule_into_a_slot(&timer, &mut driver, &ledger);
        assert!(driver.next_wakeup().is_some_and(|at| at > clock.now()));
        let theirs = ledger.clone();
        let worker = thread::spawn(move || {
            turn_until_one_ran(&mut driver, &clock, &theirs);
            driver
        });
        assert!(first.cancel_owned());
        timer.schedule_detached(ticks(0), ledger.task()).expect("open");
        drop(worker.join().expect("no panic"));
        ledger.assert_closed(1);
    });
}

/// Invariant: this holds also if the tombstone's thread is not the one that pushed the entry, after
/// the worker fell asleep.
/// Legal end: the revived timeout has run, and the others were dropped.
#[test]
fn an_entry_that_another_thread_pushed_is_revived() {
    check(2, |ledger| {
        let (timer, mut driver, clock) = driven(|b| b.capacity(3));
        let (theirs, task, first) = (timer.clone(), ledger.task(), ledger.task());
        let pushed = timer.schedule(ticks(9), first).expect("open");
        let thread = thread::spawn(move || {
            // From here on the thread has a home shard, and keeps tombstones.
            let own = theirs.schedule(ticks(8), || ()).expect("open");
            assert!(pushed.cancel());
            drop(pushed);
            theirs.schedule_detached(ticks(0), task).expect("open");
            own.cancel();
        });
        turn_until_one_ran(&mut driver, &clock, &ledger);
        thread.join().expect("no panic");
        ledger.assert_closed(1);
    });
}

/// Invariant: the worker that finds the entry cancelled lets go of it, or links it with the new
/// deadline. It does not do both, and the entry is not in use twice.
/// Legal ends: revived where it was, or pushed anew; the second timeout runs, at its time.
#[test]
fn an_entry_revived_during_the_transfer_runs_once_and_on_time() {
    check(None, |ledger| {
        let (timer, mut driver, clock) = driven(|b| b.capacity(2));
        schedule_and_cancel(&timer, &ledger);
        let worker = thread::spawn(move || {
            assert_eq!(driver.turn(), 0);
            driver
        });
        let again = timer.schedule(ticks(5), ledger.task()).expect("open");
        assert_eq!(entries_in_use(&again), 1);
        let mut driver = worker.join().expect("no panic");
        clock.advance(ticks(4));
        assert_eq!(driver.turn(), 0);
        clock.advance(ticks(1));
        assert_eq!(driver.turn(), 1);
        assert!(again.is_expired());
        ledger.assert_closed(1);
    });
}

/// Invariant: neither cancel, tombstone and revival on the one side, nor the transfer on the other,
/// leave a task or an entry behind.
/// Legal ends: the first was linked when it was cancelled, or still in the inbox; the second is
/// pending, and is cancelled.
#[test]
fn a_tombstone_is_revived_while_the_worker_turns() {
    check(3, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b.capacity(2));
        let first = timer.schedule(ticks(9), ledger.task()).expect("open");
        let worker = thread::spawn(move || {
            driver.turn();
            driver
        });
        assert!(first.cancel());
        drop(first);
        let second = timer.schedule(ticks(9), ledger.task()).expect("open");
        let mut driver = worker.join().expect("no panic");
        driver.turn();
        assert_eq!(entries_in_use(&second), 1);
        assert!(second.is_pending() && second.cancel());
        driver.turn();
        ledger.assert_closed(0);
    });
}

/// Invariant: a timeout that is revived in a slot can be cancelled there, and its entry comes back.
/// Legal end: cancelled.
#[test]
fn a_timeout_that_was_revived_in_a_slot_is_cancelled_while_that_comes_up() {
    check(3, |ledger| {
        let (timer, mut driver, clock) = driven(|b| b.capacity(3));
        let first = schedule_into_a_slot(&timer, &mut driver, &ledger);
        assert!(first.cancel_owned());
        let second = timer.schedule(ticks(10), ledger.task()).expect("open");
        clock.advance(ticks(9));
        let worker = thread::spawn(move || {
            assert_eq!(driver.turn(), 0);
            driver
        });
        assert!(second.cancel());
        drop(second);
        let mut driver = worker.join().expect("no panic");
        assert_all_home(&timer, &mut driver);
        ledger.assert_closed(0);
    });
}

/// Invariant: a timeout that is revived while the shard is closed is refused, or has the outcome
/// that the shutdown gives to all.
/// Legal ends: refused; returned by the shutdown; run, if the shutdown runs what is pending.
#[test]
fn a_revival_that_races_with_close_has_one_outcome() {
    for fire in [false, true] {
        check(None, move |ledger| {
            let (timer, driver, _clock) = driven(|b| b.capacity(2));
            schedule_and_cancel(&timer, &ledger);
            let how = if fire { Shutdown::FireNow } else { Shutdown::Cancel };
            let closer = shutdown_elsewhere(&timer, driver, how);
            let accepted = timer.schedule_detached(ticks(5), ledger.task()).is_ok();
            let unfired = closer.join().expect("no panic");
            assert_eq!(unfired + ledger.ran(), usize::from(accepted));
            assert!(fire || ledger.ran() == 0);
            ledger.assert_closed(ledger.ran());
        });
    }
}

/// Invariant: this holds also if the tombstone is in a slot, and if that comes up too late for the
/// timeout.
/// Legal ends: as above.
#[test]
fn a_revival_in_a_slot_that_races_with_close_has_one_outcome() {
    for (fire, delay) in [(false, 5), (false, 9), (true, 5), (true, 9)] {
        check(3, move |ledger| {
            let (timer, mut driver, _clock) = driven(|b| b.capacity(2));
            let first = schedule_into_a_slot(&timer, &mut driver, &ledger);
            assert!(first.cancel_owned());
            let how = if fire { Shutdown::FireNow } else { Shutdown::Cancel };
            let closer = shutdown_elsewhere(&timer, driver, how);
            let accepted = timer.schedule_detached(ticks(delay), ledger.task()).is_ok();
            let unfired = closer.join().expect("no panic");
            assert_eq!(unfired + ledger.ran(), usize::from(accepted));
            assert!(fire || ledger.ran() == 0);
            ledger.assert_closed(ledger.ran());
        });
    }
}

/// Invariant: a handle that leaves its entry as a tombstone touches nothing of the engine any more,
/// and the engine does not wait for it. (`memory.rs` looks for a use after the free, and for a
/// leak.)
/// Legal ends: the engine frees everything; the handle does.
#[test]
fn tombstones_go_with_the_engine() {
    check(None, |ledger| {
        let (timer, driver, _clock) = driven(|b| b.capacity(1));
        let timeout = timer.schedule(ticks(5), ledger.task()).expect("open");
        assert!(timeout.cancel());
        let end = thread::spawn(move || {
            drop(timer);
            drop(driver);
        });
        drop(timeout);
        end.join().expect("no panic");
        ledger.assert_closed(0);
    });
}

/// Invariant: a revival while another thread looks for the next deadline is not hidden from a
/// driver that rests.
/// Legal ends: the driver was called; the clock has been moved to where the driver wakes by itself.
#[test]
fn a_revival_during_a_look_for_the_next_deadline_calls_the_driver() {
    check(2, |ledger| {
        let resting = Resting::new(&ledger);
        schedule_and_cancel(&resting.timer, &ledger);
        let (looker, its) = (resting.timer.clone(), resting.clock.clone());
        let looker = thread::spawn(move || {
            its.advance_to_next(&looker);
            looker
        });
        resting.timer.schedule_detached(ticks(1), ledger.task()).expect("open");
        let _looker = looker.join().expect("no panic");
        resting.assert_called();
    });
}
