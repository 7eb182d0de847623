//! The answers of cancel and reset, the state afterwards, and that every timeout has exactly one
//! outcome.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tourbillon::{Timeout, Timer};

use crate::common::{Drops, HOUR, MS, Runs, assert_counters_reconcile, driven, driven_by, settle};

#[test]
fn a_cancelled_timeout_never_runs_and_says_so() {
    let (timer, mut driver, clock) = driven();
    let runs = Runs::new(2);
    // One is cancelled while it is in the inbox, the other when it is in the wheel.
    let in_inbox = timer.schedule(5 * MS, runs.task(0)).expect("accepted");
    assert!(in_inbox.cancel());
    let in_wheel = timer.schedule(5 * MS, runs.task(1)).expect("accepted");
    driver.turn();
    assert!(in_wheel.cancel());
    for timeout in [&in_inbox, &in_wheel] {
        assert!(timeout.is_cancelled() && !timeout.is_pending() && !timeout.is_expired());
        assert!(!timeout.cancel(), "a second cancel changes nothing");
        assert!(!timeout.reset(MS) && !timeout.reset_at(clock.now()), "nor does a reset");
    }
    clock.advance(HOUR);
    assert_eq!(settle(&mut driver, &clock), 0);
    assert_eq!((runs.total(), timer.pending(), timer.stats().cancelled), (0, 0, 2));
}

#[test]
fn a_cancel_that_says_true_has_dropped_the_closure_on_the_callers_thread() {
    let (timer, mut driver, clock) = driven();
    for (round, turned) in [(1, false), (2, true)] {
        let drops = Drops::default();
        let small = drops.witness();
        let timeout = timer.schedule(HOUR, move || drop(small)).expect("accepted");
        let (large, ballast) = (drops.witness(), [round; 100]);
        let boxed = timer.schedule(HOUR, move || drop((large, ballast))).expect("accepted");
        let guarded = drops.witness();
        let guard = timer.schedule(HOUR, move || drop(guarded)).expect("accepted").cancel_on_drop();
        if turned {
            driver.turn();
        }
        let canceller = thread::spawn({
            let drops = drops.clone();
            move || {
                assert!(timeout.cancel());
                assert_eq!(drops.count(), 1, "before cancel returns");
                assert!(boxed.cancel());
                assert_eq!(drops.count(), 2, "before cancel returns");
                drop(guard);
                assert_eq!(drops.count(), 3, "before the guard is gone");
                thread::current().id()
            }
        });
        let canceller = canceller.join().expect("its assertions hold");
        assert!(drops.all_by(canceller));
        settle(&mut driver, &clock);
        assert_eq!(drops.count(), 3, "no closure is dropped twice");
    }
}

#[test]
fn a_cancel_after_the_timeout_fired_is_false_and_changes_nothing() {
    let (timer, mut driver, clock) = driven();
    let timeout = timer.schedule(MS, || ()).expect("accepted");
    let deadline = timeout.deadline();
    clock.advance(MS);
    assert_eq!(driver.turn(), 1);
    assert!(!timeout.cancel() && !timeout.reset(HOUR) && !timeout.reset_at(clock.now() + HOUR));
    assert!(timeout.is_expired() && !timeout.is_cancelled() && !timeout.is_pending());
    assert_eq!(timeout.deadline(), deadline, "a failed reset moves no deadline");
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.cancelled, stats.reset, stats.pending), (1, 0, 0, 0));
}

#[test]
fn a_timeout_that_is_cancelled_between_its_deadline_and_the_turn_counts_once() {
    let (timer, mut driver, clock) = driven();
    for linked in [false, true] {
        let runs = Runs::new(1);
        let timeout = timer.schedule(MS, runs.task(0)).expect("accepted");
        if linked {
            driver.turn();
        }
        clock.advance(MS);
        let before = timer.stats();
        assert!(timeout.cancel());
        assert_eq!(settle(&mut driver, &clock), 0);
        assert_eq!((timer.pending(), runs.total()), (0, 0));
        assert_eq!(timer.stats().cancelled, before.cancelled + 1);
        assert_counters_reconcile(&timer.stats());
    }
}

#[test]
fn timeouts_that_are_cancelled_in_the_very_tick_that_is_being_expired_count_once() {
    // More than a batch, so that the first tasks run while the last timeouts are still in the slot.
    const TIMEOUTS: usize = 2_000;
    let (timer, mut driver, clock) = driven();
    let runs = Runs::new(TIMEOUTS);
    let all: Arc<Mutex<Vec<Timeout>>> = Arc::default();
    let cancelled: Arc<Mutex<Vec<usize>>> = Arc::default();
    for id in 0..TIMEOUTS {
        let (theirs, cancelled, run) = (Arc::clone(&all), Arc::clone(&cancelled), runs.task(id));
        let task = move || {
            run();
            let theirs = std::mem::take(&mut *theirs.lock().expect("no panic"));
            for (id, timeout) in theirs.iter().enumerate() {
                if timeout.cancel() {
                    cancelled.lock().expect("no panic").push(id);
                }
            }
        };
        let timeout = timer.schedule(MS, task).expect("accepted");
        all.lock().expect("no panic").push(timeout);
    }
    clock.advance(MS);
    let fired = settle(&mut driver, &clock);
    let cancelled = cancelled.lock().expect("no panic");
    assert!(fired > 0 && !cancelled.is_empty(), "{fired} fired, {} cancelled", cancelled.len());
    assert_eq!(fired + cancelled.len(), TIMEOUTS);
    assert!(cancelled.iter().all(|&id| runs.of(id) == 0));
    assert_eq!(runs.total(), fired);
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.cancelled, stats.pending), (fired as u64, cancelled.len() as u64, 0));
    settle(&mut driver, &clock);
    assert_eq!(timer.stats().cancelled, stats.cancelled);
}

#[test]
fn a_timeout_reset_to_later_does_not_fire_before_its_new_deadline() {
    let (timer, mut driver, clock) = driven();
    let timeout = timer.schedule(10 * MS, || ()).expect("accepted");
    for _ in 0..100 {
        clock.advance(9 * MS);
        assert_eq!(settle(&mut driver, &clock), 0);
        assert!(timeout.reset(10 * MS) && timeout.is_pending());
        assert_eq!(timeout.deadline(), clock.now() + 10 * MS);
    }
    clock.advance(10 * MS - Duration::from_nanos(1));
    assert_eq!(settle(&mut driver, &clock), 0);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(settle(&mut driver, &clock), 1);
    assert_eq!(timer.stats().reset, 100);
}

#[test]
fn a_timeout_reset_to_a_time_that_has_passed_fires_at_once_however_long_a_tick_is() {
    let tick = 2_000 * MS;
    for turned in [false, true] {
        let (timer, mut driver, clock) = driven_by(Timer::builder().tick_duration(tick));
        let (start, runs) = (clock.now(), Runs::new(2));
        // Both are due with the first tick.
        let [timeout, other] = [0, 1].map(|id| timer.schedule(500 * MS, runs.task(id)).expect("accepted"));
        if turned {
            driver.turn();
        }
        clock.advance(50 * MS);
        assert!(timeout.reset_at(start + 10 * MS) && other.reset_at(start + 60 * MS));
        assert_eq!((settle(&mut driver, &clock), runs.of(0)), (1, 1));
        clock.advance(tick);
        assert_eq!((settle(&mut driver, &clock), runs.of(1)), (1, 1));
    }
}

#[test]
fn a_timeout_reset_to_earlier_fires_at_its_new_deadline_only() {
    for turned in [false, true] {
        let (timer, mut driver, clock) = driven_by(Timer::builder());
        let runs = Runs::new(1);
        let timeout = timer.schedule(HOUR, runs.task(0)).expect("accepted");
        if turned {
            driver.turn();
        }
        assert!(timeout.reset(700 * MS) && timeout.reset(5 * MS) && timeout.reset(6 * MS));
        clock.advance(5 * MS);
        assert_eq!(settle(&mut driver, &clock), 0);
        clock.advance(MS);
        assert_eq!(settle(&mut driver, &clock), 1);
        clock.advance(2 * HOUR);
        assert_eq!(settle(&mut driver, &clock), 0);
        runs.assert_each_ran_once();
    }
}

#[test]
fn a_timeout_may_be_reset_to_earlier_and_cancelled_before_the_engine_has_looked() {
    let (timer, mut driver, clock) = driven();
    let drops = Drops::default();
    for _ in 0..1000 {
        let witness = drops.witness();
        let timeout = timer.schedule(HOUR, move || drop(witness)).expect("accepted");
        driver.turn();
        assert!(timeout.reset(MS) && timeout.cancel());
        drop(timeout);
    }
    settle(&mut driver, &clock);
    let stats = timer.stats();
    assert_eq!((drops.count(), stats.pending, stats.cancelled), (1000, 0, 1000));
    assert!(stats.capacity < 1000, "entries are used again: {}", stats.capacity);
}

#[test]
fn a_task_is_no_longer_pending_when_it_runs() {
    let (timer, mut driver, clock) = driven();
    let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
    let (own, sees) = (timer.clone(), Arc::clone(&seen));
    timer.schedule_detached(MS, move || sees.lock().expect("no panic").push(own.pending())).expect("accepted");
    timer.schedule_detached(HOUR, || ()).expect("accepted");
    clock.advance(MS);
    assert_eq!(settle(&mut driver, &clock), 1);
    assert_eq!(*seen.lock().expect("no panic"), [1], "the other one");
}

#[test]
fn pending_lags_a_cancel_by_one_turn_at_most() {
    let (timer, mut driver, _clock) = driven();
    let timeouts = timer.schedule_many(HOUR, (0..100).map(|_| || ())).expect("accepted");
    assert_eq!(timer.pending(), 100);
    driver.turn();
    for (cancelled, timeout) in timeouts.iter().enumerate() {
        assert_eq!(timer.pending(), 100 - cancelled);
        assert!(timeout.cancel());
        driver.turn();
    }
    assert_eq!(timer.pending(), 0);
    assert_eq!(timer.stats().shards[0].linked, 0, "nothing cancelled is left in the wheel");
}

#[test]
fn dropping_a_handle_detaches_and_dropping_a_guard_cancels() {
    let (timer, mut driver, clock) = driven();
    let runs = Runs::new(4);
    drop(timer.schedule(MS, runs.task(0)).expect("accepted"));
    drop(timer.schedule(MS, runs.task(1)).expect("accepted").cancel_on_drop());
    let guard = timer.schedule(HOUR, runs.task(2)).expect("accepted").cancel_on_drop();
    assert!(guard.reset(MS) && guard.is_pending());
    drop(guard.into_timeout());
    timer.schedule_detached(MS, runs.task(3)).expect("accepted");
    clock.advance(HOUR);
    assert_eq!(settle(&mut driver, &clock), 3);
    assert_eq!((0..4).map(|id| runs.of(id)).collect::<Vec<_>>(), [1, 0, 1, 1]);
}

#[test]
fn many_tasks_are_scheduled_with_one_deadline_in_their_order() {
    let (timer, mut driver, clock) = driven();
    let runs = Runs::new(1000);
    let timeouts = timer.schedule_many(20 * MS, (0..1000).map(|id| runs.task(id))).expect("accepted");
    assert_eq!(timeouts.len(), 1000);
    assert!(timeouts.iter().all(|timeout| timeout.deadline() == clock.now() + 20 * MS));
    assert!(timeouts[17].cancel() && timeouts[500].cancel(), "each handle is that of its own task");
    clock.advance(20 * MS);
    assert_eq!(settle(&mut driver, &clock), 998);
    assert_eq!((0..1000).filter(|&id| runs.of(id) == 0).collect::<Vec<_>>(), [17, 500]);
    assert!(timer.schedule_many(MS, [(); 0].map(|()| || ())).expect("none is fine, too").is_empty());
}

#[test]
fn captures_of_any_size_and_alignment_run_come_back_and_are_dropped() {
    #[derive(Clone, Copy)]
    #[repr(align(16))]
    struct Aligned16(u8);
    #[derive(Clone, Copy)]
    #[repr(align(128))]
    struct Aligned128(u8);

    fn check<C: Copy + Send + 'static>(capture: C) {
        let (timer, mut driver, _clock) = driven_by(Timer::builder().max_pending_timeouts(1));
        let (runs, drops) = (Runs::new(1), Drops::default());
        let task = |run: bool| {
            let (witness, count) = (drops.witness(), run.then(|| runs.task(0)));
            move || {
                assert_eq!(&raw const capture as usize % align_of::<C>(), 0);
                count.into_iter().for_each(|count| count());
                drop(witness);
            }
        };
        timer.schedule_detached(Duration::ZERO, task(true)).expect("accepted");
        timer.schedule_detached(HOUR, task(true)).expect_err("full").into_inner()();
        assert_eq!((runs.total(), drops.count()), (1, 1));
        assert_eq!((driver.turn(), runs.total(), drops.count()), (1, 2, 2));
        assert!(timer.schedule(HOUR, task(false)).expect("accepted").cancel());
        assert_eq!(drops.count(), 3);
        assert!(timer.schedule(HOUR, task(false)).is_ok());
        timer.shutdown().expect("the first").into_iter().for_each(|left| left.run());
        assert_eq!(drops.count(), 4);
    }
    check(());
    check(7_u8);
    check([7_u64; 3]);
    check([7_u8; 25]);
    check([7_u64; 512]);
    check(Aligned16(7));
    check(Aligned128(7));
    assert_eq!((Aligned16(7).0, Aligned128(7).0), (7, 7));
}

#[test]
fn a_closure_may_use_the_engine_while_a_cancel_drops_it() {
    struct Reschedules(Timer, Option<Timeout>);
    impl Drop for Reschedules {
        fn drop(&mut self) {
            assert!(self.1.take().is_some_and(|other| other.cancel()));
            drop(self.0.schedule(MS, || ()).expect("accepted"));
        }
    }
    let (timer, mut driver, clock) = driven();
    for _ in 0..100 {
        let other = timer.schedule(HOUR, || ()).expect("accepted");
        let captured = Reschedules(timer.clone(), Some(other));
        assert!(timer.schedule(HOUR, move || drop(captured)).expect("accepted").cancel());
    }
    clock.advance(MS);
    assert_eq!((settle(&mut driver, &clock), timer.pending()), (100, 0));
}

#[test]
fn one_thread_may_use_many_engines_in_turn() {
    let mut engines: Vec<_> = (0..5).map(|_| driven()).collect();
    for round in 0..1_000_usize {
        for (timer, _, _) in &engines[..=round % 5] {
            assert!(timer.schedule(HOUR, || ()).expect("accepted").cancel());
            timer.schedule_detached(MS, || ()).expect("accepted");
        }
    }
    for (n, (timer, driver, clock)) in engines.iter_mut().enumerate() {
        let uses = 200 * (5 - n);
        clock.advance(MS);
        assert_eq!(settle(driver, clock), uses);
        assert_eq!(timer.stats().cancelled, uses as u64);
        assert_counters_reconcile(&timer.stats());
    }
}
