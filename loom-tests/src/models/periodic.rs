//! Runs of a periodic timeout: they follow each other, and a cancel, a reset or a shutdown acts on
//! the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::check::check;
use super::rig::{
    Bare, Gate, Ledger, NO_LIMITS, assert_all_home, driven, run_batches, run_elsewhere, ticks, with_workers,
};
use crate::engine::Core;
use crate::executor::{ThreadPool, run_here};
use crate::sync::thread::JoinHandle;
use crate::sync::{self, thread};
use crate::time::Subtick;
use crate::timer::Timeout;

/// Counts outside of loom, so that counting orders nothing.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicUsize>);

impl Runs {
    fn add(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Pushes a periodic timeout that is due at once, and then three ticks after each run.
fn push_counted(bare: &Bare, ledger: &Ledger, runs: &Runs) -> Timeout {
    let count = runs.clone();
    let armed = bare.arm_periodic(ledger, move || {
        count.add();
        Some(ticks(3))
    });
    let periodic = armed.handle();
    assert!(bare.push(armed));
    periodic
}

/// Invariant: a cancel that races with a run is true, and no run begins after it.
/// Legal ends: it never ran; it ran once, and not again.
#[test]
fn a_cancel_races_with_a_run() {
    check(3, |ledger| {
        let runs = Runs::default();
        let (timer, mut driver, clock) = driven(|b| b);
        let count = runs.clone();
        let task = ledger.repeated(move || _ = count.add());
        let periodic = timer.schedule_at_fixed_rate(ticks(0), ticks(1), task).expect("open");
        let cancel = thread::spawn(move || assert!(periodic.cancel()));
        driver.turn();
        cancel.join().expect("no panic");
        let before = runs.get();
        clock.advance(ticks(1));
        driver.turn();
        assert!(before <= 1 && runs.get() == before, "{before} runs, then {}", runs.get());
        assert_all_home(&timer, &mut driver);
        ledger.assert_closed(0);
    });
}

/// Invariant: a cancel or a reset of a periodic timeout whose run waits in an executor holds for
/// that run, if the runner sees it when the run begins.
/// Legal ends: it ran, and the runner did not see it; it did not run, and is gone, or pending with
/// the new deadline.
#[test]
fn a_cancel_or_a_reset_holds_for_a_run_that_waits() {
    for is_reset in [false, true] {
        check(None, move |ledger| {
            let runs = Runs::default();
            let (bare, mut shard) = Bare::new(1, NO_LIMITS);
            let periodic = push_counted(&bare, &ledger, &runs);
            let batch = bare.due_batches(&mut shard).pop().expect("it is due");
            let told = sync::Arc::new(sync::AtomicUsize::new(0));
            let tell = sync::Arc::clone(&told);
            let other = thread::spawn(move || {
                assert!(if is_reset { periodic.reset(ticks(5)) } else { periodic.cancel() });
                tell.store(1, Ordering::Release);
            });
            let knows = told.load(Ordering::Acquire) == 1;
            run_here(batch);
            other.join().expect("no panic");
            assert!(!knows || runs.get() == 0);
            let mut left = shard.close(&bare.shared);
            assert_eq!(left.len(), usize::from(is_reset));
            while let Some((deadline, _)) = left.pop() {
                assert_eq!(deadline, Subtick::new(5));
            }
            drop(left);
            ledger.assert_closed(0);
        });
    }
}

/// Invariant: the next use of a cancelled periodic timeout's entry does not race with the rest of
/// its run.
/// Legal ends: it never ran; it ran once, and not again.
#[test]
fn an_entry_that_is_given_up_during_a_run_is_used_again() {
    check(3, |ledger| {
        let runs = Runs::default();
        let (timer, mut driver, clock) = driven(|b| b.capacity(2));
        let (count, next) = (runs.clone(), timer.clone());
        let task = ledger.repeated(move || _ = count.add());
        let periodic = timer.schedule_at_fixed_rate(ticks(0), ticks(1), task).expect("open");
        let cancel = thread::spawn(move || {
            assert!(periodic.cancel());
            drop(periodic);
            next.schedule(ticks(9), || ()).expect("open")
        });
        driver.turn();
        let next = cancel.join().expect("no panic");
        let before = runs.get();
        clock.advance(ticks(1));
        driver.turn();
        assert!(before <= 1 && runs.get() == before, "{before} runs, then {}", runs.get());
        assert!(next.cancel());
        drop(next);
        assert_all_home(&timer, &mut driver);
        ledger.assert_closed(0);
    });
}

/// Invariant: a reset that races with a run moves the next one, wherever it falls: before the run,
/// in it, or between the arming and the push.
/// Legal ends: it ran at first, and again at the new deadline; it ran at the new deadline only.
#[test]
fn a_reset_races_with_a_run() {
    check(3, |ledger| {
        let runs = Runs::default();
        let (timer, mut driver, clock) = driven(|b| b);
        let count = runs.clone();
        let task = ledger.repeated(move || _ = count.add());
        let periodic = timer.schedule_at_fixed_rate(ticks(0), ticks(3), task).expect("open");
        let reset = thread::spawn(move || {
            assert!(periodic.reset(ticks(2)));
            periodic
        });
        driver.turn();
        let periodic = reset.join().expect("no panic");
        let before = runs.get();
        assert!(before <= 1);
        clock.advance(ticks(1));
        driver.turn();
        assert_eq!(runs.get(), before, "not before the deadline that the reset gave it");
        clock.advance(ticks(1));
        driver.turn();
        assert_eq!(runs.get(), before + 1, "and then");
        assert!(periodic.cancel());
        drop(periodic);
        assert_all_home(&timer, &mut driver);
        ledger.assert_closed(0);
    });
}

/// Invariant: if a handle goes while its periodic timeout runs and ends, the entry is given back
/// once.
/// Legal ends: the handle was last; the runner was.
#[test]
fn a_handle_goes_during_the_last_run() {
    check(None, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b.capacity(2));
        let periodic = timer.schedule_repeating(ticks(0), ledger.repeated(|| None)).expect("open");
        let handle = thread::spawn(move || drop(periodic));
        assert_eq!(driver.turn(), 1);
        handle.join().expect("no panic");
        assert_all_home(&timer, &mut driver);
        ledger.assert_closed(0);
    });
}

/// Invariant: a cancel that races with the last run is true or too late, and the place is given
/// back once.
/// Legal ends: cancelled before the run, or in it; it has ended by itself.
#[test]
fn a_cancel_races_with_the_last_run() {
    check(3, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b.max_pending_timeouts(1).capacity(2));
        let periodic = timer.schedule_repeating(ticks(0), ledger.repeated(|| None)).expect("open");
        let cancel = thread::spawn(move || (periodic.cancel(), periodic));
        driver.turn();
        let (cancelled, periodic) = cancel.join().expect("no panic");
        assert_eq!((periodic.is_cancelled(), periodic.is_expired()), (cancelled, !cancelled));
        drop(periodic);
        assert_all_home(&timer, &mut driver);
        ledger.assert_closed(0);
    });
}

/// Invariant: a periodic timeout that is armed again, and reset to earlier between its arming and
/// its push, does not leave the worker asleep past that. (The worker takes one turn, and has fewer
/// steps for it.)
/// Legal ends: the worker was called, or does not sleep past the deadline that the timeout has now.
#[test]
fn a_periodic_timeout_that_is_armed_again_wakes_the_worker() {
    check(2, |ledger| {
        let (bare, mut shard) = Bare::new(1, NO_LIMITS);
        // The schedule itself never makes it due again.
        let armed = bare.arm_periodic(&ledger, || Some(Duration::MAX));
        let periodic = armed.handle();
        let (deadline, run) = bare.begin_run(armed);
        let theirs = bare.clone();
        let worker = thread::spawn(move || {
            shard.turn(&theirs.shared, Subtick::ZERO, || None, run_batches);
            theirs.shared.remote(0).fall_asleep(shard.next_due(&theirs.shared));
            shard
        });
        let reset = thread::spawn(move || {
            assert!(periodic.reset(ticks(1)));
            periodic
        });
        bare.shared.run_periodic(bare.shared.remote(0), deadline, run).expect("no panic");
        let periodic = reset.join().expect("no panic");
        let mut shard = worker.join().expect("no panic");
        let wakes_at = bare.shared.remote(0).sleeps_until().map(|until| bare.shared.timeline().instant_of(until));
        assert!(wakes_at.is_none_or(|at| at <= periodic.deadline()), "it sleeps past the deadline");
        assert_eq!(shard.close(&bare.shared).len(), 1);
        ledger.assert_closed(0);
    });
}

/// Invariant: a shutdown that races with a run waits for it. The periodic timeout ends with the
/// run, or the shutdown returns it.
/// Legal ends: it never ran, and is returned; it ran, and is returned; it ran, and is gone.
#[test]
fn a_shutdown_races_with_a_run() {
    check(2, |ledger| {
        let runs = Runs::default();
        let (timer, _clock) = with_workers(|b| b.executor(ThreadPool::new(1)).capacity(1));
        let (count, gate) = (runs.clone(), Gate::new());
        let task = ledger.repeated(move || _ = count.add());
        let periodic = timer.schedule_at_fixed_rate(ticks(0), ticks(1), gate.held_by(task)).expect("open");
        let unfired = timer.shutdown().expect("the first");
        assert!(periodic.is_cancelled());
        assert!(unfired.len() + runs.get() >= 1);
        assert_eq!(timer.pending(), 0);
        drop(unfired);
        gate.wait();
        ledger.assert_closed(0);
    });
}

/// Returns an engine with a periodic timeout in the slot of tick 2, and the thread that resets it
/// to tick 1. A turn of tick 2 may find it in that slot while it is in the moved queue, or about to
/// be pushed there.
fn reset_in_its_slot(ledger: &Ledger, runs: &Runs) -> (Bare, Core, JoinHandle<Timeout>) {
    let (bare, mut shard) = Bare::new(1, NO_LIMITS);
    let periodic = push_counted(&bare, ledger, runs);
    assert!(periodic.reset(ticks(2)));
    shard.turn(&bare.shared, Subtick::ZERO, || None, run_batches);
    let reset = thread::spawn(move || {
        assert!(periodic.reset(ticks(1)));
        periodic
    });
    (bare, shard, reset)
}

/// Cancels it, and asserts that its entry comes back.
fn assert_comes_back(bare: &Bare, mut shard: Core, periodic: Timeout, runs: &Runs) {
    assert!(periodic.cancel());
    drop(periodic);
    shard.turn(&bare.shared, Subtick::new(2), || None, run_batches);
    assert!((1..=2).contains(&runs.get()) && bare.shared.arena.in_use() == 0);
    assert_eq!(shard.close(&bare.shared).len(), 0);
}

/// Invariant: the worker pops a periodic timeout off the moved queue while its runner arms it again
/// and pushes it. It is then in the inbox, or in the wheel at its new deadline, and nowhere twice.
/// Legal ends: popped before the run, during it, in the inbox, or in the wheel.
#[test]
fn a_queued_periodic_timeout_is_popped_while_it_is_armed_again() {
    check(3, |ledger| {
        let runs = Runs::default();
        let (bare, mut shard, reset) = reset_in_its_slot(&ledger, &runs);
        let (now, mut batches) = (Subtick::new(2), Vec::new());
        shard.turn(&bare.shared, now, || None, |due| due.hand_over(&mut |batch| batches.push(batch)));
        let periodic = reset.join().expect("no panic");
        let runner = run_elsewhere(batches);
        shard.turn(&bare.shared, now, || None, run_batches);
        runner.join().expect("no panic");
        shard.turn(&bare.shared, now, || None, run_batches);
        assert_comes_back(&bare, shard, periodic, &runs);
        ledger.assert_closed(0);
    });
}

/// Invariant: a periodic timeout may run, be armed again and be linked before the reset that has
/// set QUEUED pushes it. Nobody else pushes it meanwhile.
/// Legal ends: pushed before the run, during it, in the inbox, or in the wheel.
#[test]
fn a_periodic_timeout_is_armed_again_before_its_reset_has_pushed_it() {
    check(2, |ledger| {
        let runs = Runs::default();
        let (bare, mut shard, reset) = reset_in_its_slot(&ledger, &runs);
        for _ in 0..2 {
            shard.turn(&bare.shared, Subtick::new(2), || None, run_batches);
        }
        let periodic = reset.join().expect("no panic");
        assert_comes_back(&bare, shard, periodic, &runs);
        ledger.assert_closed(0);
    });
}
