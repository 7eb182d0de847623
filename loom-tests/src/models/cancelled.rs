//! The cancelled queue: whatever a cancel races with, the task is gone when the cancel returns, and
//! the engine gets the entry back.

use super::check::check;
use super::memory;
use super::rig::{self, Ledger, driven, ticks};
use crate::sync::thread;
use crate::time::ManualClock;
use crate::timer::{Driver, Timeout, Timer};
use loom::sync::Arc;

/// Asserts this, and that the arena has not grown.
fn assert_all_home(timer: &Timer, driver: &mut Driver, entries: usize) {
    assert_eq!(timer.stats().capacity, entries);
    rig::assert_all_home(timer, driver);
}

/// Invariant: a cancel between the push and the link leaves nothing behind. (In another engine the
/// entry stayed in the wheel: the worker had taken it out of the inbox, and the canceller did not
/// know.)
/// Legal ends: the worker found it cancelled in the inbox; the worker linked it, and the cancelled
/// queue brought it.
#[test]
fn a_cancel_between_accept_and_link_leaves_nothing_stuck() {
    check(None, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b);
        let timeout = timer.schedule(ticks(5), ledger.task()).expect("open");
        let seen = ledger.clone();
        let cancel = thread::spawn(move || {
            assert!(timeout.cancel());
            assert_eq!(seen.dropped(), 1, "the task is gone when cancel returns");
        });
        driver.turn();
        cancel.join().expect("no panic");
        assert_all_home(&timer, &mut driver, 1);
        ledger.assert_closed(0);
    });
}

/// Invariant: a cancel that races with the expiry of its slot has exactly one of two outcomes.
/// Legal ends: the timeout ran, and the cancel was too late; the timeout was cancelled, and the
/// worker collected the entry, out of its slot or after it had popped it from there.
#[test]
fn a_cancel_races_with_the_expiry_of_its_slot() {
    check(None, |ledger| {
        let (timer, mut driver, clock) = driven(|b| b);
        let timeout = timer.schedule(ticks(1), ledger.task()).expect("open");
        driver.turn();
        clock.advance(ticks(1));
        let cancel = thread::spawn(move || timeout.cancel());
        let fired = driver.turn();
        let cancelled = cancel.join().expect("no panic");
        assert_eq!(fired + usize::from(cancelled), 1);
        assert_all_home(&timer, &mut driver, 1);
        ledger.assert_closed(fired);
    });
}

/// Invariant: the worker may unlink two cancelled neighbours of one slot while it expires that
/// slot.
/// Legal ends: each has run or was cancelled, and the engine got both entries back.
#[test]
fn neighbours_in_a_slot_are_cancelled_while_it_expires() {
    check(2, |ledger| {
        let (timer, mut driver, clock) = driven(|b| b);
        let timeouts = [0; 2].map(|_| timer.schedule(ticks(1), ledger.task()).expect("open"));
        let entries = timer.stats().capacity;
        driver.turn();
        clock.advance(ticks(1));
        let cancels = timeouts.map(|timeout| thread::spawn(move || timeout.cancel()));
        let fired = driver.turn();
        let cancelled = cancels.into_iter().filter_map(|thread| thread.join().ok()).filter(|&won| won).count();
        assert_eq!(fired + cancelled, 2);
        assert_all_home(&timer, &mut driver, entries);
        ledger.assert_closed(fired);
    });
}

/// Invariant: if an entry in the moved queue is cancelled, only the moved queue brings it back.
/// Legal ends: cancelled before it was pushed, while it was in the queue, or after the worker had
/// taken it; fired at its new deadline.
#[test]
fn a_cancel_races_with_a_queued_reset() {
    check(2, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b.capacity(2));
        let timeout = Arc::new(timer.schedule(ticks(9), ledger.task()).expect("open"));
        driver.turn();
        let (a, b) = (Arc::clone(&timeout), timeout);
        let reset = thread::spawn(move || a.reset(ticks(0)));
        let cancel = thread::spawn(move || b.cancel());
        let mut fired = driver.turn();
        let (reset, cancelled) = (reset.join().expect("no panic"), cancel.join().expect("no panic"));
        fired += driver.turn();
        assert_eq!(fired + usize::from(cancelled), 1);
        assert!(reset || cancelled);
        assert_all_home(&timer, &mut driver, 2);
        ledger.assert_closed(fired);
    });
}

/// Returns an engine whose wheel has no block of cells left, and four timeouts. The first, at 9,
/// is to move.
fn short_of_cells(ledger: &Ledger) -> (Timer, Driver, ManualClock, [Timeout; 4]) {
    let (timer, mut driver, clock) = driven(|b| b.ticks_per_wheel(16).capacity(4));
    let timeouts = [9, 9, 5, 6].map(|n| timer.schedule(ticks(n), ledger.task()).expect("open"));
    memory::without_cells(|| driver.turn());
    // It takes the block that was kept for what is due.
    assert!(timeouts[1].reset(ticks(3)));
    memory::without_cells(|| driver.turn());
    (timer, driver, clock, timeouts)
}

/// Invariant: an entry that is to move, and finds no cell where it belongs, is due all the same.
/// Legal ends: moved in the first turn, or in the second.
#[test]
fn a_move_that_finds_no_cell_races_with_a_turn() {
    check(2, |ledger| {
        let (timer, mut driver, clock, [timeout, a, b, c]) = short_of_cells(&ledger);
        let reset = thread::spawn(move || assert!(timeout.reset(ticks(1))));
        let mut turn = || memory::without_cells(|| driver.turn());
        assert_eq!(turn(), 0);
        reset.join().expect("no panic");
        clock.advance(ticks(1));
        assert_eq!(turn(), 1);
        [a, b, c].into_iter().for_each(|other| assert!(other.cancel()));
        assert_all_home(&timer, &mut driver, 4);
        ledger.assert_closed(1);
    });
}

/// Invariant: a cancel takes an entry out of the cell that it was to leave and could not.
/// Legal ends: cancelled before it was pushed, while it was in the queue, or after the worker had
/// left it where it was.
#[test]
fn a_cancel_races_with_a_move_that_finds_no_cell() {
    check(2, |ledger| {
        let (timer, mut driver, _clock, [timeout, a, b, c]) = short_of_cells(&ledger);
        let timeout = Arc::new(timeout);
        let theirs = Arc::clone(&timeout);
        let reset = thread::spawn(move || theirs.reset(ticks(1)));
        let cancel = thread::spawn(move || assert!(timeout.cancel()));
        memory::without_cells(|| driver.turn());
        reset.join().expect("no panic");
        cancel.join().expect("no panic");
        [a, b, c].into_iter().for_each(|other| assert!(other.cancel()));
        assert_all_home(&timer, &mut driver, 4);
        ledger.assert_closed(0);
    });
}

/// Invariant: the worker does not free an entry when its old slot comes up while it is in the
/// moved queue, or about to be pushed there.
/// Legal ends: it fired out of its slot, and the reset was too late; it fired when the worker took
/// the moved queue.
#[test]
fn the_expiry_of_a_slot_races_with_a_queued_reset() {
    check(2, |ledger| {
        let (timer, mut driver, clock) = driven(|b| b.capacity(2));
        let timeout = timer.schedule(ticks(3), ledger.task()).expect("open");
        driver.turn();
        clock.advance(ticks(2));
        // To tick 2, or to the clock's tick if that has moved.
        let reset = thread::spawn(move || timeout.reset(ticks(0)));
        clock.advance(ticks(1));
        let mut fired = driver.turn();
        reset.join().expect("no panic");
        fired += driver.turn();
        assert_eq!(fired, 1);
        assert_all_home(&timer, &mut driver, 2);
        ledger.assert_closed(1);
    });
}

/// Invariant: a reset that returned true holds against the worker, by the engine's own clock.
/// Legal ends: fired at 1, and the reset was too late; fired at 3, as the reset promised.
#[test]
fn a_timeout_does_not_fire_before_the_deadline_that_a_reset_gave_it() {
    check(None, |ledger| {
        let (timer, mut driver, clock) = driven(|b| b);
        let timeout = timer.schedule(ticks(1), ledger.task()).expect("open");
        driver.turn();
        clock.advance(ticks(1));
        let reset = thread::spawn(move || timeout.reset(ticks(2)));
        let mut fired = driver.turn();
        let reset = reset.join().expect("no panic");
        assert_eq!(fired == 0, reset);
        clock.advance(ticks(1));
        assert_eq!(driver.turn(), 0);
        clock.advance(ticks(1));
        fired += driver.turn();
        assert_eq!(fired, 1);
        assert_all_home(&timer, &mut driver, 1);
        ledger.assert_closed(1);
    });
}
