use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tourbillon::{Driver, Interval, ManualClock, MissedTicks, Timer};

use super::Task;
use super::common::{HOUR, MS, driven, in_time};

fn poll(interval: &mut Interval) -> Poll<Instant> {
    interval.poll_tick(&mut Context::from_waker(&Task::new().waker))
}

/// Moves the clock by each of `steps`. Returns, for each, when its ticks were due, counted from
/// `start`.
fn ticks(
    interval: &mut Interval,
    driver: &mut Driver,
    clock: &ManualClock,
    start: Instant,
    steps: &[u32],
) -> Vec<Vec<u128>> {
    steps
        .iter()
        .map(|&step| {
            clock.advance(step * MS);
            let mut due = Vec::new();
            loop {
                driver.turn();
                match poll(interval) {
                    Poll::Ready(at) => due.push((at - start).as_millis()),
                    Poll::Pending => return due,
                }
            }
        })
        .collect()
}

#[test]
fn an_interval_ticks_at_once_and_then_by_its_schedule() {
    let (timer, mut driver, clock) = driven();
    let start = clock.now();
    let mut interval = timer.interval(10 * MS);
    assert_eq!((interval.period(), interval.missed_ticks()), (10 * MS, MissedTicks::Skip));
    let seen = ticks(&mut interval, &mut driver, &clock, start, &[0, 9, 1, 13, 7]);
    // The late tick is due when it was, and the next one follows the schedule.
    assert_eq!(seen, [vec![0], vec![], vec![10], vec![20], vec![30]]);
}

#[test]
fn missed_ticks_are_skipped_made_up_for_or_put_off() {
    for (missed, expected) in [
        (MissedTicks::Skip, [vec![10], vec![20], vec![60], vec![]]),
        (MissedTicks::Burst, [vec![10], vec![20, 30, 40, 50], vec![60], vec![]]),
        (MissedTicks::Delay, [vec![10], vec![20], vec![], vec![65]]),
    ] {
        let (timer, mut driver, clock) = driven();
        let start = clock.now();
        let mut interval = timer.interval_at(start + 10 * MS, 10 * MS);
        interval.set_missed_ticks(missed);
        assert_eq!(interval.missed_ticks(), missed);
        let seen = ticks(&mut interval, &mut driver, &clock, start, &[10, 45, 5, 5]);
        assert_eq!(seen, expected, "{missed:?}");
    }
}

#[test]
fn a_period_that_is_no_whole_number_of_ticks_does_not_drift() {
    let (timer, mut driver, clock) = driven();
    let start = clock.now();
    let mut interval = timer.interval(Duration::from_micros(2_500));
    let seen = ticks(&mut interval, &mut driver, &clock, start, &[0]);
    assert_eq!(seen, [[0]]);
    for k in 1..=40_u32 {
        clock.advance_to_next(&timer);
        driver.turn();
        let Poll::Ready(due) = poll(&mut interval) else { panic!("tick {k} did not come") };
        assert_eq!(due, start + Duration::from_micros(2_500) * k);
        assert!(clock.now() >= due && clock.now() < due + MS);
        assert!(poll(&mut interval).is_pending());
    }
}

#[test]
fn resets_move_the_next_tick_and_all_after_it() {
    let (timer, mut driver, clock) = driven();
    let start = clock.now();
    let mut interval = timer.interval(10 * MS);
    let mut seen = |interval: &mut Interval, steps: &[u32]| ticks(interval, &mut driver, &clock, start, steps);
    assert_eq!(seen(&mut interval, &[0, 5]), [vec![0], vec![]]);
    interval.reset(); // at 5
    assert_eq!(seen(&mut interval, &[9, 1, 10]), [vec![], vec![15], vec![25]]);
    interval.reset_immediately(); // at 25
    assert_eq!(seen(&mut interval, &[0, 10]), [vec![25], vec![35]]);
    interval.reset_after(3 * MS); // at 35
    assert_eq!(seen(&mut interval, &[3, 10]), [vec![38], vec![48]]);
    interval.reset_at(start + 100 * MS); // at 48
    assert_eq!(seen(&mut interval, &[10, 42, 10]), [vec![], vec![100], vec![110]]);
    interval.reset_at(start); // long ago
    assert_eq!(seen(&mut interval, &[0]).concat().len(), 1, "at once, and once");
}

#[test]
fn a_tick_that_is_given_up_comes_again() {
    let (timer, mut driver, clock) = driven();
    let start = clock.now();
    let mut interval = timer.interval_at(start + MS, MS);
    let task = Task::new();
    {
        let mut tick = pin!(interval.tick());
        assert!(tick.as_mut().poll(&mut Context::from_waker(&task.waker)).is_pending());
    }
    clock.advance(MS);
    driver.turn();
    assert_eq!(task.woken(), 1);
    assert_eq!(poll(&mut interval), Poll::Ready(start + MS));
}

#[test]
#[should_panic(expected = "the period of an interval is zero")]
fn an_interval_without_a_period_is_refused() {
    let (timer, _driver, _clock) = driven();
    drop(timer.interval(Duration::ZERO));
}

#[test]
fn the_longest_period_ticks_once() {
    let (timer, mut driver, clock) = driven();
    let start = clock.now();
    let mut interval = timer.interval(Duration::MAX);
    assert_eq!(ticks(&mut interval, &mut driver, &clock, start, &[0]), [[0]]);
    clock.advance(1_000_000 * HOUR);
    driver.turn();
    assert!(poll(&mut interval).is_pending());
}

#[test]
fn on_the_real_clock_ticks_come_and_none_is_early() {
    in_time("an interval", || {
        let timer = Timer::new().expect("defaults");
        pollster::block_on(async {
            let mut interval = timer.interval(2 * MS);
            let first = interval.tick().await;
            assert!(Instant::now() >= first);
            for _ in 0..1_000 {
                let now = timer.interval(MS).tick().await;
                assert!(Instant::now() >= now, "it says that it was due later than it came");
            }
            for _ in 0..20 {
                let due = interval.tick().await;
                assert!(Instant::now() >= due);
                assert_eq!((due - first).as_nanos() % 2_000_000, 0, "on the schedule");
            }
        });
    });
}
