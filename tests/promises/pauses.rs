//! A clock that is stopped: nothing becomes due, and all goes on from there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Builder, Clock, Inline, ManualClock, PausableClock, ThreadPool, Timeout, Timer, WaitStrategy};

use crate::common::{
    HOUR, MS, Random, Rig, Runs, Times, built, eventually, fire_one, in_time, settle_by, threads_named,
};

/// Returns an engine of each kind, on a clock that can be stopped. The rig's own clock is below it.
pub(crate) fn stoppable(builder: impl Fn() -> Builder) -> [(Rig, PausableClock); 3] {
    let on_a_clock = || {
        let below = ManualClock::new();
        let clock = PausableClock::over(below.clone());
        (builder().clock(clock.clone()), below, clock)
    };
    let on_workers = |kind, make: fn(Builder) -> Builder| {
        let (builder, below, clock) = on_a_clock();
        let timer = make(builder).build().expect("the options make sense");
        (Rig { timer, clock: below, kind, driver: None }, clock)
    };
    let (builder, below, clock) = on_a_clock();
    let (timer, driver) = builder.build_driven().expect("the options make sense");
    [
        (Rig { timer, clock: below, kind: "driven", driver: Some(driver) }, clock),
        on_workers("inline", |builder| builder.executor(Inline)),
        on_workers("a pool", |builder| builder.executor(ThreadPool::new(4))),
    ]
}

#[test]
fn nothing_becomes_due_in_a_pause_and_all_comes_later_by_it() {
    for (mut rig, clock) in stoppable(Timer::builder) {
        let times = Times::on(&rig.clock);
        let handle = rig.timer.schedule(10 * MS, times.task()).expect("accepted");
        let periodic = rig.timer.schedule_at_fixed_rate(12 * MS, 10 * MS, times.task()).expect("accepted");
        rig.walk(5);
        clock.pause();
        assert!(clock.clone().is_paused());
        rig.walk(50);
        rig.advance(HOUR);
        assert_eq!((times.count(), rig.timer.current_tick()), (0, 5), "{}", rig.kind);
        assert!(handle.is_pending() && rig.timer.pending() == 2);
        clock.resume();
        rig.settle();
        assert_eq!(times.count(), 0);
        let lost = u128::from(3_600_050_u32);
        rig.walk(20);
        assert_eq!(times.in_ms(), [10, 12, 22].map(|ms| ms + lost), "{}", rig.kind);
        assert!(periodic.cancel());
    }
}

#[test]
fn all_engines_on_a_clock_stand_still_with_it() {
    let below = ManualClock::new();
    let clock = PausableClock::over(below.clone());
    let timers = [Timer::builder(), Timer::builder().executor(Inline)]
        .map(|builder| builder.clock(clock.clone()).build().expect("the options make sense"));
    let timeouts = timers.each_ref().map(|timer| timer.schedule(MS, || ()).expect("accepted"));
    clock.pause();
    below.advance(HOUR);
    assert!(timeouts.iter().all(Timeout::is_pending));
    clock.resume();
    below.advance(MS);
    assert!(timeouts.iter().all(Timeout::is_expired));
}

#[test]
fn scheduling_cancelling_and_resetting_work_in_a_pause() {
    for (mut rig, clock) in stoppable(Timer::builder) {
        let (times, runs) = (Times::on(&rig.clock), Runs::new(1));
        let earlier = rig.timer.schedule(HOUR, times.task()).expect("accepted");
        let later = rig.timer.schedule(2 * MS, times.task()).expect("accepted");
        let cancelled = rig.timer.schedule(MS, runs.task(0)).expect("accepted");
        rig.settle();
        clock.pause();
        rig.advance(100 * MS);
        let new = rig.timer.schedule(3 * MS, times.task()).expect("accepted");
        assert!(cancelled.cancel() && earlier.reset(4 * MS) && later.reset(5 * MS));
        let reset_new = rig.timer.schedule(HOUR, times.task()).expect("accepted");
        assert!(reset_new.reset_at(rig.timer.now() + 6 * MS));
        rig.advance(100 * MS);
        assert_eq!((times.count(), rig.timer.pending()), (0, 4), "{}", rig.kind);
        clock.resume();
        rig.walk(10);
        assert_eq!(times.in_ms(), [203, 204, 205, 206], "{}", rig.kind);
        assert!(new.is_expired() && runs.total() == 0);
    }
}

#[test]
fn a_delay_from_now_is_that_delay_before_a_pause_in_it_and_after_it() {
    let ns = Duration::from_nanos(1);
    let delays = [Duration::ZERO, ns, 300 * ns, MS - ns, MS, MS + ns, 7 * MS, HOUR];
    for (mut rig, clock) in stoppable(Timer::builder) {
        let mut pairs = Vec::new();
        let mut schedule = |rig: &Rig, when: &str| {
            assert_eq!(rig.timer.now(), clock.now(), "{when}, {}", rig.kind);
            for delay in delays {
                let by_delay = rig.timer.schedule(delay, || ()).expect("accepted");
                let from_now = rig.timer.schedule_at(rig.timer.now() + delay, || ()).expect("accepted");
                assert_eq!(from_now.deadline(), by_delay.deadline(), "{delay:?} {when}, {}", rig.kind);
                pairs.push((by_delay, from_now));
            }
        };
        rig.advance(MS / 3);
        schedule(&rig, "before a pause");
        clock.pause();
        schedule(&rig, "as a pause begins");
        rig.advance(12 * MS + MS / 7);
        schedule(&rig, "in a pause");
        rig.advance(HOUR);
        clock.resume();
        schedule(&rig, "as a pause ends");
        rig.advance(5 * MS + MS / 9);
        schedule(&rig, "after a pause");
        for _ in 0..20 {
            rig.advance(MS / 2);
            for (by_delay, from_now) in &pairs {
                assert_eq!(from_now.is_expired(), by_delay.is_expired(), "{by_delay:?}, {}", rig.kind);
            }
        }
        assert_eq!(rig.timer.pending(), 2 * 5, "all but those of an hour, {}", rig.kind);
    }
}

#[test]
fn a_timeout_that_is_due_at_once_runs_in_a_pause_too() {
    for (mut rig, clock) in stoppable(Timer::builder) {
        let times = Times::on(&rig.clock);
        let resets = [0; 3].map(|_| rig.timer.schedule(HOUR, times.task()).expect("accepted"));
        rig.advance(MS / 3);
        clock.pause();
        rig.advance(20 * MS);
        drop(rig.timer.schedule(Duration::ZERO, times.task()).expect("accepted"));
        drop(rig.timer.schedule_at(rig.timer.now(), times.task()).expect("accepted"));
        let rate = rig.timer.schedule_at_fixed_rate(Duration::ZERO, MS, times.task()).expect("accepted");
        assert!(resets[0].reset(Duration::ZERO) && resets[1].reset_at(rig.timer.now() - MS));
        assert_eq!(rig.timer.reset_many(&resets[2..], Duration::ZERO), 1);
        rig.settle();
        rig.walk(10);
        assert_eq!((times.in_ms(), rig.timer.pending()), (vec![20; 6], 1), "{}", rig.kind);
        clock.resume();
        assert!(rate.is_pending() && rate.cancel());
    }
}

#[test]
fn a_pause_does_not_move_a_deadline_in_the_clocks_own_time() {
    for (rig, clock) in stoppable(Timer::builder) {
        let (start, timeout) = (clock.now(), rig.timer.schedule(10 * MS, || ()).expect("accepted"));
        rig.clock.advance(4 * MS);
        clock.pause();
        for _ in 0..5 {
            rig.clock.advance(MS);
            assert_eq!((timeout.deadline() - start, timeout.remaining()), (10 * MS, 6 * MS), "{}", rig.kind);
        }
        clock.resume();
        assert_eq!((timeout.deadline() - start, timeout.remaining()), (10 * MS, 6 * MS), "{}", rig.kind);
    }
}

#[test]
fn many_pauses_add_up() {
    for (mut rig, clock) in stoppable(Timer::builder) {
        let (times, mut random) = (Times::on(&rig.clock), Random::new(3));
        let (mut lost, mut passed) = (0, 0);
        let _timeout = rig.timer.schedule(500 * MS, times.task()).expect("accepted");
        while passed < 450 {
            let (run, pause) = (random.below(7), random.below(50));
            rig.walk(run);
            clock.pause();
            rig.walk(pause);
            clock.resume();
            passed += run;
            lost += pause;
        }
        assert_eq!(times.count(), 0, "{}", rig.kind);
        rig.walk(100);
        assert_eq!(times.in_ms(), [500 + lost as u128], "{}", rig.kind);
    }
}

#[test]
fn in_a_pause_a_driver_need_not_be_turned_and_its_bell_rings_at_the_end() {
    let below = ManualClock::new();
    let clock = PausableClock::over(below.clone());
    let built = Timer::builder().clock(clock.clone()).build_driven();
    let (timer, mut driver) = built.expect("the options make sense");
    timer.schedule_detached(10 * MS, || ()).expect("accepted");
    assert_eq!(driver.next_wakeup(), Some(clock.now() + 10 * MS));
    clock.pause();
    assert_eq!(driver.next_wakeup(), None);
    let rung = Arc::new(AtomicBool::new(false));
    let ring = Arc::clone(&rung);
    driver.on_earlier(move || ring.store(true, Ordering::SeqCst));
    below.advance(HOUR);
    rung.store(false, Ordering::SeqCst);
    assert_eq!((driver.next_wakeup(), driver.turn()), (None, 0));
    assert_eq!(driver.next_wakeup(), None);
    clock.resume();
    assert!(rung.load(Ordering::SeqCst));
    assert_eq!(driver.next_wakeup(), Some(clock.now() + 10 * MS));
    below.advance(10 * MS);
    assert_eq!(settle_by(&mut driver, || timer.now()), 1);
}

/// On the real clock: a pending timeout does not fire in a pause, and is not early after it.
fn pause_in_real_time(wait: WaitStrategy) {
    let clock = PausableClock::new();
    let timer = built(Timer::builder().wait(wait).executor(Inline).clock(clock.clone()));
    let (start, runs) = (Instant::now(), Runs::new(20));
    // A worker that has looked at the clock, and sleeps.
    fire_one(&timer, MS);
    let timeouts: Vec<_> = (0..20)
        .map(|id| timer.schedule(Duration::from_millis(40 + id as u64), runs.task(id)).expect("accepted"))
        .collect();
    clock.pause();
    let paused = Instant::now();
    if paused - start > 35 * MS {
        return; // The machine was too slow for this to show anything.
    }
    let tick = timer.current_tick();
    let in_pause = timer.schedule(MS, || ()).expect("accepted");
    thread::sleep(90 * MS);
    assert_eq!((runs.total(), timer.current_tick()), (0, tick));
    assert!(in_pause.is_pending());
    let pause = paused.elapsed();
    clock.resume();
    eventually("all run", || runs.total() >= 20 && in_pause.is_expired());
    assert!(start.elapsed() >= 40 * MS + pause && timeouts.iter().all(Timeout::is_expired));
    runs.assert_each_ran_once();
}

#[test]
fn nothing_fires_in_a_pause_by_the_real_clock() {
    pause_in_real_time(WaitStrategy::Park);
    pause_in_real_time(WaitStrategy::Hybrid { spin: Duration::from_millis(5) });
    pause_in_real_time(WaitStrategy::Spin);
}

#[test]
fn an_idle_worker_sleeps_in_a_pause_though_something_was_due() {
    let clock = PausableClock::new();
    let timer = built(Timer::builder().thread_name("pause-a").executor(Inline).clock(clock.clone()));
    fire_one(&timer, MS);
    let soon = timer.schedule(5 * MS, || ()).expect("accepted");
    clock.pause();
    // It may wake once for the deadline before which it fell asleep.
    thread::sleep(50 * MS);
    let before = threads_named("pause-a")[0].sleeps();
    thread::sleep(100 * MS);
    let sleeps = threads_named("pause-a")[0].sleeps() - before;
    assert!(sleeps <= 1, "{sleeps} times in 100 ms");
    clock.resume();
    eventually("it fires after the pause", || soon.is_expired());
}

#[test]
fn a_pause_may_begin_and_end_in_a_task_and_on_many_threads_at_once() {
    in_time("pauses from everywhere", || {
        let clock = PausableClock::new();
        let timer = built(Timer::builder().executor(ThreadPool::new(2)).clock(clock.clone()));
        let runs = Runs::new(400);
        thread::scope(|scope| {
            for thread in 0..4 {
                let (timer, clock, runs) = (&timer, &clock, &runs);
                scope.spawn(move || {
                    for n in 0..100 {
                        let (own, run) = (clock.clone(), runs.task(100 * thread + n));
                        let task = move || {
                            own.pause();
                            run();
                            own.resume();
                        };
                        timer.schedule_detached(Duration::from_micros(n as u64 * 50), task).expect("accepted");
                        clock.pause();
                        let _ = timer.current_tick();
                        clock.resume();
                    }
                });
            }
        });
        clock.resume();
        eventually("all fire", || runs.total() == 400);
        runs.assert_each_ran_once();
        eventually("the last pause has ended", || !clock.is_paused());
    });
}

#[test]
fn an_engine_may_be_shut_down_or_dropped_in_a_pause_which_goes_on() {
    for (rig, clock) in stoppable(Timer::builder) {
        let start = clock.now();
        drop(rig.timer.schedule(10 * MS, || ()).expect("accepted"));
        clock.pause();
        rig.clock.advance(5 * MS);
        let timer = rig.timer.clone();
        let left = in_time("a shutdown in a pause", move || timer.shutdown()).expect("the first");
        assert_eq!(left.iter().map(|left| left.deadline()).collect::<Vec<_>>(), [start + 10 * MS], "{}", rig.kind);
        assert!(clock.is_paused(), "for other engines");
    }
    let clock = PausableClock::new();
    let timer = built(Timer::builder().thread_name("pause-b").clock(clock.clone()));
    fire_one(&timer, Duration::ZERO);
    clock.pause();
    drop(timer);
    eventually("the threads end", || threads_named("pause-b").is_empty());
}

#[test]
fn a_clock_that_panics_when_a_pause_begins_leaves_no_engine_behind_that_hangs() {
    struct Fails(Instant, Arc<AtomicBool>);
    impl Clock for Fails {
        fn now(&self) -> Instant {
            assert!(!self.1.load(Ordering::SeqCst), "on purpose, in a clock");
            self.0
        }
    }
    in_time("an engine whose clock failed in a pause", || {
        let fails = Arc::new(AtomicBool::new(false));
        let clock = PausableClock::over(Fails(Instant::now(), Arc::clone(&fails)));
        let built = Timer::builder().clock(clock.clone()).build_driven();
        let (timer, mut driver) = built.expect("the options make sense");
        let due = timer.schedule(Duration::ZERO, || ()).expect("accepted");
        fails.store(true, Ordering::SeqCst);
        let pause = std::panic::AssertUnwindSafe(|| clock.pause());
        assert!(std::panic::catch_unwind(pause).is_err());
        fails.store(false, Ordering::SeqCst);
        assert!(!clock.is_paused());
        assert_eq!(driver.turn(), 1);
        assert!(due.is_expired());
    });
}
