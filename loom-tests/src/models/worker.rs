//! The workers' threads, as the engine starts, wakes and ends them.

use super::check::check;
use super::rig::{Gate, Ledger, followed, ticks, with_workers};
use crate::executor::{Inline, ThreadPool};
use crate::sync::thread;

/// Invariant: the first timeouts of an engine, from two threads at once, start one worker, which runs both.
/// Legal end: both have run. (Otherwise the main thread waits for ever.)
#[test]
fn two_first_timeouts_start_one_worker() {
    check(2, || {
        let ledger = Ledger::default();
        let (timer, _clock) = with_workers(|b| b.executor(Inline).capacity(2));
        let gates = [Gate::new(), Gate::new()];
        let [mine, theirs] = gates.each_ref().map(|gate| gate.after(ledger.task()));
        let other = timer.clone();
        let producer = thread::spawn(move || other.schedule_detached(ticks(0), theirs).expect("open"));
        timer.schedule_detached(ticks(0), mine).expect("open");
        gates.iter().for_each(Gate::wait);
        producer.join().expect("no panic");
        assert!(timer.shutdown().expect("the first").is_empty());
        ledger.assert_closed(2);
    });
}

/// Invariant: a shutdown waits for what its workers have handed to the pool.
/// Legal ends: run, and visibly so; in the answer.
#[test]
fn a_shutdown_waits_for_the_pool() {
    check(3, || {
        let ledger = Ledger::default();
        let (timer, _clock) = with_workers(|b| b.executor(ThreadPool::new(1)).capacity(1));
        timer.schedule_detached(ticks(0), ledger.task()).expect("open");
        let unfired = timer.shutdown().expect("the first").len();
        ledger.assert_closed(1 - unfired);
    });
}

/// Invariant: a clock that is moved by hand stands still again only when the workers have run what became due.
/// Legal end: it has run when `advance` returns.
#[test]
fn a_clock_that_was_moved_has_run_what_became_due() {
    check(2, || {
        let ledger = Ledger::default();
        let (timer, clock) = followed(|b| b.executor(Inline).capacity(1));
        timer.schedule_detached(ticks(1), ledger.task()).expect("open");
        clock.advance(ticks(1));
        assert_eq!(ledger.ran(), 1);
        assert!(timer.shutdown().expect("the first").is_empty());
    });
}

/// Invariant: whoever moves the clock is not left waiting for a worker that ends meanwhile.
/// Legal ends: run; in the answer.
#[test]
fn a_clock_that_is_moved_during_a_shutdown_does_not_wait_for_ever() {
    check(2, || {
        let ledger = Ledger::default();
        let (timer, clock) = followed(|b| b.executor(Inline).capacity(1));
        timer.schedule_detached(ticks(1), ledger.task()).expect("open");
        let mover = thread::spawn(move || clock.advance(ticks(1)));
        let unfired = timer.shutdown().expect("the first").len();
        mover.join().expect("no panic");
        ledger.assert_closed(1 - unfired);
    });
}
