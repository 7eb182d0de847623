//! Very many timeouts at once: at one deadline, and in one inbox.

use std::sync::mpsc::channel;
use std::time::Duration;

use tourbillon::{Builder, Inline, ThreadPool, Timer};

use crate::common::{HOUR, MS, Runs, assert_counters_reconcile, driven, driven_by, eventually, settle};

const BURST: usize = 100_000;

/// Schedules a burst at one deadline in the near future, and waits until each timeout has run.
#[track_caller]
fn assert_a_burst_runs_once(builder: Builder) {
    let timer = builder.build().expect("the options make sense");
    let runs = Runs::new(BURST);
    let deadline = std::time::Instant::now() + 50 * MS;
    for id in 0..BURST {
        drop(timer.schedule_at(deadline, runs.task(id)).expect("accepted"));
    }
    eventually("all run", || runs.total() == BURST);
    runs.assert_each_ran_once();
    assert_eq!((timer.pending(), timer.stats().fired), (0, BURST as u64));
}

#[test]
fn a_hundred_thousand_timeouts_at_one_deadline_all_run_once_on_a_pool() {
    assert_a_burst_runs_once(Timer::builder().executor(ThreadPool::new(3)));
}

#[test]
fn a_hundred_thousand_timeouts_at_one_deadline_all_run_once_inline() {
    assert_a_burst_runs_once(Timer::builder().executor(Inline));
}

#[test]
fn a_hundred_thousand_timeouts_at_one_deadline_all_run_once_in_one_turn_of_a_driver() {
    let (timer, mut driver, clock) = driven();
    let runs = Runs::new(BURST);
    for id in 0..BURST {
        timer.schedule_detached(HOUR, runs.task(id)).expect("accepted");
    }
    driver.turn();
    clock.advance(HOUR - MS);
    assert_eq!(settle(&mut driver, &clock), 0);
    clock.advance(MS);
    assert_eq!(driver.turn(), BURST);
    runs.assert_each_ran_once();
}

#[test]
fn a_full_inbox_drains_over_several_turns_of_a_driver_without_loss() {
    const TIMEOUTS: usize = 350_000;
    let (timer, mut driver, clock) = driven();
    let runs = Runs::new(TIMEOUTS);
    for id in 0..TIMEOUTS {
        timer.schedule_detached(HOUR + Duration::from_millis(id as u64 % 7), runs.task(id)).expect("accepted");
    }
    for turn in 1..=2 {
        assert_eq!(driver.turn(), 0);
        let stats = timer.stats();
        assert_eq!(stats.shards[0].transferred, turn * 100_000, "the default limit of a turn");
        assert_eq!(stats.turns_over_budget, turn, "what was left over is counted");
    }
    assert!(driver.next_wakeup().is_some_and(|at| at <= clock.now()), "and goes on at once");
    assert_eq!(settle(&mut driver, &clock), 0);
    clock.advance(HOUR + 10 * MS);
    assert_eq!(settle(&mut driver, &clock), TIMEOUTS);
    assert_eq!((timer.stats().shards[0].transferred, timer.pending()), (TIMEOUTS as u64, 0));
    runs.assert_each_ran_once();
}

#[test]
fn a_full_inbox_drains_over_several_turns_of_a_worker_without_loss() {
    const TIMEOUTS: usize = 300_000;
    let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
    let runs = Runs::new(TIMEOUTS);
    // The worker is held up in a task until the inbox is full.
    let ((held, is_held), (release, released)) = (channel(), channel::<()>());
    let hold = move || {
        held.send(()).expect("the test waits");
        let _ = released.recv();
    };
    timer.schedule_detached(Duration::ZERO, hold).expect("accepted");
    is_held.recv().expect("it runs");
    let turns_over_budget = timer.stats().turns_over_budget;
    for id in 0..TIMEOUTS {
        timer.schedule_detached(Duration::from_micros(id as u64 % 100), runs.task(id)).expect("accepted");
    }
    drop(release);
    eventually("all run", || runs.total() == TIMEOUTS);
    runs.assert_each_ran_once();
    assert!(timer.stats().turns_over_budget >= turns_over_budget + 2);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn an_expiry_limit_spreads_a_burst_over_turns_and_loses_none() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().expiry_limit(100));
    let runs = Runs::new(1050);
    for id in 0..1050 {
        timer.schedule_detached(5 * MS, runs.task(id)).expect("accepted");
    }
    clock.advance(5 * MS);
    for turn in 1..=10 {
        assert_eq!(driver.turn(), 100);
        assert_eq!(timer.stats().turns_over_budget, turn);
        assert!(driver.next_wakeup().is_some_and(|at| at <= clock.now()));
    }
    assert_eq!((driver.turn(), driver.turn()), (50, 0));
    assert_eq!(timer.stats().turns_over_budget, 10, "the last two left nothing over");
    assert_eq!(driver.next_wakeup(), None);
    runs.assert_each_ran_once();
}

#[test]
fn cancelled_timeouts_are_collected_within_the_limit_and_none_is_left() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().expiry_limit(100).transfer_limit(1000));
    let timeouts = timer.schedule_many(HOUR, (0..1000).map(|_| || ())).expect("accepted");
    settle(&mut driver, &clock);
    assert_eq!(timer.stats().shards[0].linked, 1000);
    assert!(timeouts.iter().all(|timeout| timeout.cancel()));
    driver.turn();
    assert_eq!(timer.stats().shards[0].linked, 900);
    settle(&mut driver, &clock);
    assert_eq!(timer.stats().shards[0].linked, 0);
    assert_eq!(driver.next_wakeup(), None);
}

#[test]
fn a_shutdown_takes_its_time_by_the_timeouts_and_not_by_the_slots() {
    const TIMEOUTS: usize = 10_000;
    let (timer, mut driver, _clock) = driven_by(Timer::builder().levels(1).ticks_per_wheel(1 << 18));
    for n in 0..TIMEOUTS {
        timer.schedule_detached(250_000 * MS + Duration::from_millis(n as u64 % 100), || ()).expect("accepted");
    }
    driver.turn();
    let before = std::time::Instant::now();
    assert_eq!(timer.shutdown().expect("the first").len(), TIMEOUTS);
    // It would take 2.5 * 10^9 steps through a slot if a cancel searched for its timeout.
    assert!(before.elapsed() < Duration::from_secs(1), "took {:?}", before.elapsed());
}

#[test]
fn cancelled_timeouts_that_a_turn_leaves_over_are_counted_as_over_its_budget() {
    let (timer, mut driver, _clock) = driven_by(Timer::builder().expiry_limit(10));
    let timeouts: Vec<_> = (0..25).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
    driver.turn();
    timeouts.iter().for_each(|timeout| assert!(timeout.cancel()));
    let over_budget = [1, 2, 3, 4].map(|_| {
        driver.turn();
        timer.stats().turns_over_budget
    });
    assert_eq!(over_budget, [1, 2, 2, 2], "10, 10 and 5 are collected");
}
