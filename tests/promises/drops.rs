//! How an engine ends without a shutdown: its last timer, or its driver, is dropped.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tourbillon::{Builder, Inline, ManualClock, ThreadPool, Timer};

use crate::common::{Drops, HOUR, MS, Runs, driven, eventually, fire_one, in_time, settle, threads_named};

#[test]
fn dropping_the_last_timer_stops_the_threads_and_nothing_unfired_runs() {
    let timer = Timer::builder().thread_name("ends-a").build().expect("the options make sense");
    let (drops, runs) = (Drops::default(), Runs::new(10));
    fire_one(&timer, Duration::ZERO);
    let clone = timer.clone();
    for id in 0..10 {
        let (witness, run) = (drops.witness(), runs.task(id));
        let task = move || {
            run();
            drop(witness);
        };
        timer.schedule_detached(HOUR, task).expect("accepted");
    }
    drop(timer);
    clone.schedule_detached(HOUR, || ()).expect("a clone keeps the engine alive");
    assert!(!threads_named("ends-a").is_empty());
    drop(clone);
    eventually("the threads end", || threads_named("ends-a").is_empty());
    assert_eq!((runs.total(), drops.count()), (0, 10), "each closure is dropped, once");
}

#[test]
fn dropping_the_last_timer_does_not_wait_for_a_running_task() {
    let (running, release) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
    let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
    let task = move || {
        running.0.send(()).expect("the test waits");
        let _ = release.1.recv();
    };
    timer.schedule_detached(Duration::ZERO, task).expect("accepted");
    running.1.recv().expect("it runs");
    in_time("dropping the last timer", move || drop(timer));
    drop(release.0);
}

/// Drops the last timer of an engine inside one of its own tasks.
fn drop_in_task(builder: Builder, name: &'static str) {
    let (timer, drops) = (builder.thread_name(name).build().expect("the options make sense"), Drops::default());
    let handed_over: Arc<Mutex<Option<Timer>>> = Arc::default();
    let mine = Arc::clone(&handed_over);
    let task = move || {
        // Waits for the last timer, and drops it.
        while mine.lock().expect("no panic").take().is_none() {
            thread::yield_now();
        }
    };
    timer.schedule_detached(Duration::ZERO, task).expect("accepted");
    for delay in [Duration::ZERO, MS, HOUR] {
        let witness = drops.witness();
        timer.schedule_detached(delay, move || drop(witness)).expect("accepted");
    }
    let handle = timer.schedule(HOUR, || ()).expect("accepted");
    *handed_over.lock().expect("no panic") = Some(timer);
    eventually("run or dropped, each closure is used up", || drops.count() == 3 && handle.is_cancelled());
    eventually("the threads end", || threads_named(name).is_empty());
    assert_eq!(drops.count(), 3, "once");
}

#[test]
fn the_last_timer_may_be_dropped_in_a_task_on_a_pool() {
    drop_in_task(Timer::builder().executor(ThreadPool::new(2)), "ends-b");
    drop_in_task(Timer::builder(), "ends-c");
}

#[test]
fn the_last_timer_may_be_dropped_in_a_task_on_the_worker() {
    drop_in_task(Timer::builder().executor(Inline), "ends-d");
}

#[test]
fn the_last_timer_may_be_dropped_in_a_turn() {
    in_time("the last timer is dropped in a turn", || {
        let (timer, mut driver, clock) = driven();
        let drops = Drops::default();
        let later = drops.witness();
        let handle = timer.schedule(HOUR, move || drop(later)).expect("accepted");
        let (witness, own) = (drops.witness(), timer.clone());
        let task = move || {
            drop(own);
            drop(witness);
        };
        timer.schedule_detached(Duration::ZERO, task).expect("accepted");
        drop(timer);
        assert_eq!(driver.turn(), 1);
        assert_eq!(drops.count(), 2);
        assert!(handle.is_cancelled());
        assert_eq!((settle(&mut driver, &clock), driver.next_wakeup()), (0, None));
    });
}

#[test]
fn the_last_timer_may_be_dropped_while_the_driver_is_asked_when_to_wake_up() {
    // Another thread drops it at any moment. The driver must neither hang nor keep what was
    // pending.
    for round in 0..3000_u32 {
        let drops = Drops::default();
        let witness = drops.witness();
        let (timer, mut driver) = Timer::builder().build_driven().expect("the options make sense");
        timer.schedule_detached(HOUR, move || drop(witness)).expect("accepted");
        let driver = in_time("a driver whose timer goes", move || {
            let dropper = thread::spawn(move || {
                (0..round % 64).for_each(|_| std::hint::spin_loop());
                drop(timer);
            });
            while !dropper.is_finished() {
                let _ = driver.next_wakeup();
            }
            driver.turn();
            driver
        });
        assert_eq!((drops.count(), driver.next_wakeup()), (1, None));
    }
}

#[test]
fn dropping_the_last_timer_of_a_driver_ends_the_engine_at_once() {
    let (timer, mut driver, clock) = driven();
    let (drops, runs) = (Drops::default(), Runs::new(1));
    let (witness, run) = (drops.witness(), runs.task(0));
    let task = move || {
        run();
        drop(witness);
    };
    timer.schedule_detached(MS, task).expect("accepted");
    driver.turn();
    drop(timer);
    assert_eq!((drops.count(), driver.next_wakeup()), (1, None));
    clock.advance(HOUR);
    assert_eq!((driver.turn(), runs.total()), (0, 0), "nothing unfired runs");
}

#[test]
fn dropping_the_driver_ends_the_engine() {
    let (timer, driver, _clock) = driven();
    let drops = Drops::default();
    let witness = drops.witness();
    let handle = timer.schedule(MS, move || drop(witness)).expect("accepted");
    drop(driver);
    assert_eq!((drops.count(), timer.pending()), (1, 0));
    assert!(handle.is_cancelled());
    assert!(timer.schedule(MS, || ()).expect_err("no driver would turn it").is_shutdown());
}

#[test]
fn a_task_may_own_the_engine_that_runs_it() {
    // The engine lives as long as it has such a task, and ends with it.
    let timer = Timer::builder().thread_name("ends-e").build().expect("the options make sense");
    let own = timer.clone();
    timer.schedule_detached(20 * MS, move || drop(own)).expect("accepted");
    drop(timer);
    eventually("the threads end", || threads_named("ends-e").is_empty());
}

#[test]
fn a_closure_may_use_the_engine_when_it_is_dropped_with_it() {
    struct Uses(Timer);
    impl Drop for Uses {
        fn drop(&mut self) {
            assert!(self.0.schedule(MS, || ()).expect_err("it has ended").is_shutdown());
            assert_eq!(self.0.stats().pending, 0);
        }
    }
    in_time("closures that use their engine when it ends", || {
        let clock = ManualClock::new();
        let (timer, driver) = Timer::builder().clock(clock).build_driven().expect("the options make sense");
        let uses = Uses(timer.clone());
        timer.schedule_detached(HOUR, move || drop(uses)).expect("accepted");
        drop(driver);
        let timer = Timer::builder().build().expect("the options make sense");
        let uses = Uses(timer.clone());
        timer.schedule_detached(HOUR, move || drop(uses)).expect("accepted");
        drop(timer.shutdown().expect("the first"));
    });
}
