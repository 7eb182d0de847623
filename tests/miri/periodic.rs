//! Periodic timeouts, guards, pauses and tasks that use the engine, against threads that use it at
//! the same time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tourbillon::{Inline, MissedTicks, PausableClock, Shutdown, ThreadPool, Timer};

use crate::common::{HOUR, MS, Own, assert_counters_reconcile, driven_by, eventually, settle};
use crate::{Ledger, few, let_threads_end, small, with_workers};

#[test]
fn runs_of_a_periodic_timeout_do_not_overlap_and_end_with_its_cancel() {
    for builder in with_workers() {
        let timer = builder.build().expect("the options make sense");
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        // On the heap, and without any order of its own: runs follow each other, on whatever
        // threads.
        let mut runs = Box::new(0_usize);
        let run = move || {
            *runs += 1;
            count.store(*runs, Ordering::Relaxed);
        };
        let periodic = timer.schedule_at_fixed_rate(Duration::ZERO, MS, run).expect("accepted");
        eventually("it runs again and again", || ran.load(Ordering::Relaxed) >= few(3, 20));
        thread::scope(|scope| {
            scope.spawn(|| _ = periodic.reset(Duration::ZERO));
            scope.spawn(|| _ = periodic.reset(MS));
            assert!(periodic.cancel());
        });
        // The thread that runs it when it is cancelled drops the task.
        eventually("its task is dropped", || Arc::strong_count(&ran) == 1);
        let runs = ran.load(Ordering::Relaxed) as u64;
        assert!(timer.shutdown().expect("the first").is_empty());
        let stats = timer.stats();
        assert_eq!((stats.fired, stats.panicked), (runs, 0));
        assert_counters_reconcile(&stats);
        drop(timer);
        let_threads_end();
    }
}

#[test]
fn periodic_timeouts_end_by_their_answer_their_own_cancel_a_panic_and_every_shutdown() {
    for mode in [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(3 * MS)] {
        let timer = small().executor(ThreadPool::new(1)).build().expect("the options make sense");
        let (ledger, own) = (Ledger::new(3), Own::default());
        let (mut left, mut answer) = (3, ledger.repeating_task(0));
        let answers = timer.schedule_repeating(Duration::ZERO, move || {
            answer();
            left -= 1;
            (left > 0).then_some(MS)
        });
        let (mine, mut run) = (own.clone(), ledger.repeating_task(1));
        let cancels_itself = timer.schedule_with_fixed_delay(5 * MS, MS, move || {
            run();
            assert!(mine.get().cancel());
        });
        own.set(cancels_itself.expect("accepted"));
        let missed = MissedTicks::Burst;
        let goes_on =
            timer.schedule_at_fixed_rate_with(MS, 2 * MS, missed, ledger.repeating_task(2)).expect("accepted");
        let answers = answers.expect("accepted");
        eventually("one ends", || answers.is_expired());
        eventually("the other ends", || own.get().is_cancelled());
        drop(timer.shutdown_with(mode).expect("the first"));
        assert_eq!((ledger.runs_of(0), ledger.runs_of(1)), (3, 1));
        assert!(goes_on.is_cancelled());
        assert_counters_reconcile(&timer.stats());
        drop(timer);
        assert!(ledger.all_are_dropped());
        let_threads_end();
    }
}

#[test]
fn guards_are_dropped_while_their_timeouts_fire_and_others_cancel_them() {
    const LEN: usize = few(8, 200);
    for builder in with_workers() {
        let (timer, ledger) = (builder.build().expect("the options make sense"), Ledger::new(2 * LEN));
        let schedule = |id: usize| {
            let delay = [Duration::ZERO, MS, HOUR][id % 3];
            timer.schedule(delay, ledger.task(id)).expect("accepted")
        };
        let timeouts: Vec<_> = (0..LEN).map(schedule).collect();
        let guards: Vec<_> = (LEN..2 * LEN).map(|id| schedule(id).cancel_on_drop()).collect();
        let cancelled = thread::scope(|scope| {
            let cancel_all = || timeouts.iter().filter(|timeout| timeout.cancel()).count();
            let all = [(); 2].map(|()| scope.spawn(cancel_all));
            scope.spawn(move || drop(guards));
            let mine = timeouts.iter().rev().filter(|timeout| timeout.cancel()).count();
            mine + all.map(|cancels| cancels.join().expect("no panic")).iter().sum::<usize>()
        });
        assert!(timer.shutdown().expect("the first").is_empty());
        let ran = (0..LEN).filter(|&id| ledger.runs_of(id) > 0).count();
        assert_eq!(ran + cancelled, LEN);
        assert_counters_reconcile(&timer.stats());
        drop(timer);
        ledger.assert_closed();
        drop(timeouts);
        let_threads_end();
    }
}

#[test]
fn pauses_race_schedules_and_expiries() {
    for builder in with_workers() {
        let clock = PausableClock::new();
        let timer = builder.clock(clock.clone()).build().expect("the options make sense");
        let ledger = Ledger::new(12);
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..3 {
                    clock.pause();
                    thread::yield_now();
                    clock.resume();
                }
            });
            scope.spawn(|| {
                for id in 0..6 {
                    timer.schedule_detached(MS, ledger.task(id)).expect("accepted");
                }
            });
            for id in 6..12 {
                let timeout = timer.schedule(HOUR, ledger.task(id)).expect("accepted");
                assert!(timeout.reset(Duration::ZERO));
            }
        });
        eventually("all run", || ledger.ran() == 12);
        assert!(timer.shutdown().expect("the first").is_empty());
        drop(timer);
        ledger.assert_closed();
        let_threads_end();
    }
}

#[test]
fn tasks_schedule_cancel_and_drop_and_the_last_of_them_drops_the_engine() {
    for builder in with_workers() {
        let (timer, ledger) = (builder.build().expect("the options make sense"), Ledger::new(4));
        let (mine, tasks) = (timer.clone(), ledger.clone());
        let run = ledger.task(0);
        let task = move || {
            run();
            mine.schedule_detached(Duration::ZERO, tasks.task(1)).expect("the engine lives");
            let timeout = mine.schedule(HOUR, tasks.task(2)).expect("the engine lives");
            assert!(timeout.cancel());
            drop(mine.schedule(HOUR, tasks.task(3)).expect("the engine lives"));
        };
        timer.schedule_detached(MS, task).expect("accepted");
        drop(timer);
        eventually("all are dropped", || ledger.all_are_dropped());
        ledger.assert_closed();
        let_threads_end();
    }
}

#[test]
fn a_panic_takes_nothing_with_it() {
    let ((timer, mut driver, clock), ledger) = (driven_by(small()), Ledger::new(3));
    let (before, after) = (ledger.task(0), ledger.task(1));
    timer.schedule_detached(MS, before).expect("accepted");
    let panics = ledger.task(2);
    let task = move || {
        panics();
        std::panic::resume_unwind(Box::new("of the test's own"));
    };
    timer.schedule_detached(MS, task).expect("accepted");
    timer.schedule_detached(MS, after).expect("accepted");
    clock.advance(MS);
    assert_eq!((settle(&mut driver, &clock), timer.stats().panicked), (3, 1));
    ledger.assert_closed();
    // A closure that panics when it is dropped.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("of the test's own"));
        }
    }
    let bomb = Bomb;
    let timeout = timer.schedule(HOUR, move || drop(bomb)).expect("accepted");
    assert!(catch_unwind(AssertUnwindSafe(|| timeout.cancel())).is_err());
    drop((timer, driver));
    assert!(timeout.is_cancelled());
}

#[test]
fn advance_on_a_manual_clock_returns_when_due_timeouts_have_run() {
    let clock = tourbillon::ManualClock::new();
    let timer: Timer = small().executor(Inline).clock(clock.clone()).build().expect("the options make sense");
    let ledger = Ledger::new(few(6, 50));
    for id in 0..few(6, 50) {
        timer.schedule_detached(MS, ledger.task(id)).expect("accepted");
        if id % 2 == 0 {
            clock.advance(MS);
        } else {
            assert!(clock.advance_to_next(&timer));
        }
        assert_eq!(ledger.ran(), id + 1);
    }
    assert!(timer.shutdown().expect("the first").is_empty());
    ledger.assert_closed();
}
