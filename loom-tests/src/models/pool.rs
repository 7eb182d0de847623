//! The pool: each submitted batch runs, whether the pool's threads are asleep, busy, or not there
//! yet. A thread that waits for what is in flight waits exactly for that.

use super::check::check;
use super::rig::{Bare, Gate, Ledger, NO_LIMITS};
use crate::engine::Batch;
use crate::engine::Core;
use crate::executor::{Chosen, Help, ThreadPool};
use crate::sync::thread;
use crate::time::Subtick;
use crate::worker::{Dispatch, WorkerHooks};

/// Returns an engine and two batches, of one expired timeout each.
fn two_batches(ledger: &Ledger) -> (Bare, Core, [Batch; 2]) {
    let (bare, mut shard) = Bare::new(2, NO_LIMITS);
    let batches = [0; 2].map(|_| {
        assert!(bare.push(bare.arm(Subtick::ZERO, false, ledger)));
        one_batch(&bare, &mut shard)
    });
    (bare, shard, batches)
}

/// Returns what is due now: one batch.
fn one_batch(bare: &Bare, shard: &mut Core) -> Batch {
    let mut batches = bare.due_batches(shard);
    assert_eq!(batches.len(), 1);
    batches.remove(0)
}

/// Pushes two timeouts, of which the first waits for the second to run. Returns a gate that the
/// first opens when it begins.
fn push_one_that_waits_for_the_next(bare: &Bare, ledger: &Ledger) -> Gate {
    let (begun, passed) = (Gate::new(), Gate::new());
    let (begins, waits, first) = (begun.after(|| ()), passed.clone(), ledger.task());
    let blocks = move || {
        begins();
        waits.wait();
        first();
    };
    assert!(bare.push(bare.arm_task(Subtick::ZERO, false, blocks)));
    assert!(bare.push(bare.arm_task(Subtick::ZERO, false, passed.after(ledger.task()))));
    begun
}

fn sink_of(pool: &ThreadPool) -> Dispatch {
    Dispatch::new(Chosen::new(pool.clone()), WorkerHooks::default())
}

/// Invariant: a batch is never left in the queue while a thread sleeps, and none runs twice.
/// Legal end: both have run when the wait is over, and their effects are visible.
#[test]
fn every_batch_runs_however_many_threads_are_idle() {
    for (threads, preemptions) in [(1, 2), (2, 1)] {
        check(preemptions, move |ledger| {
            let (bare, _shard, batches) = two_batches(&ledger);
            let pool = ThreadPool::new(threads);
            let mut sink = sink_of(&pool);
            batches.into_iter().for_each(|batch| sink.accept(batch));
            bare.shared.in_flight.wait(false, || ());
            ledger.assert_closed(2);
        });
    }
}

/// Invariant: the last batch that ends tells a thread that waits for all batches in flight, whether
/// or not it was the last to run.
/// Legal end: both have ended when the wait is over.
#[test]
fn two_batches_that_end_at_once_wake_the_waiter() {
    check(3, |_| {
        let (bare, _shard) = Bare::new(1, NO_LIMITS);
        for _ in 0..2 {
            bare.shared.in_flight.begin();
            bare.shared.in_flight.run();
        }
        let ends = [bare.clone(), bare.clone()].map(|bare| thread::spawn(move || bare.shared.in_flight.end()));
        bare.shared.in_flight.wait(false, || ());
        assert!(!bare.shared.in_flight.is_running());
        ends.into_iter().for_each(|end| end.join().expect("no panic"));
    });
}

/// Invariant: a thread that has run out of work and falls asleep is called when more work comes.
/// Legal end: each batch has run when the wait for it is over.
#[test]
fn a_thread_that_falls_asleep_is_called() {
    check(3, |ledger| {
        let (bare, _shard, batches) = two_batches(&ledger);
        let pool = ThreadPool::new(1);
        let mut sink = sink_of(&pool);
        for (n, batch) in batches.into_iter().enumerate() {
            sink.accept(batch);
            bare.shared.in_flight.wait(false, || ());
            assert_eq!(ledger.ran(), n + 1);
        }
        drop((pool, sink));
        ledger.assert_closed(2);
    });
}

/// Invariant: two workers share a pool, and the pool loses neither's batch.
/// Legal end: both have run.
#[test]
fn two_workers_share_a_pool() {
    check(2, |ledger| {
        let (bare, _shard, batches) = two_batches(&ledger);
        let pool = ThreadPool::new(1);
        let workers: Vec<_> = batches
            .into_iter()
            .map(|batch| {
                let mut sink = sink_of(&pool);
                thread::spawn(move || sink.accept(batch))
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        bare.shared.in_flight.wait(false, || ());
        ledger.assert_closed(2);
        drop(pool);
    });
}

/// Invariant: dropping the last owner of a pool leaves nothing in its queue, and no thread behind.
/// (Loom checks that the threads end.)
/// Legal end: both have run.
#[test]
fn batches_left_in_a_dropped_pool_run() {
    check(3, |ledger| {
        let (bare, _shard, batches) = two_batches(&ledger);
        let pool = ThreadPool::new(1);
        let mut sink = sink_of(&pool);
        batches.into_iter().for_each(|batch| sink.accept(batch));
        drop((pool, sink));
        bare.shared.in_flight.wait(false, || ());
        ledger.assert_closed(2);
    });
}

/// Invariant: a thread that waits for what is under way, and a thread that waits for what is
/// running, both learn of the end.
/// Legal end: both waits are over; after the first kind both batches have run.
#[test]
fn two_kinds_of_waiters_are_told_of_the_end() {
    check(2, |ledger| {
        let (bare, _shard, batches) = two_batches(&ledger);
        let pool = ThreadPool::new(1);
        let mut sink = sink_of(&pool);
        batches.into_iter().for_each(|batch| sink.accept(batch));
        drop((pool, sink));
        let theirs = bare.clone();
        let other = thread::spawn(move || theirs.shared.in_flight.wait(true, || ()));
        bare.shared.in_flight.wait(false, || ());
        ledger.assert_closed(2);
        other.join().expect("no panic");
    });
}

/// Invariant: the timeouts that another thread takes over from a batch count as in flight before
/// its owner ends, and run once.
/// Legal end: all have run when the wait is over, on one thread or on two.
#[test]
fn a_wait_includes_what_another_thread_has_taken_over() {
    check(2, |ledger| {
        let (bare, mut shard) = Bare::new(2, NO_LIMITS);
        (0..2).for_each(|_| assert!(bare.push(bare.arm(Subtick::ZERO, false, &ledger))));
        let pool = ThreadPool::new(2);
        sink_of(&pool).accept(one_batch(&bare, &mut shard));
        pool.find_help();
        bare.shared.in_flight.wait(false, || ());
        ledger.assert_closed(2);
    });
}

/// Invariant: another thread runs the tasks that wait behind one that blocks, if somebody looks.
/// Legal end: the first task has waited for the second one to run. (Otherwise it waits for ever.)
#[test]
fn a_task_may_wait_for_one_behind_it_in_its_batch() {
    check(3, |ledger| {
        let (bare, mut shard) = Bare::new(2, NO_LIMITS);
        let begun = push_one_that_waits_for_the_next(&bare, &ledger);
        let pool = ThreadPool::new(2);
        sink_of(&pool).accept(one_batch(&bare, &mut shard));
        begun.wait();
        assert_eq!(pool.find_help(), Help::Called, "the second one waits");
        bare.shared.in_flight.wait(false, || ());
        ledger.assert_closed(2);
    });
}

/// Invariant: a thread that gets free takes what waits behind a task that blocks, and nobody has to
/// look for that.
/// Legal end: the first task has waited for the second one to run. (Otherwise it waits for ever.)
#[test]
fn a_thread_that_gets_free_takes_what_waits_behind_another() {
    check(2, |ledger| {
        let (bare, mut shard) = Bare::new(3, NO_LIMITS);
        let begun = push_one_that_waits_for_the_next(&bare, &ledger);
        let pool = ThreadPool::new(2);
        let mut sink = sink_of(&pool);
        sink.accept(one_batch(&bare, &mut shard));
        let other = ledger.task();
        let after_it_has_begun = move || {
            begun.wait();
            other();
        };
        assert!(bare.push(bare.arm_task(Subtick::ZERO, false, after_it_has_begun)));
        sink.accept(one_batch(&bare, &mut shard));
        bare.shared.in_flight.wait(false, || ());
        ledger.assert_closed(3);
    });
}
