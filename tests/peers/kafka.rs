//! Kafka's TimerTest, TimerTaskListTest and SystemTimerReaperTest.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tourbillon::Timer;

use crate::common::{
    HOUR, MS, PATIENCE, Runs, assert_counters_reconcile, driven, driven_by, eventually, in_time, settle, threads_named,
};

/// Kafka, TimerTest.testAlreadyExpiredTask.
#[test]
fn deadlines_that_have_passed_run_in_the_next_turn_without_the_clock_moving() {
    let (timer, mut driver, clock) = driven();
    clock.advance(10 * MS + MS / 3);
    let runs = Runs::new(5);
    for (id, ago) in (1..=5).rev().enumerate() {
        drop(timer.schedule_at(clock.now() - ago * MS, runs.task(id)).expect("accepted"));
    }
    assert_eq!((driver.turn(), timer.pending()), (5, 0));
    runs.assert_each_ran_once();
}

/// Kafka, TimerTest.testTaskExpiration: a tick of 1 ms and wheels of 3 (here 4), so that there are
/// many levels.
#[test]
fn of_five_hundred_deadlines_and_their_twins_each_runs_in_its_own_millisecond() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().ticks_per_wheel(3).levels(6));
    let start = clock.now();
    let ran: Arc<Mutex<Vec<(u64, Duration)>>> = Arc::default();
    // Every delay once, every third twice, and not in their order.
    let ids = (0..=500_u64).chain((0..=500).step_by(3)).map(|n| n * 211 % 501);
    let mut expected: Vec<_> = ids.clone().map(|delay| (delay, Duration::from_millis(delay))).collect();
    for delay in ids {
        let (ran, clock) = (Arc::clone(&ran), clock.clone());
        let task = move || ran.lock().expect("no panic").push((delay, clock.now() - start));
        timer.schedule_detached(Duration::from_millis(delay), task).expect("accepted");
    }
    // Never by a tick: only to the time at which the engine itself asks to be turned.
    while let Some(at) = driver.next_wakeup() {
        clock.advance(at.saturating_duration_since(clock.now()));
        driver.turn();
    }
    let mut ran = std::mem::take(&mut *ran.lock().expect("no panic"));
    assert!(ran.is_sorted_by_key(|&(_, at)| at));
    ran.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ran, expected);
}

/// Kafka, TimerTaskListTest.testAll: three lists, one counter.
#[test]
fn pending_does_not_change_when_timeouts_move_between_slots_and_levels() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().shards(3).ticks_per_wheel(4).levels(4));
    let timeouts = timer.schedule_many(3 * MS, (0..30).map(|_| || ())).expect("accepted");
    assert_eq!(timer.pending(), 30);
    for delay in [60, 2, 17, 200, 17, 5] {
        for (n, timeout) in timeouts.iter().enumerate() {
            assert!(timeout.reset((delay + u32::try_from(n).expect("few") % 3) * MS));
            assert_eq!(timer.pending(), 30);
        }
        clock.advance(MS);
        assert_eq!((settle(&mut driver, &clock), timer.pending()), (0, 30));
    }
    for (n, timeout) in timeouts.iter().take(10).enumerate() {
        assert!(timeout.cancel() && !timeout.cancel());
        assert_eq!(timer.pending(), 29 - n);
    }
    clock.advance(HOUR);
    assert_eq!((settle(&mut driver, &clock), timer.pending()), (20, 0));
    assert_counters_reconcile(&timer.stats());
}

/// Kafka, TimerTaskListTest.testGetDelay.
#[test]
fn the_rest_of_a_delay_is_its_deadline_less_the_time_and_at_most_a_tick_more() {
    let (timer, _driver, clock) = driven();
    for phase in [Duration::ZERO, MS / 3, MS / 2] {
        clock.advance(phase);
        let timeout = timer.schedule(100 * MS, || ()).expect("accepted");
        let left = || timeout.deadline().saturating_duration_since(clock.now());
        let whole = left();
        assert!(whole >= 100 * MS && whole < 101 * MS, "{whole:?}");
        clock.advance(40 * MS);
        assert_eq!(left(), whole - 40 * MS);
        assert!(timeout.reset(30 * MS) && left() >= 30 * MS && left() < 31 * MS, "{:?}", left());
        clock.advance(50 * MS);
        assert_eq!(left(), Duration::ZERO, "never below zero");
        assert!(timeout.cancel());
    }
}

/// Kafka, SystemTimerReaperTest.testReaper.
#[test]
fn timeouts_fire_without_a_caller_that_turns_the_clock_and_each_not_before_its_time() {
    let timer = Timer::new().expect("the defaults make sense");
    let (send, receive) = channel();
    let start = Instant::now();
    for delay in [MS, 20 * MS, 45 * MS] {
        let send = send.clone();
        timer
            .schedule_detached(delay, move || send.send((delay, start.elapsed())).expect("the test waits"))
            .expect("accepted");
    }
    for _ in 0..3 {
        let (delay, took) = receive.recv_timeout(PATIENCE).expect("it fires");
        assert!(took >= delay, "{delay:?} after {took:?}");
    }
    eventually("nothing is left", || timer.pending() == 0);
}

/// Kafka, SystemTimerReaperTest.testReaperClose: Kafka needs a task without delay to wake the
/// thread.
#[test]
fn a_shutdown_wakes_a_worker_that_would_sleep_for_an_hour_and_its_thread_is_gone() {
    let timer = Timer::builder().thread_name("kafkac").shards(1).build().expect("the options make sense");
    let far = timer.schedule(HOUR, || ()).expect("accepted");
    eventually("the worker has taken it, and sleeps", || {
        let stats = timer.stats();
        stats.inbox_depth == 0 && stats.shards[0].linked == 1
    });
    let clone = timer.clone();
    let left = in_time("shutdown of a sleeping worker", move || clone.shutdown().expect("the first"));
    assert!(left.len() == 1 && far.is_cancelled());
    eventually("its thread ends", || threads_named("kafkac").is_empty());
}
