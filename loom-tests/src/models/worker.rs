//! The workers' threads, as the engine starts, wakes and ends them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::check::check;
use super::rig::{Bare, Gate, NO_LIMITS, followed, run_batches, ticks, with_workers};
use crate::executor::{Inline, ThreadPool};
use crate::shard::Command;
use crate::sync::thread;
use crate::time::{Clock, PausableClock, Subtick};

/// A clock that goes on by a tick with each look.
struct Ticking(Instant, AtomicU32);

impl Clock for Ticking {
    fn now(&self) -> Instant {
        self.0 + ticks(self.1.fetch_add(1, Ordering::Relaxed))
    }
}

/// Invariant: the first timeouts of an engine, from two threads at once, start one worker, which
/// runs both.
/// Legal end: both have run. (Otherwise the main thread waits for ever.)
#[test]
fn two_first_timeouts_start_one_worker() {
    check(2, |ledger| {
        let (timer, _clock) = with_workers(|b| b.executor(Inline).capacity(2));
        let gates = [Gate::new(), Gate::new()];
        let [mine, theirs] = gates.each_ref().map(|gate| gate.after(ledger.task()));
        let other = timer.clone();
        let thread = thread::spawn(move || other.schedule_detached(ticks(0), theirs).expect("open"));
        timer.schedule_detached(ticks(0), mine).expect("open");
        gates.iter().for_each(Gate::wait);
        thread.join().expect("no panic");
        assert!(timer.shutdown().expect("the first").is_empty());
        ledger.assert_closed(2);
    });
}

/// Invariant: a shutdown waits for what its workers have handed to the pool.
/// Legal ends: run, and visibly so; returned by the shutdown.
#[test]
fn a_shutdown_waits_for_the_pool() {
    check(3, |ledger| {
        let (timer, _clock) = with_workers(|b| b.executor(ThreadPool::new(1)).capacity(1));
        timer.schedule_detached(ticks(0), ledger.task()).expect("open");
        let unfired = timer.shutdown().expect("the first").len();
        ledger.assert_closed(1 - unfired);
    });
}

/// Invariant: `advance` on a manual clock returns only when the workers have run all timeouts that
/// became due.
/// Legal end: it has run when `advance` returns.
#[test]
fn advance_returns_when_due_timeouts_have_run() {
    check(2, |ledger| {
        let (timer, clock) = followed(|b| b.executor(Inline).capacity(1));
        timer.schedule_detached(ticks(1), ledger.task()).expect("open");
        clock.advance(ticks(1));
        assert_eq!(ledger.ran(), 1);
        assert!(timer.shutdown().expect("the first").is_empty());
    });
}

/// Invariant: a step of the clock goes to the earliest deadline, whatever the worker does, and the
/// timeouts due then have run when it returns.
/// Legal end: it went to 1, and that timeout has run.
#[test]
fn a_step_of_the_clock_goes_to_the_next_deadline() {
    check(1, |ledger| {
        let (timer, clock) = followed(|b| b.executor(Inline).capacity(2));
        let start = clock.now();
        timer.schedule_detached(ticks(3), ledger.task()).expect("open");
        timer.schedule_detached(ticks(1), ledger.task()).expect("open");
        assert!(clock.advance_to_next(&timer));
        assert_eq!((clock.now() - start, ledger.ran()), (ticks(1), 1));
        assert_eq!(timer.shutdown().expect("the first").len(), 1);
        ledger.assert_closed(1);
    });
}

/// Invariant: a thread that asks for the earliest deadline gets it from a turn that came after the
/// question, even if the worker is about to answer another.
/// Legal end: 3, which was scheduled before the question.
#[test]
fn the_earliest_deadline_comes_from_a_turn_after_the_question() {
    check(1, |ledger| {
        let (bare, mut shard) = Bare::new(1, NO_LIMITS);
        bare.calls(thread::current());
        let remote = bare.shared.remote(0);
        remote.request_turn();
        let (armed, theirs, me) = (bare.arm(Subtick::new(3), false, &ledger), bare.clone(), thread::current());
        let asker = thread::spawn(move || {
            let remote = theirs.shared.remote(0);
            assert!(theirs.push(armed));
            assert_eq!(remote.request_earliest(), Subtick::new(3));
            remote.command(Command::StopAndReturn);
            me.unpark();
        });
        while !remote.is_stopped() {
            let requested = remote.turn_requested();
            shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
            remote.complete_turn(requested, || shard.earliest(&bare.shared));
            if remote.fall_asleep(shard.next_due(&bare.shared)) {
                thread::park();
            }
        }
        asker.join().expect("no panic");
        assert_eq!(shard.close(&bare.shared).len(), 1);
        ledger.assert_closed(0);
    });
}

/// Invariant: a thread that moves the clock does not wait for ever for a worker that ends
/// meanwhile.
/// Legal ends: run; returned by the shutdown.
#[test]
fn a_clock_that_is_moved_during_a_shutdown_does_not_wait_for_ever() {
    check(1, |ledger| {
        let (timer, clock) = followed(|b| b.executor(Inline).capacity(1));
        timer.schedule_detached(ticks(1), ledger.task()).expect("open");
        let mover = thread::spawn(move || clock.advance(ticks(1)));
        let unfired = timer.shutdown().expect("the first").len();
        mover.join().expect("no panic");
        ledger.assert_closed(1 - unfired);
    });
}

/// Invariant: if a pause ends while the first timeout in it starts the worker, the worker does not
/// sleep on.
/// Legal end: it has run. (Otherwise the main thread waits for ever.)
#[test]
fn the_end_of_a_pause_calls_a_worker_that_is_just_being_started() {
    check(1, |ledger| {
        let clock = PausableClock::over(Ticking(Instant::now(), AtomicU32::new(0)));
        let (timer, _clock) = with_workers(|b| b.clock(clock.clone()).executor(Inline).capacity(1));
        clock.pause();
        let ran = Gate::new();
        let other = thread::spawn(move || clock.resume());
        timer.schedule_detached(ticks(1), ran.after(ledger.task())).expect("open");
        ran.wait();
        other.join().expect("no panic");
        assert!(timer.shutdown().expect("the first").is_empty());
        ledger.assert_closed(1);
    });
}
