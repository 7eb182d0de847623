//! Engines that end: with work left, while other threads use them, and before their handles.

use std::cell::RefCell;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use tourbillon::{Inline, Shutdown, ThreadPool, Timeout, Timer};

use crate::common::{HOUR, Keeps, MS, assert_counters_reconcile, driven_by, eventually};
use crate::{Ledger, few, let_threads_end, small, with_workers};

const MODES: [Shutdown; 3] = [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(Duration::from_millis(5))];

/// Some of each kind: due, soon due, far, never; linked or still in the inbox; held, detached,
/// cancelled.
fn fill(timer: &Timer, ledger: &Ledger) -> Vec<Timeout> {
    let schedule = |delay, id| timer.schedule(delay, ledger.task(id)).expect("accepted");
    let held = vec![schedule(HOUR, 0), schedule(Duration::MAX, 1), schedule(2 * MS, 2), schedule(HOUR, 3)];
    assert!(held[3].cancel());
    timer.schedule_detached(HOUR, ledger.large_task(4)).expect("accepted");
    timer.schedule_detached(Duration::ZERO, ledger.task(5)).expect("accepted");
    drop(schedule(100 * MS, 6));
    held
}

#[test]
fn every_shutdown_accounts_for_all_that_was_left() {
    for (mode, builder) in MODES.into_iter().flat_map(|mode| with_workers().map(move |builder| (mode, builder))) {
        let (timer, ledger) = (builder.build().expect("the options make sense"), Ledger::new(7));
        let held = fill(&timer, &ledger);
        let left = timer.shutdown_with(mode).expect("the first");
        assert_eq!(ledger.ran() + left.len(), 6, "{mode:?}");
        assert!(mode != Shutdown::FireNow || left.is_empty());
        assert!(!held.iter().any(Timeout::is_pending));
        assert_counters_reconcile(&timer.stats());
        left.into_iter().step_by(2).for_each(|left| left.run());
        drop(timer);
        ledger.assert_closed();
        assert!(!held.iter().any(|timeout| timeout.reset(MS) || timeout.cancel()));
        let_threads_end();
    }
}

#[test]
fn a_driven_engine_accounts_for_all_that_was_left() {
    for (mode, turns) in MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        let ((timer, mut driver, _clock), ledger) = (driven_by(small()), Ledger::new(7));
        let held = fill(&timer, &ledger);
        if turns {
            assert_eq!(driver.turn(), 1);
        }
        let left = timer.shutdown_with(mode).expect("the first");
        assert_eq!(ledger.ran() + left.len(), 6, "{mode:?}");
        drop((left, driver, timer));
        ledger.assert_closed();
        assert_eq!(format!("{held:?}").matches("pending").count(), 0);
    }
}

/// An accepted timeout is run, or cancelled, or returned, whatever comes in between.
#[test]
fn schedules_and_cancels_and_resets_race_a_shutdown() {
    const EACH: usize = few(8, 500);
    for (mode, builder) in MODES.into_iter().flat_map(|mode| with_workers().map(move |builder| (mode, builder))) {
        let (timer, ledger) = (builder.build().expect("the options make sense"), Ledger::new(2 * EACH));
        let produce = |producer: usize| {
            let (mut accepted, mut cancelled) = (0, 0);
            for id in producer * EACH..(producer + 1) * EACH {
                let delay = [Duration::ZERO, MS, HOUR][id % 3];
                let Ok(timeout) = timer.schedule(delay, ledger.task(id)) else { continue };
                accepted += 1;
                match id % 4 {
                    0 => cancelled += usize::from(timeout.cancel()),
                    1 => _ = timeout.reset(Duration::ZERO),
                    2 => _ = timeout.reset(HOUR),
                    _ => {}
                }
            }
            (accepted, cancelled)
        };
        let (accepted, cancelled, left) = thread::scope(|scope| {
            let producers = [0, 1].map(|producer| scope.spawn(move || produce(producer)));
            (0..5).for_each(|_| thread::yield_now());
            let left = timer.shutdown_with(mode).expect("the first").len();
            let ends = producers.map(|producer| producer.join().expect("no panic"));
            (ends[0].0 + ends[1].0, ends[0].1 + ends[1].1, left)
        });
        assert_eq!(ledger.ran() + cancelled + left, accepted, "{mode:?}");
        assert_counters_reconcile(&timer.stats());
        drop(timer);
        ledger.assert_closed();
        let_threads_end();
    }
}

#[test]
fn of_two_shutdowns_at_once_one_gets_what_is_left() {
    let (timer, ledger) = (small().executor(ThreadPool::new(1)).build().expect("sensible"), Ledger::new(7));
    let held = fill(&timer, &ledger);
    let left = thread::scope(|scope| {
        let shutdowns = [(); 2].map(|()| scope.spawn(|| timer.shutdown()));
        shutdowns.map(|shutdown| shutdown.join().expect("no panic"))
    });
    assert_eq!(left.iter().filter(|left| left.is_ok()).count(), 1);
    drop((left, held, timer));
    ledger.assert_closed();
    let_threads_end();
}

#[test]
fn the_last_timer_goes_while_others_cancel_and_drop_their_handles() {
    for builder in (0..few(1, 20)).flat_map(|_| with_workers()) {
        let (timer, ledger) = (builder.build().expect("the options make sense"), Ledger::new(14));
        let schedule =
            |id: usize| timer.schedule([HOUR, Duration::ZERO, MS][id % 3], ledger.task(id)).expect("accepted");
        let (mine, theirs): (Vec<_>, Vec<_>) = (0..7).map(|n| (schedule(n), schedule(n + 7))).unzip();
        thread::scope(|scope| {
            scope.spawn(move || {
                for (n, timeout) in theirs.into_iter().enumerate() {
                    let _ = (n % 2 == 0 && timeout.cancel()) || timeout.reset(HOUR);
                }
            });
            scope.spawn(move || drop(timer));
            drop(mine);
        });
        eventually("the engine's threads drop what is left", || ledger.all_are_dropped());
        ledger.assert_closed();
        let_threads_end();
    }
}

#[test]
fn handles_outlive_their_engine_and_the_last_of_them_frees_it() {
    for turns in [0, 1] {
        let ((timer, mut driver, clock), ledger) = (driven_by(small().shards(2)), Ledger::new(6));
        let schedule = |id: usize| timer.schedule([MS, HOUR][id % 2], ledger.task(id)).expect("accepted");
        let (first, second): (Vec<_>, Vec<_>) = (0..3).map(|n| (schedule(n), schedule(n + 3))).unzip();
        clock.advance(MS);
        (0..turns).for_each(|_| _ = driver.turn());
        thread::scope(|scope| {
            scope.spawn(move || drop(driver));
            scope.spawn(move || {
                assert!(first.iter().all(|timeout| timeout.deadline() > clock.now() - HOUR));
                drop(first);
            });
            scope.spawn(move || {
                drop(timer);
                // True if the thread that drops the driver has not come to it yet.
                let _ = second[1].cancel();
                drop(second);
            });
        });
        ledger.assert_closed();
    }
}

#[test]
fn a_batch_and_a_handle_outlive_their_engine() {
    let (keeps, ledger) = (Keeps::default(), Ledger::new(2));
    let timer = small().executor(keeps.clone()).build().expect("the options make sense");
    let timeouts = timer.schedule_many(Duration::ZERO, (0..2).map(|id| ledger.task(id))).expect("accepted");
    eventually("they come", || keeps.batches() > 0);
    drop(timer);
    let_threads_end();
    thread::scope(|scope| {
        scope.spawn(|| keeps.run());
        drop(timeouts);
    });
    ledger.assert_closed();
    assert_eq!(ledger.ran(), 2);
}

thread_local! {
    /// Dropped after the engine's own thread-locals, if it was set up before them.
    static LATE: RefCell<Vec<Timeout>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn handles_are_dropped_by_a_thread_in_teardown() {
    for (ours_first, engine_first) in [(true, true), (true, false), (false, true), (false, false)] {
        let (timer, ledger) = (small().executor(Inline).build().expect("the options make sense"), Ledger::new(4));
        let (mine, scheduled) = (timer.clone(), Barrier::new(2));
        thread::scope(|scope| {
            let (mine, ledger, scheduled) = (mine, &ledger, &scheduled);
            scope.spawn(move || {
                if ours_first {
                    LATE.with_borrow_mut(Vec::clear);
                }
                let late = (0..4).map(|id| mine.schedule([Duration::ZERO, HOUR][id % 2], ledger.task(id)));
                let late: Vec<_> = late.map(|timeout| timeout.expect("accepted")).collect();
                assert!(late[3].cancel());
                LATE.with_borrow_mut(|held| *held = late);
                scheduled.wait();
            });
            scheduled.wait();
            if engine_first {
                drop(timer);
            } else {
                // Not by scope: a thread's scope ends before its thread-locals do.
                drop(timer.schedule(MS, || ()).expect("accepted"));
                thread::sleep(MS);
                drop(timer.shutdown());
            }
        });
        let_threads_end();
        eventually("all are dropped", || ledger.all_are_dropped());
        ledger.assert_closed();
    }
}

#[test]
fn a_thread_that_is_born_inherits_the_free_entries_of_one_that_died() {
    let timer = small().executor(Inline).build().expect("the options make sense");
    for _ in 0..few(4, 50) {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let timeouts: Vec<_> = (0..5).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
                    assert!(timeouts.iter().all(Timeout::cancel));
                });
            }
        });
    }
    assert!(timer.shutdown().expect("the first").is_empty());
    assert_counters_reconcile(&timer.stats());
}
