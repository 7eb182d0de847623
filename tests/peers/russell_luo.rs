//! The three tests of RussellLuo/timingwheel.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tourbillon::Timer;

use crate::common::{MS, driven_by, on_workers, settle};

/// RussellLuo, TestTimingWheel_AfterFunc: within 5 ms in RussellLuo's, and exact here.
#[test]
fn each_of_seven_delays_runs_on_its_own_tick() {
    let (timer, clock) = on_workers(Timer::builder().ticks_per_wheel(20));
    let start = clock.now();
    let ran: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let delays = [1, 5, 10, 50, 100, 500, 1_000].map(Duration::from_millis);
    for delay in delays {
        let (ran, clock) = (Arc::clone(&ran), clock.clone());
        let task = move || ran.lock().expect("no panic").push(clock.now() - start);
        timer.schedule_detached(delay, task).expect("accepted");
    }
    for _ in 0..2_000 {
        clock.advance(MS / 2);
    }
    assert_eq!(*ran.lock().expect("no panic"), delays);
}

/// RussellLuo, TestTimingWheel_ScheduleFunc: seven ticks, each of which says when the next is.
#[test]
fn a_task_that_says_when_to_run_next_runs_then_and_not_again_when_it_says_never() {
    let (timer, clock) = on_workers(Timer::builder().ticks_per_wheel(20));
    let (start, ran) = (clock.now(), Arc::<Mutex<Vec<Duration>>>::default());
    let mut gaps = [1, 5, 10, 50, 100, 500].map(Duration::from_millis).into_iter();
    let (seen, sees) = (Arc::clone(&ran), clock.clone());
    let task = move || {
        seen.lock().expect("no panic").push(sees.now() - start);
        gaps.next()
    };
    let periodic = timer.schedule_repeating(MS, task).expect("accepted");
    for half_ms in 1..=2_000 {
        assert_eq!(periodic.is_pending(), half_ms <= 2 * 667, "{half_ms}");
        clock.advance(MS / 2);
    }
    let times = [1, 2, 7, 17, 67, 167, 667].map(Duration::from_millis);
    assert_eq!(*ran.lock().expect("no panic"), times);
    assert!(periodic.is_expired() && !periodic.cancel());
}

/// RussellLuo, TestBucket_Flush.
#[test]
fn a_slot_of_a_coarse_wheel_empties_whole_and_each_of_its_timeouts_keeps_its_tick() {
    // 64 ticks of the third wheel are one slot.
    let (timer, mut driver, clock) = driven_by(Timer::builder().ticks_per_wheel(8).levels(4));
    let first = 3 * 64;
    for ticks in first..first + 64 {
        for _ in 0..5 {
            timer.schedule_detached(ticks * MS, || ()).expect("accepted");
        }
    }
    settle(&mut driver, &clock);
    assert_eq!((timer.stats().shards[0].linked, timer.stats().cascaded), (320, 0));
    clock.advance((first - 1) * MS);
    assert_eq!(settle(&mut driver, &clock), 0);
    for ticks in first..first + 64 {
        clock.advance(MS);
        assert_eq!(settle(&mut driver, &clock), 5, "tick {ticks}");
    }
    let stats = timer.stats();
    assert_eq!((stats.shards[0].linked, stats.pending), (0, 0));
    assert!((1..=2 * 320).contains(&stats.cascaded), "once from level to level: {}", stats.cascaded);
}
