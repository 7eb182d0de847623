//! Groups: a third owner of an entry, and one cancel of many timeouts.

use super::check::check;
use super::rig::{Ledger, assert_all_home, driven, entries_in_use, ticks};
use crate::sync::thread;

/// Invariant: a timeout that its group and its handle cancel while it expires has one outcome, and
/// the engine gets its entry back.
/// Legal ends: it ran; one of the two cancelled it.
#[test]
fn a_group_is_cancelled_while_its_timeout_expires() {
    check(2, || {
        let ledger = Ledger::default();
        let (timer, mut driver, clock) = driven(|b| b.capacity(2));
        let group = timer.group();
        let handle = group.schedule(ticks(1), ledger.task()).expect("open");
        driver.turn();
        clock.advance(ticks(1));
        let all = thread::spawn(move || {
            let cancelled = group.cancel_all();
            drop(group);
            cancelled
        });
        let one = thread::spawn(move || handle.cancel());
        let fired = driver.turn();
        let cancelled = all.join().expect("no panic") + usize::from(one.join().expect("no panic"));
        assert_eq!(fired + cancelled, 1);
        driver.turn();
        assert_eq!((timer.pending(), timer.stats().shards[0].linked), (0, 0));
        let probe = timer.schedule(ticks(9), || ()).expect("open");
        assert_eq!(entries_in_use(&probe), 1);
        probe.cancel();
        ledger.assert_closed(fired);
    });
}

/// Invariant: of engine, handle and group exactly one gives the entry back.
/// Legal ends: any of the three is last.
#[test]
fn a_group_a_handle_and_the_engine_let_go_at_once() {
    check(3, || {
        let ledger = Ledger::default();
        let (timer, mut driver, _clock) = driven(|b| b.capacity(2));
        let group = timer.group();
        let handle = group.schedule(ticks(0), ledger.task()).expect("open");
        let owners = [thread::spawn(move || drop(group)), thread::spawn(move || drop(handle))];
        assert_eq!(driver.turn(), 1);
        owners.into_iter().for_each(|owner| owner.join().expect("no panic"));
        let probe = timer.schedule(ticks(9), || ()).expect("open");
        assert_eq!(entries_in_use(&probe), 1);
        probe.cancel();
        drop(driver);
        ledger.assert_closed(1);
    });
}

/// Invariant: the same of a cancelled timeout, which the worker collects.
/// Legal ends: any of the three is last.
#[test]
fn a_group_a_handle_and_the_worker_that_collects_let_go_at_once() {
    check(3, || {
        let ledger = Ledger::default();
        let (timer, mut driver, _clock) = driven(|b| b.capacity(2));
        let group = timer.group();
        let handle = group.schedule(ticks(9), ledger.task()).expect("open");
        driver.turn();
        assert!(handle.cancel());
        let owners = [thread::spawn(move || drop(group)), thread::spawn(move || drop(handle))];
        driver.turn();
        owners.into_iter().for_each(|owner| owner.join().expect("no panic"));
        assert_all_home(&timer, &mut driver);
        drop(driver);
        ledger.assert_closed(0);
    });
}

/// Invariant: an entry that a group still lists is no other timeout's.
/// Legal ends: it ran; the group cancelled it.
#[test]
fn a_group_is_cancelled_while_another_timeout_is_scheduled_where_its_own_was() {
    check(3, || {
        let ledger = Ledger::default();
        let (timer, mut driver, _clock) = driven(|b| b.capacity(2));
        let group = timer.group();
        group.schedule_detached(ticks(0), ledger.task()).expect("open");
        let all = thread::spawn(move || group.cancel_all());
        let fired = driver.turn();
        let other = timer.schedule(ticks(9), || ()).expect("open");
        assert_eq!(fired + all.join().expect("no panic"), 1);
        assert!(other.cancel(), "the group has cancelled another's");
        drop(driver);
        ledger.assert_closed(fired);
    });
}
