//! A cancel that gives the handle up in the same exchange: the drop of a guard or of a sleep, and
//! `cancel_owned`. It leaves a tombstone, or, if the thread has enough of those, a cancelled entry.
//! (In a model two are enough.)

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use super::check::check;
use super::rig::{Ledger, assert_all_home, driven, shutdown_elsewhere, ticks, with_tombstones_in_slots};
use crate::sync::thread;
use crate::time::ManualClock;
use crate::timer::{Driver, Shutdown, Timeout, Timer};

/// Leaves this thread with as many tombstones as it keeps, if `full`.
fn fill(timer: &Timer, full: bool) {
    if full {
        let timeouts = [(); 2].map(|()| timer.schedule(ticks(9), || ()).expect("open"));
        assert!(timeouts.into_iter().all(Timeout::cancel_owned));
    }
}

/// Invariant: a timeout that is cancelled and given up while the worker links it, or its slot comes
/// up, and runs it has one outcome, and its task is dropped once, by who won. Its entry comes back,
/// also if its thread has tombstones enough.
/// Legal ends: cancelled in the inbox; cancelled where it was linked; run.
#[test]
fn a_timeout_that_is_given_up_while_the_worker_takes_it_has_one_outcome() {
    for (full, is_linked) in [(false, false), (true, false), (false, true), (true, true)] {
        check(4, move |ledger| {
            let (timer, mut driver, clock) = driven(|b| b.capacity(4));
            let timeout = timer.schedule(ticks(1), ledger.task()).expect("open");
            if is_linked {
                with_tombstones_in_slots(&timeout);
                driver.turn();
            }
            fill(&timer, full);
            clock.advance(ticks(1));
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

/// Runs what is due in 5 ticks, while another thread gives its entries up and uses them again.
/// Returns the driver after `expected` have run.
fn turn_meanwhile(
    mut driver: Driver,
    clock: &ManualClock,
    expected: usize,
    arm: impl FnOnce() -> Vec<Timeout>,
) -> Driver {
    let worker = thread::spawn(move || {
        driver.turn();
        driver
    });
    let armed = arm();
    let mut driver = worker.join().expect("no panic");
    clock.advance(ticks(5));
    assert_eq!(driver.turn(), expected);
    drop(armed);
    driver
}

/// Invariant: the entry that it leaves may be armed again at once, whatever the worker does to it
/// meanwhile.
/// Legal ends: revived where it was, or pushed anew; linked before the cancel.
#[test]
fn an_entry_that_was_given_up_is_used_again_while_the_worker_takes_it() {
    check(4, |ledger| {
        let (timer, driver, clock) = driven(|b| b.capacity(2));
        // Of another slot than the next.
        let first = timer.schedule(ticks(8), ledger.task()).expect("open");
        let mut driver = turn_meanwhile(driver, &clock, 1, || {
            assert!(first.cancel_owned());
            vec![timer.schedule(ticks(5), ledger.task()).expect("open")]
        });
        assert_all_home(&timer, &mut driver);
        ledger.assert_closed(1);
    });
}

/// Invariant: an entry that it leaves in a slot may be armed again for a later deadline, and is
/// collected for an earlier one, while the slot comes up. Legal ends: revived where it was; pushed
/// anew, if the slot came up; another one was pushed; or the first has run.
#[test]
fn an_entry_that_was_given_up_in_its_slot_is_used_again_while_that_comes_up() {
    for (delay, is_moved) in [(1, false), (6, false), (6, true)] {
        check(3, move |ledger| {
            let (timer, mut driver, clock) = driven(|b| b.capacity(2));
            let first = timer.schedule(ticks(2), ledger.task()).expect("open");
            with_tombstones_in_slots(&first);
            driver.turn();
            let both = ledger.clone();
            let moved = clock.clone();
            let worker = thread::spawn(move || {
                moved.advance(ticks(2));
                driver.turn();
                driver
            });
            // By the word it is not due any more, while the worker takes it for due.
            let _ = is_moved && first.reset(ticks(5));
            let cancelled = first.cancel_owned();
            let second = timer.schedule(ticks(delay), both.task()).expect("open");
            let mut driver = worker.join().expect("no panic");
            let ran = usize::from(!cancelled);
            assert!((ran..=ran + 1).contains(&ledger.ran()));
            assert_eq!(second.is_pending(), ledger.ran() == ran);
            clock.advance(ticks(6));
            driver.turn();
            assert!(second.is_expired());
            drop(second);
            assert_all_home(&timer, &mut driver);
            ledger.assert_closed(1 + ran);
        });
    }
}

/// Invariant: this holds for two, one of which is linked to the other on the list, and if there was
/// no room for a third.
/// Legal ends: each was revived, or pushed anew, or linked before its cancel.
#[test]
fn entries_that_were_given_up_one_after_the_other_are_used_again() {
    for third in [false, true] {
        check(if third { 2 } else { 3 }, move |ledger| {
            let (timer, driver, clock) = driven(|b| b.capacity(5));
            let schedule = |delay| timer.schedule(ticks(delay), ledger.task()).expect("open");
            let timeouts: Vec<_> = (0..2 + u32::from(third)).map(|_| schedule(9)).collect();
            let mut driver = turn_meanwhile(driver, &clock, 2, || {
                assert!(timeouts.into_iter().all(Timeout::cancel_owned));
                vec![schedule(5), schedule(5)]
            });
            assert_all_home(&timer, &mut driver);
            ledger.assert_closed(2);
        });
    }
}

/// Invariant: the end of a handle leaves the links of a side queue alone in which its entry is.
/// Legal ends: both have run at their new deadlines, or the second was cancelled.
#[test]
fn a_handle_that_ends_leaves_the_links_of_a_side_queue_alone() {
    for cancels in [false, true] {
        check(2, move |ledger| {
            let (timer, mut driver, clock) = driven(|b| b.capacity(2));
            let [first, second] = [(); 2].map(|()| timer.schedule(ticks(9), ledger.task()).expect("open"));
            with_tombstones_in_slots(&first);
            driver.turn();
            assert!(first.reset(ticks(5)) && second.reset(ticks(5)));
            let mut driver = turn_meanwhile(driver, &clock, 2 - usize::from(cancels), || {
                assert!(!cancels || second.cancel_owned());
                vec![first]
            });
            assert_all_home(&timer, &mut driver);
            ledger.assert_closed(2 - usize::from(cancels));
        });
    }
}

/// Invariant: a task's destructor may schedule into the very entry that its task was in.
/// Legal ends: as above.
#[test]
fn a_destructor_schedules_into_the_entry_that_was_given_up() {
    struct Again(Timer, Ledger);

    impl Drop for Again {
        fn drop(&mut self) {
            self.0.schedule_detached(ticks(5), self.1.task()).expect("open");
        }
    }

    check(3, |ledger| {
        let (timer, driver, clock) = driven(|b| b.capacity(2));
        let again = Again(timer.clone(), ledger.clone());
        let timeout = timer.schedule(ticks(9), move || drop(again)).expect("open");
        let mut driver = turn_meanwhile(driver, &clock, 1, || {
            assert!(timeout.cancel_owned());
            Vec::new()
        });
        assert_all_home(&timer, &mut driver);
        ledger.assert_closed(1);
    });
}

/// Invariant: the entry of a sleep that is dropped may be used again while the sleep rings, and its
/// waker is dropped once.
/// Legal ends: dropped in the inbox, or in its slot; dropped after it rang.
#[test]
fn the_entry_of_a_sleep_is_given_up_and_used_again_while_it_rings() {
    struct Nobody;

    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }

    for is_linked in [false, true] {
        check(3, move |ledger| {
            let witness = Arc::new(Nobody);
            let waker = Waker::from(Arc::clone(&witness));
            let (timer, mut driver, clock) = driven(|b| b.capacity(3));
            let mut sleep = timer.sleep(ticks(1));
            assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending());
            if is_linked {
                let other = timer.schedule(ticks(9), || ()).expect("open");
                with_tombstones_in_slots(&other);
                other.cancel();
                driver.turn();
            }
            clock.advance(ticks(1));
            let mut driver = turn_meanwhile(driver, &clock, 1, || {
                drop(sleep);
                vec![timer.schedule(ticks(5), ledger.task()).expect("open")]
            });
            assert_eq!(Arc::strong_count(&witness), 2);
            assert_all_home(&timer, &mut driver);
            ledger.assert_closed(1);
        });
    }
}

/// Invariant: the exchange is the last that the handle does to the engine's memory, and the engine
/// does not wait for it.
/// Legal ends: the engine frees everything; the handle does.
#[test]
fn a_handle_that_is_given_up_may_outlive_its_engine() {
    for full in [false, true] {
        check(4, move |ledger| {
            let (timer, driver, _clock) = driven(|b| b.capacity(4));
            let timeout = timer.schedule(ticks(5), ledger.task()).expect("open");
            fill(&timer, full);
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
        check(4, move |ledger| {
            let (timer, driver, _clock) = driven(|b| b.capacity(2));
            let timeout = timer.schedule(ticks(5), ledger.task()).expect("open");
            let how = if fire { Shutdown::FireNow } else { Shutdown::Cancel };
            let closer = shutdown_elsewhere(&timer, driver, how);
            let cancelled = timeout.cancel_owned();
            let unfired = closer.join().expect("no panic");
            assert_eq!(unfired + ledger.ran() + usize::from(cancelled), 1);
            assert!(fire || ledger.ran() == 0);
            ledger.assert_closed(ledger.ran());
        });
    }
}
