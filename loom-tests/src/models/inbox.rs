//! The inbox: the worker takes each pushed entry once, whichever threads push meanwhile.

use super::check::check;
use super::rig::{Bare, NO_LIMITS, driven, run_batches, ticks};
use crate::engine::Limits;
use crate::sync::thread;
use crate::time::Subtick;
use crate::timer::Refusal;

/// Invariant: an accepted timeout runs once, although the worker takes the inbox while producers
/// push on it, and goes through it one entry a turn.
/// Legal end: all have run.
#[test]
fn two_producers_neither_lose_nor_duplicate_an_entry() {
    check(3, |ledger| {
        let (bare, mut shard) = Bare::new(3, Limits { transfer: 1, expiry: 100 });
        let arm = || bare.arm(Subtick::ZERO, false, &ledger);
        let producers = [vec![arm(), arm()], vec![arm()]].map(|armed_entries| {
            let bare = bare.clone();
            thread::spawn(move || armed_entries.into_iter().for_each(|armed| assert!(bare.push(armed))))
        });
        let mut turn = || shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches).fired;
        let early = turn() + turn();
        producers.into_iter().for_each(|thread| thread.join().expect("no panic"));
        // One turn for each entry is enough, whichever turn took it.
        assert_eq!((0..3).map(|_| turn()).sum::<usize>() + early, 3);
        ledger.assert_closed(3);
    });
}

/// Invariant: a producer pushes a chain whole, by one exchange, against another producer's push and
/// the worker's take.
/// Legal end: all have run.
#[test]
fn a_chain_and_a_single_entry_are_pushed_at_once() {
    check(2, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b.transfer_limit(1));
        let (theirs, tasks) = (timer.clone(), [ledger.task(), ledger.task()]);
        let chain = thread::spawn(move || drop(theirs.schedule_many(ticks(0), tasks).expect("open")));
        timer.schedule_detached(ticks(0), ledger.task()).expect("open");
        driver.turn();
        chain.join().expect("no panic");
        while driver.turn() > 0 {}
        ledger.assert_closed(3);
    });
}

/// Invariant: a chain that races with the end is accepted or refused as a whole.
/// Legal ends: refused, with both tasks; accepted, and the shutdown returns both.
#[test]
fn a_chain_is_accepted_whole_or_not_at_all() {
    check(3, |ledger| {
        let (timer, driver, _clock) = driven(|b| b);
        let (theirs, tasks) = (timer.clone(), [ledger.task(), ledger.task()]);
        let chain = thread::spawn(move || match theirs.schedule_many(ticks(1), tasks) {
            Ok(_handles) => 0,
            Err(refused) => {
                assert_eq!(refused.kind(), Refusal::Shutdown, "there is no limit");
                refused.into_inner().len()
            }
        });
        let unfired = timer.shutdown().expect("the first").len();
        let refused = chain.join().expect("no panic");
        assert!((refused, unfired) == (2, 0) || (refused, unfired) == (0, 2));
        ledger.assert_closed(0);
        drop((timer, driver));
    });
}

/// Invariant: a thread that adds up what waits for the worker, in the queue and in the worker's
/// backlog, also counts what the worker is just taking. (A thread that missed it would take new
/// memory instead of waiting.)
/// Legal ends: it waits in the queue, or in the worker's backlog; the worker has gone through it.
#[test]
fn entries_are_counted_while_the_worker_takes_them() {
    check(None, |ledger| {
        let (bare, mut shard) = Bare::new(1, NO_LIMITS);
        assert!(bare.push(bare.arm(Subtick::new(5), false, &ledger)));
        let observed = bare.clone();
        let observer = thread::spawn(move || {
            let remote = observed.shared.remote(0);
            assert!(remote.inbox_depth() > 0 || remote.counters.transferred.get() == 1);
        });
        shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
        observer.join().expect("no panic");
        drop(shard.close(&bare.shared));
        ledger.assert_closed(0);
    });
}

/// Invariant: a thread that adds up what waits in the cancelled queue and its backlog also counts
/// what the worker is just taking.
#[test]
fn cancelled_entries_are_counted_while_the_worker_collects_them() {
    check(None, |ledger| {
        let (bare, mut shard) = Bare::new(1, NO_LIMITS);
        let timeout = bare.schedule(Subtick::new(5), &ledger);
        shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
        assert!(timeout.cancel());
        let observed = bare.clone();
        let observer = thread::spawn(move || {
            let remote = observed.shared.remote(0);
            assert!(remote.cancelled_depth() > 0 || remote.counters.collected.get() == 1);
        });
        shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
        observer.join().expect("no panic");
        ledger.assert_closed(0);
    });
}
