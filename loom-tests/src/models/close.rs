//! The end of an engine: whatever races with it, each timeout has exactly one outcome.

use super::check::check;
use super::rig::{Bare, Gate, NO_LIMITS, driven, run_batches, ticks, with_workers};
use crate::executor::Inline;
use crate::sync::thread;
use crate::time::Subtick;
use crate::timer::Shutdown;
use loom::cell::UnsafeCell;
use loom::sync::Arc;

/// Invariant: a timeout that is scheduled while the shard turns and is closed is refused, or
/// returned by the shutdown, or has run.
/// Legal ends: these three, for each of the two.
#[test]
fn a_push_that_races_with_close_has_one_outcome() {
    check(2, |ledger| {
        let (bare, mut shard) = Bare::new(2, NO_LIMITS);
        let armed_entries = [0; 2].map(|_| bare.arm(Subtick::ZERO, true, &ledger));
        let producers = armed_entries.map(|armed| {
            let bare = bare.clone();
            thread::spawn(move || {
                let (entry, handle) = (armed.entry, armed.handle());
                let accepted = bare.push(armed);
                if !accepted {
                    bare.take_back(entry);
                    // The timeout was never accepted, so there is no handle either.
                    std::mem::forget(handle);
                }
                accepted
            })
        });
        let fired = shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches).fired;
        let left = shard.close(&bare.shared).len();
        let accepted = producers.into_iter().filter_map(|thread| thread.join().ok()).filter(|&ok| ok).count();
        assert_eq!(fired + left, accepted);
        ledger.assert_closed(fired);
    });
}

/// Invariant: a cancel that races with close, of an entry in the wheel or in the inbox, leaves one
/// outcome.
/// Legal ends: cancelled; returned by the shutdown.
#[test]
fn a_cancel_that_races_with_close_has_one_outcome() {
    for linked in [false, true] {
        check(None, move |ledger| {
            let (timer, mut driver, _clock) = driven(|b| b);
            let timeout = timer.schedule(ticks(5), ledger.task()).expect("open");
            if linked {
                driver.turn();
            }
            let cancel = thread::spawn(move || timeout.cancel());
            let unfired = timer.shutdown().expect("the first").len();
            let cancelled = cancel.join().expect("no panic");
            assert_eq!(unfired + usize::from(cancelled), 1);
            ledger.assert_closed(0);
        });
    }
}

/// Invariant: a reset to earlier that races with close pushes nothing on a closed shard's reset
/// queue, and does no harm.
/// Legal ends: returned with the old deadline, and the reset was too late; returned with the new
/// one.
#[test]
fn a_queued_reset_that_races_with_close_is_not_read() {
    check(3, |ledger| {
        let (timer, mut driver, clock) = driven(|b| b.capacity(1));
        let timeout = timer.schedule(ticks(5), ledger.task()).expect("open");
        driver.turn();
        let reset = thread::spawn(move || timeout.reset(ticks(1)));
        let unfired = timer.shutdown().expect("the first");
        let reset = reset.join().expect("no panic");
        let deadline = clock.now() + ticks(if reset { 1 } else { 5 });
        assert!(unfired.len() == 1 && unfired[0].deadline() == deadline);
        drop(unfired);
        ledger.assert_closed(0);
    });
}

/// Invariant: the first timeout of an engine starts its worker. If that races with a shutdown,
/// nothing is lost, and no thread waits for ever.
/// Legal ends: refused; returned by the shutdown; run by the worker.
#[test]
fn a_worker_that_is_started_during_a_shutdown_ends() {
    check(None, |ledger| {
        let (timer, _clock) = with_workers(|b| b.executor(Inline).capacity(1));
        let (theirs, task) = (timer.clone(), ledger.task());
        let thread = thread::spawn(move || theirs.schedule_detached(ticks(0), task).is_ok());
        let unfired = timer.shutdown().expect("the first").len();
        let accepted = thread.join().expect("no panic");
        assert_eq!(unfired + ledger.ran(), usize::from(accepted));
        ledger.assert_closed(ledger.ran());
    });
}

/// Invariant: a command to stop reaches a worker that sleeps, or falls asleep. No thread waits for
/// the worker, and the worker drops all pending timeouts. (Loom checks that it ends: a thread that
/// sleeps on is a deadlock.)
/// Legal end: the task was dropped.
#[test]
fn the_last_timer_that_goes_stops_a_sleeping_worker() {
    check(None, |ledger| {
        let (timer, _clock) = with_workers(|b| b.executor(Inline).capacity(1));
        let dropped = Gate::new();
        timer.schedule_detached(ticks(5), dropped.after(ledger.task())).expect("open");
        drop(timer);
        dropped.wait();
        ledger.assert_closed(0);
    });
}

/// Invariant: once the last timer has gone, nothing runs any more, even if the driver is in a turn
/// then. The later of the two threads drops what was pending: when both have returned it is gone.
/// Legal end: the task was dropped.
#[test]
fn nothing_runs_in_a_driver_after_the_last_timer_has_gone() {
    check(None, |ledger| {
        let (timer, mut driver, clock) = driven(|b| b.capacity(1));
        timer.schedule_detached(ticks(1), ledger.task()).expect("open");
        let worker = thread::spawn(move || {
            driver.turn();
            driver
        });
        drop(timer);
        clock.advance(ticks(1));
        let mut driver = worker.join().expect("no panic");
        let ran = ledger.ran();
        ledger.assert_closed(ran);
        assert_eq!(driver.turn(), 0);
        assert_eq!(ledger.ran(), ran);
        drop(driver);
    });
}

/// Invariant: if the last timer goes while the driver asks when to turn next, the driver gets an
/// answer.
/// Legal ends: a time; `None`, as there is nothing left.
#[test]
fn a_driver_gets_an_answer_while_the_last_timer_goes() {
    check(None, |ledger| {
        let (timer, driver, _clock) = driven(|b| b.capacity(1));
        timer.schedule_detached(ticks(1), ledger.task()).expect("open");
        let worker = thread::spawn(move || {
            let _ = driver.next_wakeup();
            driver
        });
        drop(timer);
        let driver = worker.join().expect("no panic");
        ledger.assert_closed(0);
        assert!(driver.next_wakeup().is_none());
    });
}

/// Invariant: a timeout that is scheduled while a drain begins has one outcome, and the drain ends,
/// also if it is over at the time at which it begins.
/// Legal ends: refused; it ran.
#[test]
fn a_push_that_races_with_a_drain_has_one_outcome() {
    for most in [5, 0] {
        check(2, move |ledger| {
            let (timer, _clock) = with_workers(|b| b.executor(Inline).capacity(2));
            timer.schedule_detached(ticks(0), ledger.task()).expect("open");
            let (other, task) = (timer.clone(), ledger.task());
            let thread = thread::spawn(move || other.schedule_detached(ticks(0), task).is_ok());
            let unfired = timer.shutdown_with(Shutdown::Drain(ticks(most))).expect("the first");
            let accepted = thread.join().expect("no panic");
            assert!(unfired.is_empty());
            ledger.assert_closed(1 + usize::from(accepted));
        });
    }
}

/// Invariant: a reset to earlier wakes a worker that drains its shard, as it wakes any other
/// worker.
/// Legal end: it ran, and the drain is over. (Otherwise the worker sleeps for ever.)
#[test]
fn a_reset_to_earlier_wakes_a_worker_that_drains() {
    check(1, |ledger| {
        let (timer, _clock) = with_workers(|b| b.executor(Inline).capacity(1));
        let timeout = timer.schedule(ticks(5), ledger.task()).expect("open");
        let reset = thread::spawn(move || assert!(timeout.reset(ticks(0))));
        let unfired = timer.shutdown_with(Shutdown::Drain(ticks(9))).expect("the first");
        reset.join().expect("no panic");
        assert!(unfired.is_empty());
        ledger.assert_closed(1);
    });
}

/// Invariant: a timeout that is pending when an engine is shut down by firing runs, unless another
/// thread cancels it during the shutdown.
/// Legal ends: it ran; it was cancelled.
#[test]
fn a_cancel_races_with_a_shutdown_that_fires() {
    check(3, |ledger| {
        let (timer, _clock) = with_workers(|b| b.executor(Inline).capacity(1));
        let timeout = timer.schedule(ticks(5), ledger.task()).expect("open");
        let cancel = thread::spawn(move || timeout.cancel());
        assert!(timer.shutdown_with(Shutdown::FireNow).expect("the first").is_empty());
        let cancelled = cancel.join().expect("no panic");
        ledger.assert_closed(usize::from(!cancelled));
    });
}

/// A note that a thread writes before it shuts an engine down.
struct Note(UnsafeCell<u8>);

// SAFETY: the model's threads share the cell, and loom checks that no two accesses to it race.
unsafe impl Send for Note {}
// SAFETY: the model's threads share the cell, and loom checks that no two accesses to it race.
unsafe impl Sync for Note {}

/// Invariant: a thread that is refused, because another thread has closed the shard, sees what that
/// thread did before.
/// Legal ends: accepted, and returned by the shutdown; refused, and all that was done before the
/// shutdown is visible.
#[test]
fn a_refused_push_sees_what_happened_before_the_shutdown() {
    check(None, |ledger| {
        let (timer, driver, _clock) = driven(|b| b);
        let (own, note) = (timer.clone(), Arc::new(Note(UnsafeCell::new(0))));
        let theirs = Arc::clone(&note);
        let end = thread::spawn(move || {
            // SAFETY: loom checks that no thread reads the note now.
            theirs.0.with_mut(|note| unsafe { *note = 1 });
            own.shutdown().expect("the first").len()
        });
        let accepted = timer.schedule_detached(ticks(5), ledger.task()).is_ok();
        // SAFETY: loom checks that no thread writes to the note any more.
        assert!(accepted || note.0.with(|note| unsafe { *note }) == 1);
        assert_eq!(end.join().expect("no panic"), usize::from(accepted));
        drop(driver);
        ledger.assert_closed(0);
    });
}
