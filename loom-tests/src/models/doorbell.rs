//! Sleep and wake: no timeout waits for a worker that sleeps, and no thread wakes a worker without
//! need.
//!
//! A park has no end here. So a lost wake-up is not a late timeout but a deadlock, which loom
//! reports.

use std::sync::Arc;

use super::check::check;
use super::rig::{Bare, NO_LIMITS, Resting, Time, driven, run_batches, ticks};
use crate::engine::Core;
use crate::sync::thread;
use crate::time::Subtick;

fn tick(n: u64) -> Subtick {
    Subtick::new(n)
}

/// Goes to sleep once, so that producers compare later deadlines with the end of that sleep.
fn doze(bare: &Bare, shard: &mut Core) {
    shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
    assert!(bare.shared.remote(0).fall_asleep(shard.next_due(&bare.shared)));
}

/// Invariant: a producer whose timeout is due before the worker would wake never leaves it asleep.
/// Legal end: both have run.
#[test]
fn two_producers_wake_a_worker_that_falls_asleep() {
    check(2, |ledger| {
        let (bare, shard) = Bare::new(2, NO_LIMITS);
        let armed_entries = [0; 2].map(|_| bare.arm(Subtick::ZERO, false, &ledger));
        let ran = ledger.clone();
        let worker = bare.start(shard, Time::StandsStill, move || ran.ran() == 2);
        let producers = armed_entries.map(|armed| {
            let bare = bare.clone();
            thread::spawn(move || assert!(bare.push(armed)))
        });
        producers.into_iter().for_each(|thread| thread.join().expect("no panic"));
        worker.join().expect("no panic");
        ledger.assert_closed(2);
    });
}

/// The invariant of `two_producers_wake_a_worker_that_falls_asleep`, through the public interface
/// of an engine that its user turns.
#[test]
fn a_producer_wakes_a_driver_that_falls_asleep() {
    check(3, |ledger| {
        let (timer, mut driver, clock) = driven(|b| b.capacity(1));
        let ran = ledger.clone();
        let worker = thread::spawn(move || {
            let me = thread::current();
            driver.on_earlier(move || me.unpark());
            while ran.ran() < 1 {
                driver.turn();
                match driver.next_wakeup() {
                    Some(at) if at <= clock.now() => {}
                    _ if ran.ran() == 1 => {}
                    _ => thread::park(),
                }
            }
            driver
        });
        timer.schedule_detached(ticks(0), ledger.task()).expect("open");
        drop(worker.join().expect("no panic"));
        ledger.assert_closed(1);
    });
}

/// Invariant: a producer compares its deadline with the end of the worker's *present* sleep, not of
/// an earlier one. The worker's first sleep ends by itself before the producer's deadline; the
/// second has no end.
/// Legal end: both have run.
#[test]
fn a_sleep_that_ended_by_itself_is_not_mistaken_for_the_next() {
    check(3, |ledger| {
        let (bare, shard) = Bare::new(2, NO_LIMITS);
        assert!(bare.push(bare.arm(tick(1), false, &ledger)));
        let armed = bare.arm(tick(2), false, &ledger);
        let ran = ledger.clone();
        let worker = bare.start(shard, Time::Passes, move || ran.ran() == 2);
        assert!(bare.push(armed));
        worker.join().expect("no panic");
        ledger.assert_closed(2);
    });
}

/// Invariant: a reset to earlier wakes a worker that would sleep past the new deadline, whether the
/// timeout is still in the inbox or in the wheel.
/// Legal end: it has run.
#[test]
fn a_reset_to_earlier_wakes_the_worker() {
    check(3, |ledger| {
        let (bare, shard) = Bare::new(1, NO_LIMITS);
        let timeout = bare.schedule(tick(9), &ledger);
        let ran = ledger.clone();
        let worker = bare.start(shard, Time::StandsStill, move || ran.ran() == 1);
        assert!(timeout.reset(ticks(0)));
        drop(timeout);
        worker.join().expect("no panic");
        ledger.assert_closed(1);
    });
}

/// Invariant: of two resets of one timeout, both to earlier, the worker heeds the earliest. Only
/// one of them pushes on the moved queue, and that may be the one whose deadline lies beyond the
/// worker's sleep. (The worker has no thread here, which takes fewer steps.)
/// Legal ends: it has run; the worker was called, or does not sleep past the deadline that the
/// timeout has now.
#[test]
fn of_two_resets_to_earlier_the_earliest_wakes_the_worker() {
    check(2, |ledger| {
        let (bare, mut shard) = Bare::new(2, NO_LIMITS);
        assert!(bare.push(bare.arm(tick(5), false, &ledger)));
        let armed = bare.arm(tick(9), true, &ledger);
        let timeout = armed.handle();
        let resets = [8, 0].map(|deadline| bare.prepare_reset(&armed, tick(deadline)));
        assert!(bare.push(armed));
        doze(&bare, &mut shard);
        let resets = resets.map(thread::spawn);
        let remote = bare.shared.remote(0);
        shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
        remote.fall_asleep(shard.next_due(&bare.shared));
        resets.into_iter().for_each(|reset| reset.join().expect("no panic"));
        let ran = ledger.ran();
        let wakes_at = remote.sleeps_until().map(|until| bare.shared.timeline().instant_of(until));
        assert!(ran == 1 || wakes_at.is_none_or(|at| at <= timeout.deadline()), "it sleeps past the deadline");
        assert_eq!(shard.close(&bare.shared).len(), 2 - ran);
        ledger.assert_closed(ran);
    });
}

/// Invariant: the worker does not sleep while many cancelled entries wait for it (two entries
/// here), although no deadline wakes it.
/// Legal ends: it has collected one or both.
#[test]
fn cancelled_entries_wake_the_worker_when_they_are_many() {
    check(1, |ledger| {
        let (bare, mut shard) = Bare::new(2, NO_LIMITS);
        let timeouts = [0; 2].map(|_| {
            let timeout = bare.schedule(tick(9), &ledger);
            timeout
        });
        doze(&bare, &mut shard);
        let shared = Arc::clone(&bare.shared);
        let worker = bare.start(shard, Time::StandsStill, move || shared.remote(0).counters.linked.get() < 2);
        let cancels = timeouts.map(|timeout| thread::spawn(move || assert!(timeout.cancel())));
        cancels.into_iter().for_each(|cancel| cancel.join().expect("no panic"));
        assert_eq!(worker.join().expect("no panic").close(&bare.shared).len(), 0);
        ledger.assert_closed(0);
    });
}

/// Invariant: the worker does not sleep on a full inbox (two entries here).
/// Legal ends: it has taken one or both.
#[test]
fn entries_in_the_inbox_wake_the_worker_when_they_are_many() {
    check(3, |ledger| {
        let (bare, mut shard) = Bare::new(3, NO_LIMITS);
        assert!(bare.push(bare.arm(tick(1), false, &ledger)));
        doze(&bare, &mut shard);
        let armed_entries = [0; 2].map(|_| bare.arm(tick(5), false, &ledger));
        let shared = Arc::clone(&bare.shared);
        let worker = bare.start(shard, Time::StandsStill, move || shared.remote(0).counters.transferred.get() > 1);
        let producers = armed_entries.map(|armed| {
            let bare = bare.clone();
            thread::spawn(move || assert!(bare.push(armed)))
        });
        producers.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(worker.join().expect("no panic").close(&bare.shared).len(), 3);
        ledger.assert_closed(0);
    });
}

/// Invariant: a timeout that is due later than the worker's own next deadline does not wake the
/// worker, whatever the worker does; nor do its resets and cancels.
/// Legal end: no thread rang.
#[test]
fn a_later_deadline_does_not_wake_the_worker() {
    check(3, |ledger| {
        let (bare, mut shard) = Bare::new(2, NO_LIMITS);
        assert!(bare.push(bare.arm(tick(1), false, &ledger)));
        doze(&bare, &mut shard);
        let before = bare.rung();
        let armed = bare.arm(tick(5), true, &ledger);
        let theirs = bare.clone();
        let thread = thread::spawn(move || {
            let timeout = armed.handle();
            assert!(theirs.push(armed));
            assert!(timeout.reset(ticks(7)) && timeout.reset(ticks(3)) && timeout.cancel());
        });
        // Naps that end early, for no reason.
        for _ in 0..2 {
            shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
            bare.shared.remote(0).fall_asleep(shard.next_due(&bare.shared));
        }
        thread.join().expect("no panic");
        assert_eq!(bare.rung(), before);
        assert_eq!(shard.close(&bare.shared).len(), 1);
        ledger.assert_closed(0);
    });
}

/// Invariant: a driver that rests is called for a deadline that comes before its next wake-up. This
/// holds also while another thread has only looked for the next deadline, and has taken in the
/// entries that it found.
/// Legal ends: the driver was called; the clock has been moved to where the driver wakes by itself.
#[test]
fn a_look_for_the_next_deadline_hides_nothing_from_the_driver() {
    check(3, |ledger| {
        let resting = Resting::new(&ledger);
        let (thread, task) = (resting.timer.clone(), ledger.task());
        let thread = thread::spawn(move || thread.schedule_detached(ticks(1), task).expect("open"));
        resting.clock.advance_to_next(&resting.timer);
        thread.join().expect("no panic");
        resting.assert_called();
    });
}
