use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Sleep, Timer};

use super::Task;
use super::common::{HOUR, MS, driven, driven_by, driven_with_pauses, in_time};

#[test]
fn a_sleep_can_be_moved_shared_shown_and_polled_where_it_lies() {
    fn check<T: Send + Sync + Unpin + std::fmt::Debug + 'static>() {}
    check::<Sleep>();
    let (timer, _driver, _clock) = driven();
    let shown = format!("{:?}", timer.sleep(MS));
    assert!(shown.starts_with("Sleep { deadline: ") && shown.ends_with("elapsed: false }"), "{shown}");
}

#[test]
fn a_sleep_is_ready_when_its_time_has_come_and_not_before() {
    let (timer, mut driver, clock) = driven();
    let task = Task::new();
    let mut sleep = timer.sleep(10 * MS);
    assert_eq!(sleep.deadline(), clock.now() + 10 * MS);
    assert!(task.poll(&mut sleep).is_pending());
    clock.advance(10 * MS - Duration::from_nanos(1));
    assert_eq!(driver.turn(), 0);
    assert!(task.poll(&mut sleep).is_pending() && !sleep.is_elapsed());
    clock.advance(Duration::from_nanos(1));
    assert_eq!((driver.turn(), task.woken()), (1, 1));
    assert!(sleep.is_elapsed());
    assert!(task.poll(&mut sleep).is_ready());
    assert!(task.is_forgotten());
}

#[test]
fn on_the_real_clock_a_sleep_ends_and_is_never_early() {
    in_time("sleeps", || {
        let timer = Timer::new().expect("defaults");
        for ms in [0, 1, 3, 20] {
            let begun = Instant::now();
            pollster::block_on(timer.sleep(ms * MS));
            assert!(begun.elapsed() >= ms * MS);
            let until = Instant::now() + ms * MS;
            pollster::block_on(timer.sleep_until(until));
            assert!(Instant::now() >= until);
        }
    });
}

#[test]
fn nothing_is_scheduled_before_a_sleep_is_polled_nor_after_it_is_dropped() {
    let (timer, _driver, _clock) = driven();
    let mut sleep = timer.sleep(HOUR);
    assert_eq!((timer.pending(), timer.stats().scheduled), (0, 0));
    let task = Task::new();
    assert!(task.poll(&mut sleep).is_pending());
    assert!(task.poll(&mut sleep).is_pending());
    assert_eq!((timer.pending(), timer.stats().scheduled), (1, 1));
    drop(sleep);
    let stats = timer.stats();
    assert_eq!((timer.pending(), stats.cancelled), (0, 1));
    assert!(task.is_forgotten());
}

#[test]
fn a_sleep_that_is_over_when_it_is_polled_never_touches_the_engine() {
    let (timer, _driver, clock) = driven();
    let task = Task::new();
    let mut over = timer.sleep(3 * MS);
    let mut past = timer.sleep_until(clock.now());
    clock.advance(3 * MS);
    assert!(task.poll(&mut over).is_ready() && task.poll(&mut past).is_ready());
    assert!(task.poll(&mut timer.sleep(Duration::ZERO)).is_ready());
    assert!(task.poll(&mut timer.sleep_until(clock.now() - 2 * MS)).is_ready());
    assert_eq!((timer.stats().scheduled, task.woken()), (0, 0));
}

#[test]
fn the_task_that_polled_last_is_the_one_that_is_woken() {
    let (timer, mut driver, clock) = driven();
    let (first, second) = (Task::new(), Task::new());
    let mut sleep = timer.sleep(MS);
    assert!(first.poll(&mut sleep).is_pending());
    assert!(second.poll(&mut sleep).is_pending());
    assert!(first.is_forgotten(), "the first waker is let go of at once");
    clock.advance(MS);
    driver.turn();
    assert_eq!((first.woken(), second.woken()), (0, 1));
    assert!(first.poll(&mut sleep).is_ready());
}

#[test]
fn a_reset_in_place_moves_the_sleep_later_and_earlier() {
    let (timer, mut driver, clock) = driven();
    let task = Task::new();
    let mut sleep = timer.sleep(10 * MS);
    assert!(task.poll(&mut sleep).is_pending());
    driver.turn();
    sleep.reset(20 * MS);
    assert_eq!(sleep.deadline(), clock.now() + 20 * MS);
    clock.advance(19 * MS);
    driver.turn();
    assert!(task.woken() == 0 && task.poll(&mut sleep).is_pending());
    sleep.reset_at(clock.now() + HOUR);
    sleep.reset(2 * MS);
    clock.advance(MS);
    driver.turn();
    assert!(task.poll(&mut sleep).is_pending());
    clock.advance(MS);
    driver.turn();
    assert_eq!(task.woken(), 1);
    assert!(task.poll(&mut sleep).is_ready());
    assert_eq!(timer.stats().scheduled, 1, "all in one entry");
}

#[test]
fn a_sleep_stays_ready_until_it_is_reset() {
    let (timer, mut driver, clock) = driven();
    let task = Task::new();
    let mut sleep = timer.sleep(MS);
    for _ in 0..3 {
        assert!(task.poll(&mut sleep).is_pending());
        clock.advance(MS);
        driver.turn();
        for _ in 0..3 {
            assert!(sleep.is_elapsed() && task.poll(&mut sleep).is_ready());
        }
        sleep.reset(MS);
        assert!(!sleep.is_elapsed());
    }
}

#[test]
fn a_reset_of_a_sleep_that_was_never_polled_moves_it() {
    let (timer, _driver, clock) = driven();
    let task = Task::new();
    let mut sleep = timer.sleep(HOUR);
    sleep.reset(Duration::ZERO);
    assert!(task.poll(&mut sleep).is_ready());
    let mut sleep = timer.sleep(Duration::ZERO);
    sleep.reset_at(clock.now() + HOUR);
    assert!(task.poll(&mut sleep).is_pending());
}

#[test]
fn a_sleep_that_has_rung_and_is_reset_before_it_is_polled_goes_on() {
    let (timer, mut driver, clock) = driven();
    let task = Task::new();
    let mut sleep = timer.sleep(MS);
    assert!(task.poll(&mut sleep).is_pending());
    clock.advance(MS);
    driver.turn();
    assert_eq!(task.woken(), 1);
    sleep.reset(MS);
    assert!(task.poll(&mut sleep).is_pending(), "the woken task finds it set anew");
    clock.advance(MS);
    driver.turn();
    assert_eq!(task.woken(), 1);
    assert!(task.poll(&mut sleep).is_ready());
}

#[test]
fn a_sleep_for_ever_never_ends() {
    let (timer, mut driver, clock) = driven();
    let task = Task::new();
    let mut sleep = timer.sleep(Duration::MAX);
    assert!(task.poll(&mut sleep).is_pending());
    clock.advance(1_000_000 * HOUR);
    assert_eq!(driver.turn(), 0);
    assert!(task.poll(&mut sleep).is_pending() && task.woken() == 0);
}

#[test]
fn time_stands_still_for_a_sleep_in_a_pause() {
    let (timer, mut driver, clock, hand) = driven_with_pauses();
    let task = Task::new();
    let mut sleep = timer.sleep(MS);
    clock.pause();
    hand.advance(HOUR);
    driver.turn();
    assert!(task.poll(&mut sleep).is_pending());
    clock.resume();
    hand.advance(MS);
    driver.turn();
    assert!(task.poll(&mut sleep).is_ready());
}

#[test]
fn a_sleep_that_finds_no_room_asks_again_and_is_neither_early_nor_lost() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().max_pending_timeouts(1));
    let task = Task::new();
    let room = timer.schedule(HOUR, || ()).expect("room");
    let (mut sleep, mut other) = (timer.sleep(5 * MS), timer.sleep(5 * MS));
    for _ in 0..3 {
        assert!(task.poll(&mut sleep).is_pending());
        assert_eq!(task.woken(), 1, "it asks to be polled again");
    }
    room.cancel();
    assert!(task.poll(&mut sleep).is_pending());
    assert_eq!((task.woken(), timer.pending()), (0, 1));
    assert!(task.poll(&mut other).is_pending());
    assert_eq!(task.woken(), 1);
    clock.advance(5 * MS);
    assert!(task.poll(&mut other).is_ready(), "its time has come, room or not");
    driver.turn();
    assert!(task.poll(&mut sleep).is_ready());
}

/// With workers, and tasks that hand their sleeps from thread to thread while they ring.
#[test]
fn no_wake_up_is_lost_when_sleeps_wander_between_threads() {
    const SLEEPS: usize = 200;
    let timer = Timer::builder().shards(2).build().expect("a good plan");
    let done = Arc::new(AtomicUsize::new(0));
    let wanderers: Vec<_> = (0..4)
        .map(|at| {
            let (timer, done) = (timer.clone(), Arc::clone(&done));
            thread::spawn(move || {
                for round in 0..SLEEPS {
                    let delay = Duration::from_micros(100 * ((at * 7 + round) % 23) as u64);
                    let mut sleep = timer.sleep(delay);
                    // A task that is given up polls it first. Then another task awaits it.
                    let _: Poll<()> = Task::new().poll(&mut sleep);
                    if round % 3 == 0 {
                        sleep.reset(delay / 2);
                    }
                    let done = Arc::clone(&done);
                    thread::scope(|scope| {
                        scope.spawn(move || {
                            pollster::block_on(&mut sleep);
                            done.fetch_add(1, Ordering::Relaxed);
                        });
                    });
                }
            })
        })
        .collect();
    in_time("all sleeps end", move || wanderers.into_iter().for_each(|thread| thread.join().expect("no panic")));
    assert_eq!(done.load(Ordering::Relaxed), 4 * SLEEPS);
    assert_eq!(timer.pending(), 0);
}

#[test]
fn a_sleep_that_is_moved_to_the_past_is_ready_at_once() {
    for tick in [MS, 2_000 * MS] {
        let (timer, mut driver, clock) = driven_by(Timer::builder().tick_duration(tick));
        clock.advance(5_000 * MS);
        let task = Task::new();
        let (mut at, mut after) = (timer.sleep(HOUR), timer.sleep(HOUR));
        let mut interval = timer.interval_at(timer.now() + HOUR, HOUR);
        assert!(task.poll(&mut at).is_pending() && task.poll(&mut after).is_pending());
        assert!(task.poll_with(|context| interval.poll_tick(context)).is_pending());
        // Also when the worker has it in its wheel.
        driver.turn();
        at.reset_at(timer.now() - MS);
        after.reset(Duration::ZERO);
        interval.reset_immediately();
        assert!(task.poll(&mut at).is_ready() && task.poll(&mut after).is_ready());
        assert!(task.poll_with(|context| interval.poll_tick(context)).is_ready());
        // A look at the clock does not make a sleep ready that was moved forward, but not that far.
        let mut sooner = timer.sleep(HOUR);
        assert!(task.poll(&mut sooner).is_pending());
        sooner.reset(tick);
        assert!(task.poll(&mut sooner).is_pending());
        clock.advance(2 * tick);
        assert!(task.poll(&mut sooner).is_pending(), "the driver wakes it");
        task.woken();
        driver.turn();
        assert!(task.woken() > 0 && task.poll(&mut sooner).is_ready());
    }
}

#[test]
fn a_reset_to_the_past_is_ready_at_once_though_the_old_deadline_has_passed_unnoticed() {
    let (timer, mut driver, clock) = driven();
    let task = Task::new();
    let (mut sleep, mut interval) = (timer.sleep(5 * MS), timer.interval(5 * MS));
    assert!(task.poll(&mut sleep).is_pending());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(interval.poll_tick(&mut context).is_ready() && interval.poll_tick(&mut context).is_pending());
    driver.turn();
    clock.advance(100 * MS);
    // Later than what nobody has turned to yet, and past all the same.
    sleep.reset_at(clock.now() - 50 * MS);
    assert!(task.poll(&mut sleep).is_ready());
    interval.reset_immediately();
    assert!(interval.poll_tick(&mut context).is_ready());
    sleep.reset(Duration::ZERO);
    assert!(task.poll(&mut sleep).is_ready());
}
