//! The doorbell with deadlines that are finer than ticks: which of them may wait for a worker that
//! sleeps into their tick.
//!
//! In all models the producers' clock stands at the engine's start, when part 0 has come. Part 1 of
//! tick 1 is the one that a time of now is rounded up to, and so counts as come. All others are
//! hours away.

use std::time::Instant;

use super::check::check;
use super::rig::{Bare, Time, YEAR, driven_with_long_ticks, run_batches, ticks};
use crate::sync::thread;
use crate::time::Subtick;

/// Invariant: a timeout of an earlier tick than the one that the worker sleeps into wakes the
/// worker, although it has not come. A sleep that ended by itself in the timeout's own tick is not
/// mistaken for the present one, which goes into the next tick and has no end here.
/// Legal ends: the first sleep ended with the timeout in the inbox; the worker was woken.
#[test]
fn a_deadline_in_an_earlier_tick_wakes_the_worker() {
    check(None, |ledger| {
        let (bare, shard) = Bare::with_long_ticks(3);
        let first = bare.part(1, 3);
        assert!(bare.push(bare.arm(first, false, &ledger)));
        assert!(bare.push(bare.arm(bare.part(2, 3), false, &ledger)));
        let armed = bare.arm(bare.part(1, 2), false, &ledger);
        let ran = ledger.clone();
        let worker = bare.start(shard, Time::PassesUntil(first), move || ran.ran() == 2);
        assert!(bare.push(armed));
        assert_eq!(worker.join().expect("no panic").close(&bare.shared).len(), 1);
        ledger.assert_closed(2);
    });
}

/// Invariant: a timeout that has come wakes a worker that sleeps to a later part of the same tick,
/// and does not wait for what is due there.
/// Legal end: it has run, and the other has not.
#[test]
fn a_deadline_that_has_come_wakes_a_worker_that_sleeps_into_its_tick() {
    check(5, |ledger| {
        let (bare, shard) = Bare::with_long_ticks(2);
        assert!(bare.push(bare.arm(bare.part(1, 3), false, &ledger)));
        let now = bare.part(1, 1);
        let armed = bare.arm(now, false, &ledger);
        let ran = ledger.clone();
        let worker = bare.start(shard, Time::PassesUntil(now), move || ran.ran() == 1);
        assert!(bare.push(armed));
        assert_eq!(worker.join().expect("no panic").close(&bare.shared).len(), 1);
        ledger.assert_closed(1);
    });
}

/// Invariant: the same holds for a timeout of that tick that is reset to now, whether it is still
/// in the inbox or in the wheel.
/// Legal end: it has run, and the other has not.
#[test]
fn a_reset_to_now_wakes_a_worker_that_sleeps_into_the_tick() {
    check(3, |ledger| {
        let (bare, shard) = Bare::with_long_ticks(2);
        let (now, later) = (bare.part(1, 1), bare.part(1, 3));
        assert!(bare.push(bare.arm(later, false, &ledger)));
        let armed = bare.arm(later, true, &ledger);
        let timeout = armed.handle();
        let reset = bare.prepare_reset(&armed, now);
        assert!(bare.push(armed));
        let ran = ledger.clone();
        let worker = bare.start(shard, Time::PassesUntil(now), move || ran.ran() == 1);
        reset();
        drop(timeout);
        assert_eq!(worker.join().expect("no panic").close(&bare.shared).len(), 1);
        ledger.assert_closed(1);
    });
}

/// Invariant: a driver that was told to sleep into a tick is called for a timeout of that tick that
/// has come. After the call it is told of it.
/// Legal end: it was told of it at first, or after the call.
#[test]
fn a_deadline_that_has_come_calls_a_driver_that_sleeps_into_its_tick() {
    check(3, |ledger| {
        let soon = Instant::now() + YEAR / 8;
        let (timer, driver) = driven_with_long_ticks(|b| b.capacity(2));
        timer.schedule_detached(YEAR / 2, ledger.task()).expect("open");
        let sleeper = thread::spawn(move || {
            let me = thread::current();
            driver.on_earlier(move || me.unpark());
            while driver.next_wakeup().expect("pending") > soon {
                thread::park();
            }
            driver
        });
        timer.schedule_detached(ticks(1), ledger.task()).expect("open");
        drop(sleeper.join().expect("no panic"));
        ledger.assert_closed(0);
    });
}

/// Invariant: a timeout that has not come does not wake a worker that sleeps to a later part of the
/// same tick, whatever the worker does; nor does its reset to an earlier part. When the worker
/// wakes by itself, it finds both timeouts due.
/// Legal end: no thread rang, and both have run.
#[test]
fn a_deadline_in_the_tick_that_the_worker_sleeps_into_wakes_nobody() {
    check(3, |ledger| {
        let (bare, mut shard) = Bare::with_long_ticks(2);
        let (remote, wakes_at) = (bare.shared.remote(0), bare.part(1, 4));
        assert!(bare.push(bare.arm(wakes_at, false, &ledger)));
        shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
        assert!(remote.fall_asleep(shard.last_due_of_tick(&bare.shared)));
        let before = bare.rung();
        let armed = bare.arm(bare.part(1, 3), true, &ledger);
        let timeout = armed.handle();
        let reset = bare.prepare_reset(&armed, bare.part(1, 2));
        let theirs = bare.clone();
        let thread = thread::spawn(move || {
            assert!(theirs.push(armed));
            reset();
        });
        // Naps that end early, for no reason.
        for _ in 0..2 {
            shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
            let until = shard.last_due_of_tick(&bare.shared);
            assert_eq!(until, Some(wakes_at));
            remote.fall_asleep(until);
        }
        thread.join().expect("no panic");
        assert_eq!(bare.rung(), before);
        shard.turn(&bare.shared, wakes_at, || None, run_batches);
        drop(timeout);
        assert_eq!(shard.close(&bare.shared).len(), 0);
        ledger.assert_closed(2);
    });
}
