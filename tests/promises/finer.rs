//! Deadlines are finer than ticks, on the real clock. `time` has the tests on a manual clock.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tourbillon::{Driver, Inline, Timer};

use crate::common::{HOUR, MS, PATIENCE};

/// So long that no machine is busy for as long.
const TICK: Duration = Duration::from_secs(10);

fn timer() -> Timer {
    timer_of(TICK)
}

fn timer_of(tick: Duration) -> Timer {
    Timer::builder().tick_duration(tick).executor(Inline).build().expect("the options make sense")
}

fn driven(tick: Duration) -> (Timer, Driver) {
    Timer::builder().tick_duration(tick).build_driven().expect("the options make sense")
}

#[test]
fn a_timeout_that_is_alone_in_its_tick_does_not_wait_for_the_end_of_the_tick() {
    let (timer, (ran, has_run)) = (timer(), channel());
    let begun = Instant::now();
    for _ in 0..3 {
        let ran = ran.clone();
        timer.schedule_detached(20 * MS, move || ran.send(Instant::now()).expect("the test waits")).expect("accepted");
        let at = has_run.recv_timeout(PATIENCE).expect("it runs");
        assert!(at - begun >= 20 * MS && at - begun < TICK / 2, "after {:?}", at - begun);
    }
}

#[test]
fn a_series_that_is_alone_in_its_tick_does_not_wait_for_the_end_of_the_tick() {
    let (timer, (ran, has_run)) = (timer(), channel());
    let runs = ran.clone();
    let rate = timer.schedule_at_fixed_rate(20 * MS, 20 * MS, move || _ = runs.send(())).expect("accepted");
    (0..3).for_each(|_| assert_eq!(has_run.recv_timeout(TICK / 2), Ok(())));
    assert!(rate.cancel());
    let answers = move || {
        _ = ran.send(());
        Some(20 * MS)
    };
    let repeating = timer.schedule_repeating(20 * MS, answers).expect("accepted");
    (0..6).for_each(|_| assert_eq!(has_run.recv_timeout(TICK / 2), Ok(())));
    assert!(repeating.cancel());
}

#[test]
fn a_timeout_that_is_due_already_does_not_wait_for_others_of_its_tick() {
    let (timer, (ran, has_run)) = (timer(), channel());
    let task = |name: &'static str| {
        let ran = ran.clone();
        move || ran.send(name).expect("the test waits")
    };
    let last = timer.schedule(TICK - 100 * MS, task("the last of the tick")).expect("accepted");
    // The worker sleeps until that one is due.
    std::thread::sleep(20 * MS);
    drop(timer.schedule_at(Instant::now() - MS, task("scheduled for the past")).expect("accepted"));
    assert_eq!(has_run.recv_timeout(TICK / 2), Ok("scheduled for the past"));
    let reset = timer.schedule(TICK - 200 * MS, task("reset to the past")).expect("accepted");
    std::thread::sleep(20 * MS);
    assert!(reset.reset_at(Instant::now() - MS));
    assert_eq!(has_run.recv_timeout(TICK / 2), Ok("reset to the past"));
    assert!(last.is_pending());
}

#[test]
fn timeouts_of_one_tick_share_a_wake_up() {
    // Each is in another part of the tick, or of two.
    let (timer, (ran, has_run)) = (timer_of(1_000 * MS), channel());
    for n in 1..=10 {
        let ran = ran.clone();
        timer.schedule_detached(n * 80 * MS, move || ran.send(n).expect("the test waits")).expect("accepted");
    }
    let order: Vec<_> = (0..10).map(|_| has_run.recv_timeout(PATIENCE).expect("it runs")).collect();
    assert!(order.iter().copied().eq(1..=10), "{order:?}");
    let wakeups = timer.stats().wakeups;
    assert!(wakeups <= 5, "{wakeups} wake-ups for ten timeouts 80 ms apart");
}

#[test]
fn a_driven_loop_may_sleep_until_the_last_timeout_of_a_tick_is_due() {
    let (timer, driver) = driven(HOUR);
    let minutes = |n| timer.schedule(n * HOUR / 60, || ()).expect("accepted");
    let (_first, last, _of_another_tick) = (minutes(10), minutes(30), minutes(90));
    assert_eq!(driver.next_wakeup(), Some(last.deadline()));
    assert!(last.cancel());
    assert!(driver.next_wakeup() < Some(Instant::now() + HOUR / 2), "nobody waits for what was cancelled");
}

#[test]
fn a_timeout_that_is_due_already_wakes_a_driven_loop_before_the_others_of_its_tick() {
    let (timer, mut driver) = driven(HOUR);
    let (called, calls) = channel();
    driver.on_earlier(move || called.send(()).expect("the test waits"));
    let _last = timer.schedule(HOUR / 2, || ()).expect("accepted");
    let second = timer.schedule(HOUR / 3, || ()).expect("accepted");
    assert!(driver.next_wakeup() > Some(Instant::now() + HOUR / 4));
    timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
    assert_eq!(calls.try_recv(), Ok(()));
    assert!(driver.next_wakeup() <= Some(Instant::now()));
    assert_eq!(driver.turn(), 1);
    assert!(driver.next_wakeup() > Some(Instant::now() + HOUR / 4));
    assert!(second.reset_at(Instant::now() - MS));
    assert_eq!(calls.try_recv(), Ok(()));
    assert!(driver.next_wakeup() < Some(Instant::now() + HOUR / 8), "a time that has passed is rounded up");
}

#[test]
fn a_loop_that_was_busy_comes_back_at_once_for_what_is_due() {
    let (timer, driver) = driven(1000 * MS);
    let _last = timer.schedule(900 * MS, || ()).expect("accepted");
    let due = timer.schedule(MS, || ()).expect("accepted");
    std::thread::sleep(due.remaining() + MS);
    assert!(driver.next_wakeup() <= Some(Instant::now()));
}
