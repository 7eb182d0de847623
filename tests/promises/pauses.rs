//! A pause: the engine's time stands still, whatever its clock does, and goes on from there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Inline, ThreadPool, Timeout, Timer, WaitStrategy};

use crate::common::{HOUR, MS, Random, Rig, Runs, Times, driven, eventually, in_time, settle, threads_named};

#[test]
fn nothing_becomes_due_in_a_pause_and_all_comes_later_by_it() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let noting = || {
            let times = times.clone();
            move || times.note()
        };
        let handle = rig.timer.schedule(10 * MS, noting()).expect("accepted");
        let periodic = rig.timer.schedule_at_fixed_rate(12 * MS, 10 * MS, noting()).expect("accepted");
        rig.walk(5);
        assert!(!rig.timer.is_paused());
        rig.timer.pause();
        assert!(rig.timer.is_paused() && rig.timer.clone().is_paused());
        let tick = rig.timer.current_tick();
        rig.walk(50);
        rig.advance(HOUR);
        assert_eq!((times.count(), rig.timer.current_tick(), tick), (0, 5, 5), "{}", rig.kind);
        assert!(handle.is_pending() && rig.timer.pending() == 2);
        rig.timer.resume();
        assert!(!rig.timer.is_paused());
        rig.settle();
        assert_eq!(times.count(), 0);
        let lost = u128::from(3_600_050_u32);
        rig.walk(20);
        assert_eq!(times.in_ms(), [10, 12, 22].map(|ms| ms + lost), "{}", rig.kind);
        assert!(periodic.cancel());
    }
}

#[test]
fn scheduling_cancelling_and_resetting_work_in_a_pause() {
    for mut rig in Rig::each(Timer::builder) {
        let (times, runs) = (Times::on(&rig.clock), Runs::new(1));
        let noting = || {
            let times = times.clone();
            move || times.note()
        };
        let earlier = rig.timer.schedule(HOUR, noting()).expect("accepted");
        let later = rig.timer.schedule(2 * MS, noting()).expect("accepted");
        let cancelled = rig.timer.schedule(MS, runs.task(0)).expect("accepted");
        rig.settle();
        rig.timer.pause();
        rig.advance(100 * MS);
        let new = rig.timer.schedule(3 * MS, noting()).expect("accepted");
        assert!(cancelled.cancel() && earlier.reset(4 * MS) && later.reset(5 * MS));
        let reset_new = rig.timer.schedule(HOUR, noting()).expect("accepted");
        assert!(reset_new.reset(6 * MS));
        rig.advance(100 * MS);
        assert_eq!((times.count(), rig.timer.pending()), (0, 4), "{}", rig.kind);
        rig.timer.resume();
        rig.walk(10);
        assert_eq!(times.in_ms(), [203, 204, 205, 206], "{}", rig.kind);
        assert!(new.is_expired() && runs.total() == 0);
    }
}

#[test]
fn an_instant_given_in_a_pause_comes_later_by_the_rest_of_the_pause() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let noting = || {
            let times = times.clone();
            move || times.note()
        };
        let start = rig.clock.now();
        rig.timer.pause();
        rig.advance(100 * MS);
        let at = rig.timer.schedule_at(start + 110 * MS, noting()).expect("accepted");
        assert_eq!(at.deadline(), start + 110 * MS);
        let reset = rig.timer.schedule(HOUR, noting()).expect("accepted");
        assert!(reset.reset_at(start + 120 * MS));
        rig.advance(30 * MS);
        assert_eq!(at.deadline(), start + 140 * MS, "as if the pause ended now");
        rig.timer.resume();
        assert_eq!((at.deadline(), reset.deadline()), (start + 140 * MS, start + 150 * MS));
        rig.walk(30);
        assert_eq!(times.in_ms(), [140, 150], "{}", rig.kind);
        // After a pause, instants are those of the clock again.
        let after = rig.timer.schedule_at(start + 200 * MS, noting()).expect("accepted");
        assert_eq!(after.deadline(), start + 200 * MS);
        rig.walk(40);
        assert_eq!(times.in_ms().last(), Some(&200), "{}", rig.kind);
    }
}

#[test]
fn a_delay_from_now_is_that_delay_before_a_pause_in_it_and_after_it() {
    let ns = Duration::from_nanos(1);
    let delays = [Duration::ZERO, ns, 300 * ns, MS - ns, MS, MS + ns, 7 * MS, HOUR];
    for mut rig in Rig::each(Timer::builder) {
        let mut pairs = Vec::new();
        let mut schedule = |rig: &Rig, when: &str| {
            assert_eq!(rig.timer.now(), rig.clock.now(), "{when}, {}", rig.kind);
            for delay in delays {
                let by_delay = rig.timer.schedule(delay, || ()).expect("accepted");
                let from_now = rig.timer.schedule_at(rig.timer.now() + delay, || ()).expect("accepted");
                assert_eq!(from_now.deadline(), by_delay.deadline(), "{delay:?} {when}, {}", rig.kind);
                pairs.push((by_delay, from_now));
            }
        };
        rig.advance(MS / 3);
        schedule(&rig, "before a pause");
        rig.timer.pause();
        schedule(&rig, "as a pause begins");
        rig.advance(12 * MS + MS / 7);
        schedule(&rig, "in a pause");
        rig.advance(HOUR);
        rig.timer.resume();
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
fn deadlines_are_shown_as_if_the_pause_ended_now() {
    let (timer, mut driver, clock) = driven();
    let (start, timeout) = (clock.now(), timer.schedule(10 * MS, || ()).expect("accepted"));
    clock.advance(4 * MS);
    driver.turn();
    timer.pause();
    for waited in 0..5 {
        assert_eq!(timeout.deadline() - start, (10 + waited) * MS);
        clock.advance(MS);
    }
    timer.resume();
    assert_eq!(timeout.deadline() - start, 15 * MS);
    clock.advance(6 * MS);
    assert_eq!((settle(&mut driver, &clock), timeout.deadline() - start), (1, 15 * MS));
}

#[test]
fn a_second_pause_or_resume_changes_nothing() {
    let (timer, mut driver, clock) = driven();
    let timeout = timer.schedule(10 * MS, || ()).expect("accepted");
    timer.resume();
    assert!(!timer.is_paused());
    timer.pause();
    clock.advance(5 * MS);
    timer.pause();
    clock.advance(5 * MS);
    timer.resume();
    assert!(!timer.is_paused(), "one resume ends it");
    clock.advance(9 * MS);
    timer.resume();
    assert_eq!(settle(&mut driver, &clock), 0);
    clock.advance(MS);
    assert_eq!(settle(&mut driver, &clock), 1);
    assert!(timeout.is_expired());
}

#[test]
fn many_pauses_add_up() {
    for mut rig in Rig::each(Timer::builder) {
        let (times, mut random) = (Times::on(&rig.clock), Random::new(3));
        let (noted, mut lost, mut passed) = (times.clone(), 0, 0);
        let _timeout = rig.timer.schedule(500 * MS, move || noted.note()).expect("accepted");
        while passed < 450 {
            let (run, pause) = (random.below(7), random.below(50));
            rig.walk(run);
            rig.timer.pause();
            rig.walk(pause);
            rig.timer.resume();
            passed += run;
            lost += pause;
        }
        assert_eq!(times.count(), 0, "{}", rig.kind);
        rig.walk(100);
        assert_eq!(times.in_ms(), [500 + lost as u128], "{}", rig.kind);
    }
}

#[test]
fn a_paused_driver_need_not_be_turned_and_its_bell_rings_at_the_end() {
    let (timer, mut driver, clock) = driven();
    timer.schedule_detached(10 * MS, || ()).expect("accepted");
    assert_eq!(driver.next_wakeup(), Some(clock.now() + 10 * MS));
    timer.pause();
    assert_eq!(driver.next_wakeup(), None);
    let rung = Arc::new(AtomicBool::new(false));
    let ring = Arc::clone(&rung);
    driver.on_earlier(move || ring.store(true, Ordering::SeqCst));
    clock.advance(HOUR);
    assert_eq!((driver.next_wakeup(), driver.turn()), (None, 0));
    assert_eq!(driver.next_wakeup(), None);
    timer.resume();
    assert!(rung.load(Ordering::SeqCst));
    assert_eq!(driver.next_wakeup(), Some(clock.now() + 10 * MS));
}

/// On the real clock: a pending timeout does not fire in a pause, and is not early after it.
fn pause_in_real_time(wait: WaitStrategy) {
    let timer = Timer::builder().wait(wait).executor(Inline).build().expect("the options make sense");
    let (start, runs) = (Instant::now(), Runs::new(20));
    // A worker that has looked at the clock, and sleeps.
    let first = timer.schedule(MS, || ()).expect("accepted");
    eventually("the worker runs", || first.is_expired());
    let timeouts: Vec<_> = (0..20)
        .map(|id| timer.schedule(Duration::from_millis(40 + id as u64), runs.task(id)).expect("accepted"))
        .collect();
    timer.pause();
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
    timer.resume();
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
    let timer = Timer::builder().thread_name("pause-a").executor(Inline).build().expect("the options make sense");
    let first = timer.schedule(MS, || ()).expect("accepted");
    eventually("the worker runs", || first.is_expired());
    let soon = timer.schedule(5 * MS, || ()).expect("accepted");
    timer.pause();
    // It may wake once for the deadline before which it fell asleep.
    thread::sleep(50 * MS);
    let before = threads_named("pause-a")[0].sleeps();
    thread::sleep(100 * MS);
    let sleeps = threads_named("pause-a")[0].sleeps() - before;
    assert!(sleeps <= 1, "{sleeps} times in 100 ms");
    timer.resume();
    eventually("it fires after the pause", || soon.is_expired());
}

#[test]
fn a_pause_may_begin_and_end_in_a_task_and_on_many_threads_at_once() {
    in_time("pauses from everywhere", || {
        let timer = Timer::builder().executor(ThreadPool::new(2)).build().expect("the options make sense");
        let runs = Runs::new(400);
        thread::scope(|scope| {
            for thread in 0..4 {
                let (timer, runs) = (&timer, &runs);
                scope.spawn(move || {
                    for n in 0..100 {
                        let (own, run) = (timer.clone(), runs.task(100 * thread + n));
                        let task = move || {
                            own.pause();
                            run();
                            own.resume();
                        };
                        timer.schedule_detached(Duration::from_micros(n as u64 * 50), task).expect("accepted");
                        timer.pause();
                        let _ = timer.current_tick();
                        timer.resume();
                    }
                });
            }
        });
        timer.resume();
        eventually("all fire", || runs.total() == 400);
        runs.assert_each_ran_once();
        eventually("the last pause has ended", || !timer.is_paused());
    });
}

#[test]
fn an_engine_may_be_shut_down_or_dropped_in_a_pause() {
    for rig in Rig::each(Timer::builder) {
        let start = rig.clock.now();
        drop(rig.timer.schedule(10 * MS, || ()).expect("accepted"));
        rig.timer.pause();
        rig.clock.advance(5 * MS);
        let timer = rig.timer.clone();
        let left = in_time("a shutdown in a pause", move || timer.shutdown()).expect("the first");
        assert_eq!(left.iter().map(|left| left.deadline()).collect::<Vec<_>>(), [start + 15 * MS], "{}", rig.kind);
        assert!(!rig.timer.is_paused(), "for futures that come later");
    }
    let timer = Timer::builder().thread_name("pause-b").build().expect("the options make sense");
    let first = timer.schedule(Duration::ZERO, || ()).expect("accepted");
    eventually("the worker runs", || first.is_expired());
    timer.pause();
    drop(timer);
    eventually("the threads end", || threads_named("pause-b").is_empty());
}

#[test]
fn a_clock_that_panics_when_a_pause_begins_leaves_no_engine_behind_that_hangs() {
    struct Fails(Instant, Arc<AtomicBool>);
    impl tourbillon::Clock for Fails {
        fn now(&self) -> Instant {
            assert!(!self.1.load(Ordering::SeqCst), "on purpose, in a clock");
            self.0
        }
    }
    in_time("an engine whose clock failed in a pause", || {
        let fails = Arc::new(AtomicBool::new(false));
        let builder = Timer::builder().clock(Fails(Instant::now(), Arc::clone(&fails)));
        let (timer, mut driver) = builder.build_driven().expect("the options make sense");
        let due = timer.schedule(Duration::ZERO, || ()).expect("accepted");
        fails.store(true, Ordering::SeqCst);
        let pause = std::panic::AssertUnwindSafe(|| timer.pause());
        assert!(std::panic::catch_unwind(pause).is_err());
        fails.store(false, Ordering::SeqCst);
        assert!(!timer.is_paused());
        assert_eq!(driver.turn(), 1);
        assert!(due.is_expired());
    });
}

#[test]
fn a_timeout_scheduled_in_a_pause_does_not_run_in_it_even_without_delay() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let noting = || {
            let times = times.clone();
            move || times.note()
        };
        let reset = rig.timer.schedule(HOUR, noting()).expect("accepted");
        rig.settle();
        rig.timer.pause();
        drop(rig.timer.schedule(Duration::ZERO, noting()).expect("accepted"));
        drop(rig.timer.schedule_at(rig.clock.now(), noting()).expect("accepted"));
        drop(rig.timer.schedule_between(Duration::ZERO, Duration::ZERO, noting()).expect("accepted"));
        drop(rig.timer.schedule_at_fixed_rate(Duration::ZERO, HOUR, noting()).expect("accepted"));
        assert!(reset.reset(Duration::ZERO));
        rig.walk(20);
        assert_eq!((times.count(), rig.timer.pending()), (0, 5), "{}", rig.kind);
        rig.timer.resume();
        rig.walk(1);
        assert_eq!(times.in_ms(), [21; 5], "a tick later at most, {}", rig.kind);
    }
}

#[test]
fn an_engine_that_has_ended_can_not_be_paused() {
    for rig in Rig::each(Timer::builder) {
        assert!(rig.timer.shutdown().expect("the first").is_empty());
        rig.timer.pause();
        assert!(!rig.timer.is_paused(), "{}", rig.kind);
        let tick = rig.timer.current_tick();
        rig.clock.advance(10 * MS);
        assert_eq!(rig.timer.current_tick(), tick + 10, "{}: its time goes on", rig.kind);
    }
}
