//! A cancel that gives the handle up in the same exchange: the drop of a guard or of a sleep, and
//! `cancel_owned`. What remains is a tombstone, or, if the thread has enough of those, a cancelled
//! entry. (In a model one is enough.)

use super::check::check;
use super::rig::{Ledger, driven, entries_in_use, ticks};
use crate::sync::thread;
use crate::timer::{Driver, Shutdown, Timeout, Timer};

/// Leaves this thread with as many tombstones as it keeps, if `full`.
fn fill(timer: &Timer, full: bool) {
    if full {
        timer.schedule(ticks(9), || ()).expect("open").cancel_owned();
    }
}

/// Schedules a timeout that would not take a tombstone's place.
fn schedule(timer: &Timer, ledger: &Ledger, full: bool, delay: u32) -> Timeout {
    let timeout = timer.schedule(ticks(delay), ledger.task()).expect("open");
    fill(timer, full);
    timeout
}

/// Asserts that no entry is lost or used twice.
fn assert_all_home(timer: &Timer, driver: &mut Driver) {
    driver.turn();
    assert_eq!(timer.pending(), 0);
    let one = timer.schedule(ticks(9), || ()).expect("open");
    assert_eq!(entries_in_use(&one), 1);
}

/// Invariant: a timeout that is cancelled and given up while the worker links and runs it has one
/// outcome, and its task is dropped once, by who won.
/// Legal ends: cancelled in the inbox; cancelled where it was linked; run.
#[test]
fn a_timeout_that_is_given_up_while_the_worker_takes_it_has_one_outcome() {
    for full in [false, true] {
        check(4, move || {
            let ledger = Ledger::default();
            let (timer, mut driver, _clock) = driven(|b| b.capacity(3));
            let timeout = schedule(&timer, &ledger, full, 0);
            let worker = thread::spawn(move || {
                let ran = driver.turn();
                (ran, driver)
            });
            let cancelled = timeout.cancel_owned();
            let (ran, mut driver) = worker.join().expect("no panic");
            assert_eq!(ran, usize::from(!cancelled));
            assert_all_home(&timer, &mut driver);
            ledger.assert_closed(ran);
        });
    }
}

/// Invariant: what it leaves may be armed again at once, whatever the worker does to it meanwhile.
/// Legal ends: revived where it was, or pushed anew; linked before the cancel.
#[test]
fn an_entry_that_was_given_up_is_used_again_while_the_worker_takes_it() {
    check(4, || {
        let ledger = Ledger::default();
        let (timer, mut driver, clock) = driven(|b| b.capacity(2));
        let first = timer.schedule(ticks(9), ledger.task()).expect("open");
        let worker = thread::spawn(move || {
            driver.turn();
            driver
        });
        assert!(first.cancel_owned());
        let second = timer.schedule(ticks(5), ledger.task()).expect("open");
        let mut driver = worker.join().expect("no panic");
        clock.advance(ticks(5));
        assert_eq!(driver.turn(), 1);
        assert!(second.is_expired());
        drop(second);
        assert_all_home(&timer, &mut driver);
        ledger.assert_closed(1);
    });
}

/// Invariant: the exchange is the last that the handle does to the engine's memory, and the engine
/// does not wait for it.
/// Legal ends: the engine frees everything; the handle does.
#[test]
fn a_handle_that_is_given_up_may_outlive_its_engine() {
    for full in [false, true] {
        check(4, move || {
            let ledger = Ledger::default();
            let (timer, driver, _clock) = driven(|b| b.capacity(3));
            let timeout = schedule(&timer, &ledger, full, 5);
            let end = thread::spawn(move || {
                drop(timer);
                drop(driver);
            });
            timeout.cancel_owned();
            end.join().expect("no panic");
            ledger.assert_closed(0);
        });
    }
}

/// Invariant: a shutdown hands a timeout back that it has taken, and no other.
/// Legal ends: cancelled; in the shutdown's answer; run, if the shutdown runs what is pending.
#[test]
fn a_timeout_that_is_given_up_during_a_shutdown_has_one_outcome() {
    for fire in [false, true] {
        check(4, move || {
            let ledger = Ledger::default();
            let (timer, driver, _clock) = driven(|b| b.capacity(2));
            let timeout = timer.schedule(ticks(5), ledger.task()).expect("open");
            let theirs = timer.clone();
            let closer = thread::spawn(move || {
                let how = if fire { Shutdown::FireNow } else { Shutdown::Cancel };
                let unfired = theirs.shutdown_with(how).expect("the first").len();
                drop(driver);
                unfired
            });
            let cancelled = timeout.cancel_owned();
            let unfired = closer.join().expect("no panic");
            assert_eq!(unfired + ledger.ran() + usize::from(cancelled), 1);
            assert!(fire || ledger.ran() == 0);
            ledger.assert_closed(ledger.ran());
        });
    }
}
