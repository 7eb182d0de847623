//! The drain of an engine that has periodic timeouts.

use std::thread;
use std::time::Duration;

use tourbillon::{Inline, Shutdown, ThreadPool, Timeout, Timer};

use crate::common::{Counter, HOUR, MS, Times, assert_counters_reconcile, block, eventually, in_time, on_workers};
use crate::shutdown_with::begin_to_drain;

#[test]
fn in_a_drain_no_run_of_a_periodic_timeout_begins_and_all_are_handed_back() {
    for (kind, builder) in [("inline", Timer::builder().executor(Inline)), ("a pool", Timer::builder())] {
        let (timer, clock) = on_workers(builder);
        let periodic_runs = Times::on(&clock);
        let noting = || {
            let runs = periodic_runs.clone();
            move || runs.note()
        };
        let fixed_rate = timer.schedule_at_fixed_rate(MS, MS, noting()).expect("accepted");
        let fixed_delay = timer.schedule_with_fixed_delay(2 * MS, MS, noting()).expect("accepted");
        let next = noting();
        let repeating = timer.schedule_repeating(HOUR, move || {
            next();
            None
        });
        let cancelled = timer.schedule_at_fixed_rate(MS, MS, noting()).expect("accepted");
        clock.advance(MS);
        assert_eq!(periodic_runs.count(), 2, "{kind}");
        // The drain waits for this one.
        timer.schedule_detached(8 * MS, || ()).expect("accepted");
        let draining = begin_to_drain(&timer, 10 * MS);
        clock.advance(2 * MS);
        // It has come due in the drain, and is still pending.
        assert!(cancelled.is_pending() && cancelled.cancel(), "{kind}");
        clock.advance(6 * MS);
        let left = in_time("a drain", || draining.join().expect("no panic")).expect("the first");
        assert_eq!((left.len(), periodic_runs.count()), (3, 2), "{kind}");
        let handles = [fixed_rate, fixed_delay, repeating.expect("accepted")];
        assert!(handles.iter().all(Timeout::is_cancelled), "{kind}");
        assert_counters_reconcile(&timer.stats());
    }
}

#[test]
fn a_drain_does_not_wait_for_the_next_run_of_a_periodic_timeout() {
    for limit in [1, 100_000] {
        let builder = Timer::builder().expiry_limit(limit).transfer_limit(limit);
        let (timer, clock) = on_workers(builder);
        let runs = Times::on(&clock);
        for number in 1..=40 {
            let runs = runs.clone();
            let delay = number * HOUR;
            let periodic = timer.schedule_at_fixed_rate(delay, delay, move || runs.note());
            assert!(periodic.expect("accepted").is_pending());
        }
        let never = timer.schedule(Duration::MAX, || ()).expect("accepted");
        let draining = begin_to_drain(&timer, 1_000 * HOUR);
        let left = in_time("a drain", || draining.join().expect("no panic")).expect("the first");
        assert_eq!((left.len(), runs.count(), never.is_cancelled()), (41, 0, true));
        assert_counters_reconcile(&timer.stats());
    }
}

#[test]
fn a_drain_waits_for_what_runs_once_beside_periodic_timeouts() {
    let (timer, clock) = on_workers(Timer::builder());
    let runs = Times::on(&clock);
    let once = runs.clone();
    let series = timer.schedule_at_fixed_rate(HOUR, HOUR, || panic!("it begins no run")).expect("accepted");
    let last = timer.schedule(2 * HOUR, move || once.note()).expect("accepted");
    let draining = begin_to_drain(&timer, 1_000 * HOUR);
    clock.advance(HOUR);
    assert!(last.is_pending() && series.is_pending() && !draining.is_finished());
    clock.advance(HOUR);
    let left = in_time("a drain", || draining.join().expect("no panic")).expect("the first");
    assert_eq!((left.len(), runs.count()), (1, 1));
}

#[test]
fn a_drain_does_not_wait_for_a_periodic_timeout_that_is_reset_to_earlier() {
    let (timer, clock) = on_workers(Timer::builder());
    let series = timer.schedule_at_fixed_rate(10 * HOUR, HOUR, || panic!("it begins no run")).expect("accepted");
    timer.schedule_detached(10 * MS, || ()).expect("accepted");
    clock.advance(MS);
    let draining = begin_to_drain(&timer, 1_000 * HOUR);
    clock.advance(MS);
    assert!(series.reset(5 * HOUR));
    clock.advance(MS);
    clock.advance(10 * MS);
    let left = in_time("a drain", || draining.join().expect("no panic")).expect("the first");
    assert_eq!((left.len(), series.is_cancelled()), (1, true));
}

#[test]
fn a_run_that_waits_for_a_thread_of_the_pool_does_not_begin_in_a_drain_and_is_handed_back() {
    let timer = Timer::builder().shards(1).executor(ThreadPool::new(1)).build().expect("the options make sense");
    let end = block(|task| timer.schedule_detached(Duration::ZERO, task).expect("accepted"));
    let runs = Counter::default();
    let periodic = timer.schedule_at_fixed_rate(Duration::ZERO, MS, runs.task()).expect("accepted");
    eventually("its first run waits", || timer.stats().shards[0].linked == 0 && timer.stats().transferred == 2);
    thread::sleep(20 * MS);
    let own = timer.clone();
    let drain = thread::spawn(move || own.shutdown_with(Shutdown::Drain(HOUR)).expect("the first").len());
    eventually("it accepts nothing", || timer.is_shutdown());
    drop(end);
    assert_eq!(in_time("the drain", || drain.join().expect("no panic")), 1);
    assert!(runs.get() == 0 && periodic.is_cancelled());
    assert_counters_reconcile(&timer.stats());
}
