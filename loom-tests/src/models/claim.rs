//! Timeouts on their way from the slot to their run: a cancel, a reset and a shutdown act on them
//! until the task itself begins.

use super::check::check;
use super::rig::{Bare, NO_LIMITS, assert_all_home, driven, run_batches, run_elsewhere, ticks};
use crate::engine::Shared;
use crate::sync::thread;
use crate::time::Subtick;

/// Invariant: a cancel of a timeout that is in a batch is true, or it ran. Either way its entry
/// comes back once, whoever is the last to let go of it.
/// Legal ends: it ran; it was cancelled before its slot came up, in the batch, or never.
#[test]
fn a_cancel_races_with_the_batch_that_the_timeout_is_in() {
    check(3, |ledger| {
        let (bare, mut shard, timeout, batches) = Bare::with_one_due(&ledger);
        let runner = run_elsewhere(batches);
        let cancelled = timeout.cancel();
        drop(timeout);
        runner.join().expect("no panic");
        shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
        assert_eq!(bare.shared.arena.in_use(), 0, "the entry has come back");
        assert_eq!(shard.close(&bare.shared).len(), 0);
        ledger.assert_closed(usize::from(!cancelled));
    });
}

/// Invariant: a cancel of a timeout on its way from the slot into a batch, and from there to its
/// run, is true, or it ran. Either way its entry comes back once.
/// Legal ends: it ran; it was cancelled in its slot, in its batch, or never.
#[test]
fn a_cancel_races_with_the_hand_over_and_the_claim() {
    check(3, |ledger| {
        let (bare, mut shard) = Bare::new(1, NO_LIMITS);
        let timeout = bare.schedule(Subtick::new(3), &ledger);
        shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
        let canceller = thread::spawn(move || timeout.cancel());
        let mut batches = Vec::new();
        let now = Subtick::new(3);
        shard.turn(&bare.shared, now, || None, |due| due.hand_over(&mut |batch| batches.push(batch)));
        run_elsewhere(batches).join().expect("no panic");
        let cancelled = canceller.join().expect("no panic");
        assert_eq!(ledger.ran(), usize::from(!cancelled));
        shard.turn(&bare.shared, now, || None, run_batches);
        assert_eq!(bare.shared.arena.in_use(), 0, "the entry has come back");
        assert_eq!(shard.close(&bare.shared).len(), 0);
        ledger.assert_closed(usize::from(!cancelled));
    });
}

/// Invariant: a reset of a timeout that is in a batch is true, and then it runs at the new deadline
/// and not before; or it ran.
/// Legal ends: it ran at 0, and the reset was too late; it was pushed again, and ran at 5.
#[test]
fn a_reset_races_with_the_batch_that_the_timeout_is_in() {
    check(3, |ledger| {
        let (bare, mut shard, timeout, batches) = Bare::with_one_due(&ledger);
        let runner = run_elsewhere(batches);
        let reset = timeout.reset(ticks(5));
        // It sleeps past the new deadline, or knows of the entry.
        let slept = !shard.next_due(&bare.shared).is_some() && bare.shared.remote(0).fall_asleep(None);
        runner.join().expect("no panic");
        assert_eq!(ledger.ran(), usize::from(!reset));
        assert!(!reset || !slept || bare.rung() > 0, "nobody has woken the worker");
        shard.turn(&bare.shared, Subtick::new(4), || None, run_batches);
        assert_eq!(ledger.ran(), usize::from(!reset), "early");
        shard.turn(&bare.shared, Subtick::new(5), || None, run_batches);
        drop(timeout);
        assert_eq!(ledger.ran(), 1);
        assert_eq!(shard.close(&bare.shared).len(), 0);
        ledger.assert_closed(1);
    });
}

/// Invariant: a timeout that was put off in its batch while its shard was closed is not lost.
/// Legal ends: it ran at 0; it was pushed again, and the close returned it; the close was first,
/// and its task was dropped, as no shutdown waits for it.
#[test]
fn a_put_off_timeout_meets_the_close() {
    check(3, |ledger| {
        let (bare, mut shard, timeout, batches) = Bare::with_one_due(&ledger);
        let reset = timeout.reset(ticks(5));
        assert!(reset, "it has not begun");
        let runner = run_elsewhere(batches);
        let left = shard.close(&bare.shared);
        let returned = left.len();
        drop(left);
        runner.join().expect("no panic");
        assert!(returned <= 1 && !timeout.is_pending() && timeout.is_cancelled());
        drop(timeout);
        ledger.assert_closed(0);
    });
}

/// Invariant: on the thread that turns the shard, too, a cancel wins or the task runs, and the
/// entry comes back.
/// Legal ends: it ran; it was cancelled.
#[test]
fn a_cancel_races_with_a_turn_that_runs_what_is_due() {
    check(3, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b.capacity(2));
        let timeout = timer.schedule(ticks(0), ledger.task()).expect("open");
        let canceller = thread::spawn(move || timeout.cancel());
        let fired = driver.turn();
        let cancelled = canceller.join().expect("no panic");
        assert_eq!(fired, usize::from(!cancelled));
        assert_all_home(&timer, &mut driver);
        drop((timer, driver));
        ledger.assert_closed(fired);
    });
}

/// Invariant: a timeout that was cancelled in a batch leaves no tombstone, because its entry is not
/// where a close would find it.
/// Legal ends: the runner gives the entry back; the handle does.
#[test]
fn a_cancelled_timeout_in_a_batch_is_not_revived_there() {
    check(3, |ledger| {
        let (bare, mut shard, timeout, batches) = Bare::with_one_due(&ledger);
        // Only a thread at home on the shard has tombstones.
        bare.shared.with_thread_state(|mine| assert_eq!(Shared::home_of(mine).index(), 0));
        assert!(timeout.cancel());
        let runner = run_elsewhere(batches);
        drop(timeout);
        let remote = bare.shared.remote(0);
        assert!(bare.shared.with_thread_state(|mine| mine.take_tombstone(remote)).is_none());
        runner.join().expect("no panic");
        assert_eq!(shard.close(&bare.shared).len(), 0);
        ledger.assert_closed(0);
    });
}

/// Invariant: a claim gives the entry up, so that the thread that drops the handle may use it for
/// its next timeout while the task of the first one runs.
/// Legal end: each has run once.
#[test]
fn an_entry_is_used_again_while_its_task_begins() {
    check(3, |ledger| {
        let (bare, mut shard, timeout, batches) = Bare::with_one_due(&ledger);
        let runner = run_elsewhere(batches);
        drop(timeout);
        assert!(bare.push(bare.arm(Subtick::ZERO, false, &ledger)));
        runner.join().expect("no panic");
        shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
        assert_eq!(shard.close(&bare.shared).len(), 0);
        ledger.assert_closed(2);
    });
}

/// Invariant: an entry that is in the moved queue and in a batch is popped while its runner, or its
/// canceller, sees to it. It runs at its last deadline, or is cancelled, and comes back once.
/// Legal ends: popped in the batch, in the inbox, in the wheel, or as the last owner.
#[test]
fn a_queued_reset_is_popped_while_its_batch_puts_it_off() {
    for cancels in [false, true] {
        check(3, move |ledger| {
            let (bare, mut shard) = Bare::new(1, NO_LIMITS);
            let timeout = bare.schedule(Subtick::new(3), &ledger);
            shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
            let mut batches = Vec::new();
            let reset = thread::spawn(move || (timeout.reset(ticks(2)), timeout));
            let now = Subtick::new(3);
            shard.turn(&bare.shared, now, || None, |due| due.hand_over(&mut |batch| batches.push(batch)));
            let (was_reset, timeout) = reset.join().expect("no panic");
            assert!(was_reset, "it has not begun");
            let runner = run_elsewhere(batches);
            let puts_off = if cancels { timeout.cancel() } else { timeout.reset(ticks(5)) };
            drop(timeout);
            shard.turn(&bare.shared, now, || None, run_batches);
            runner.join().expect("no panic");
            shard.turn(&bare.shared, now, || None, run_batches);
            assert_eq!(ledger.ran(), usize::from(!puts_off));
            shard.turn(&bare.shared, Subtick::new(5), || None, run_batches);
            assert_eq!(bare.shared.arena.in_use(), 0, "the entry has come back");
            assert_eq!(shard.close(&bare.shared).len(), 0);
            ledger.assert_closed(usize::from(!puts_off || !cancels));
        });
    }
}

/// Invariant: a reset to earlier, or a cancel, that has set QUEUED meets the close of its queue.
/// The entry is in the close's answer or cancelled, and nobody waits for it.
/// Legal ends: the close popped it; the push was refused.
#[test]
fn a_push_to_a_side_queue_meets_the_close() {
    for cancels in [false, true] {
        check(None, move |ledger| {
            let (bare, mut shard) = Bare::new(1, NO_LIMITS);
            let timeout = bare.schedule(Subtick::new(9), &ledger);
            shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
            let other = thread::spawn(move || {
                let done = if cancels { timeout.cancel() } else { timeout.reset(ticks(1)) };
                drop(timeout);
                done
            });
            let left = shard.close(&bare.shared);
            let done = other.join().expect("no panic");
            assert_eq!(left.len(), usize::from(!(cancels && done)));
            drop(left);
            assert_eq!(bare.shared.arena.in_use(), 0, "the entry has come back");
            ledger.assert_closed(0);
        });
    }
}
