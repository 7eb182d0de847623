//! The bound on pending timeouts is exact: never one more, and no refusal while there is room.

use super::check::check;
use super::rig::{driven, ticks};
use crate::sync::thread;
use crate::timer::Refusal;

/// Invariant: of two producers and one place, one gets it, and the other gets its task back.
/// Legal ends: the one is accepted; the other is.
#[test]
fn two_producers_share_one_place() {
    check(None, |ledger| {
        let (timer, driver, _clock) = driven(|b| b.max_pending_timeouts(1).capacity(2));
        let producers = [0; 2].map(|_| {
            let (timer, task) = (timer.clone(), ledger.task());
            thread::spawn(move || match timer.schedule_detached(ticks(5), task) {
                Ok(()) => true,
                Err(refused) => {
                    assert_eq!(refused.kind(), Refusal::Full, "it is open");
                    false
                }
            })
        });
        let accepted = producers.into_iter().filter_map(|thread| thread.join().ok()).filter(|&ok| ok).count();
        assert_eq!((accepted, ledger.dropped(), timer.pending()), (1, 1, 1));
        drop((timer, driver));
        ledger.assert_closed(0);
    });
}

/// Invariant: a thread that cancels finds the place that its cancel has given back, whatever the
/// worker and others do, and a place is given back once.
/// Legal ends: the timeout ran or was cancelled, and the same thread schedules again.
#[test]
fn a_place_that_was_given_back_can_be_taken() {
    check(3, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b.max_pending_timeouts(2).capacity(3));
        timer.schedule_detached(ticks(5), ledger.task()).expect("room");
        let timeout = timer.schedule(ticks(0), ledger.task()).expect("room");
        let (theirs, again) = (timer.clone(), ledger.task());
        let thread = thread::spawn(move || {
            if timeout.cancel() {
                theirs.schedule_detached(ticks(5), again).expect("its place is free");
            } else {
                again();
            }
        });
        let fired = driver.turn();
        thread.join().expect("no panic");
        assert_eq!(timer.pending(), 2 - fired);
        drop((timer, driver));
        ledger.assert_closed(2 * fired);
    });
}

/// Invariant: the place of a timeout is free before its task runs. A task that schedules again
/// finds it, unless another producer was quicker.
/// Legal ends: the task has scheduled another, and the producer was refused; the other way round.
#[test]
fn a_task_can_take_the_place_of_its_own_timeout() {
    check(None, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b.max_pending_timeouts(1).capacity(3));
        let (mine, next) = (timer.clone(), ledger.task());
        let task = move || drop(mine.schedule_detached(ticks(5), next));
        timer.schedule_detached(ticks(0), task).expect("room");
        let (theirs, next) = (timer.clone(), ledger.task());
        let thread = thread::spawn(move || drop(theirs.schedule_detached(ticks(5), next)));
        assert_eq!(driver.turn(), 1);
        thread.join().expect("no panic");
        assert_eq!((timer.pending(), ledger.dropped()), (1, 1));
        drop((timer, driver));
        ledger.assert_closed(0);
    });
}

/// Invariant: a thread that sees that a periodic timeout has ended finds its place.
/// Legal ends: it has seen the end; it has not.
#[test]
fn who_sees_the_end_of_a_series_finds_its_place() {
    check(2, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b.max_pending_timeouts(1).capacity(2));
        let periodic = timer.schedule_repeating(ticks(0), ledger.repeated(|| None)).expect("room");
        let (theirs, next) = (timer.clone(), ledger.task());
        let thread = thread::spawn(move || {
            let has_ended = !periodic.is_pending();
            if has_ended {
                theirs.schedule_detached(ticks(5), next).expect("its place is free");
            }
            has_ended
        });
        driver.turn();
        let has_ended = thread.join().expect("no panic");
        assert_eq!(timer.pending(), usize::from(has_ended));
        drop((timer, driver));
        ledger.assert_closed(0);
    });
}
