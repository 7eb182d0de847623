//! A panic, wherever user code may panic, is counted or goes to the caller, and affects nothing
//! else.

use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{
    Builder, Clock, Inline, Interval, Reusable, Shard, ShutdownFuture, Sleep, ThreadPool, Timeout, TimeoutGuard, Timer,
};

use crate::common::{
    Drops, HOUR, MS, Runs, assert_counters_reconcile, driven, driven_by, eventually, fire_one, settle, threads_named,
};

/// A capture that panics when it is dropped, unless another panic unwinds.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("on purpose, in a destructor");
        }
    }
}

fn task_with(bomb: Bomb) -> impl FnOnce() + Send {
    move || drop(bomb)
}

#[test]
fn a_panicking_task_is_counted_and_reported_and_the_rest_of_its_batch_runs() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let tell = Arc::clone(&heard);
    let hook = move |payload: &(dyn std::any::Any + Send)| {
        let text = payload.downcast_ref::<String>().cloned();
        tell.lock().expect("no panic").push(text.unwrap_or_else(|| "no text".to_owned()));
    };
    let (timer, mut driver, clock) = driven_by(Timer::builder().on_panic(hook));
    let runs = Runs::new(100);
    for id in 0..100 {
        let run = runs.task(id);
        let task = move || {
            run();
            assert!(id % 10 != 0, "on purpose, in task {id}");
        };
        timer.schedule_detached(MS, task).expect("accepted");
    }
    timer.schedule_detached(MS, || std::panic::panic_any(7_u8)).expect("accepted");
    clock.advance(MS);
    assert_eq!(settle(&mut driver, &clock), 101);
    runs.assert_each_ran_once();
    let mut heard = heard.lock().expect("no panic").clone();
    heard.sort();
    assert_eq!(heard.len(), 11);
    assert_eq!((&*heard[0], &*heard[1]), ("no text", "on purpose, in task 0"));
    let stats = timer.stats();
    assert_eq!((stats.panicked, stats.fired, stats.pending), (11, 101, 0));
}

/// Threads survive panics of tasks, of the hook, and of a payload's destructor.
fn assert_threads_survive(builder: Builder, name: &'static str) {
    let hook = |_: &(dyn std::any::Any + Send)| panic!("on purpose, in the hook");
    let timer = builder.thread_name(name).on_panic(hook).build().expect("the options make sense");
    for _ in 0..20 {
        timer.schedule_detached(Duration::ZERO, || panic!("on purpose")).expect("accepted");
        timer.schedule_detached(Duration::ZERO, || std::panic::panic_any(Bomb)).expect("accepted");
        timer.schedule_detached(Duration::ZERO, task_with(Bomb)).expect("accepted");
    }
    eventually("all have panicked", || timer.stats().panicked == 60);
    fire_one(&timer, MS);
    assert!(!threads_named(name).is_empty());
    assert_eq!(timer.shutdown().expect("the worker has not died").len(), 0);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_panic_never_ends_a_worker_nor_a_pool_thread_even_if_the_hook_panics_too() {
    assert_threads_survive(Timer::builder(), "panic-a");
    assert_threads_survive(Timer::builder().executor(ThreadPool::new(1)), "panic-b");
    assert_threads_survive(Timer::builder().executor(Inline), "panic-c");
}

#[test]
fn a_panicking_task_in_a_turn_does_not_unwind_into_the_driver() {
    let (timer, mut driver, clock) = driven();
    timer.schedule_detached(MS, || panic!("on purpose")).expect("accepted");
    clock.advance(MS);
    assert_eq!(driver.turn(), 1);
    timer.schedule_detached(MS, || ()).expect("accepted");
    clock.advance(MS);
    assert_eq!((driver.turn(), timer.stats().panicked), (1, 1));
}

#[test]
fn a_closure_that_panics_when_dropped_by_a_cancel_panics_there_and_harms_nothing_else() {
    let (timer, mut driver, clock) = driven();
    for turned in [false, true] {
        let timeout = timer.schedule(HOUR, task_with(Bomb)).expect("accepted");
        let guard = timer.schedule(HOUR, task_with(Bomb)).expect("accepted").cancel_on_drop();
        if turned {
            driver.turn();
        }
        assert!(catch_unwind(AssertUnwindSafe(|| timeout.cancel())).is_err(), "it is the caller's panic");
        assert!(timeout.is_cancelled() && !timeout.cancel());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(guard))).is_err());
        settle(&mut driver, &clock);
        assert_eq!(timer.pending(), 0);
    }
    let stats = timer.stats();
    assert_eq!((stats.cancelled, stats.panicked, stats.shards[0].linked), (4, 0, 0));
    for _ in 0..1000 {
        assert!(timer.schedule(HOUR, || ()).expect("accepted").cancel());
    }
}

#[test]
fn closures_that_panic_when_dropped_with_a_shutdowns_answer_panic_there() {
    let (timer, _driver, _clock) = driven();
    timer.schedule_detached(HOUR, task_with(Bomb)).expect("accepted");
    let left = timer.shutdown().expect("the first");
    assert_eq!(left.len(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(left))).is_err());
    assert!(timer.is_shutdown() && timer.stats().returned == 1);
}

#[test]
fn closures_that_panic_when_dropped_with_their_engine_take_no_other_with_them() {
    let drops = Drops::default();
    let fill = |timer: &Timer| {
        for _ in 0..10 {
            timer.schedule_detached(HOUR, task_with(Bomb)).expect("accepted");
            let witness = drops.witness();
            timer.schedule_detached(HOUR, move || drop(witness)).expect("accepted");
        }
    };
    let (timer, driver, _clock) = driven();
    fill(&timer);
    drop(driver);
    assert_eq!(drops.count(), 10, "with a driver");
    drop(timer);
    let timer = Timer::builder().build().expect("the options make sense");
    fill(&timer);
    drop(timer);
    eventually("with a worker that sleeps", || drops.count() == 20);
    let timer = Timer::builder().thread_name("panic-d").build().expect("the options make sense");
    fire_one(&timer, Duration::ZERO);
    fill(&timer);
    drop(timer);
    eventually("the worker ends as it should", || drops.count() == 30 && threads_named("panic-d").is_empty());
}

#[test]
fn a_panicking_task_gives_up_its_captures_and_its_place() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().max_pending_timeouts(1));
    let drops = Drops::default();
    for round in 1..=100 {
        let witness = drops.witness();
        let task = move || {
            let _witness = witness;
            panic!("on purpose");
        };
        let timeout = timer.schedule(MS, task).expect("there is room");
        clock.advance(MS);
        assert_eq!(settle(&mut driver, &clock), 1);
        assert!(timeout.is_expired());
        assert_eq!(drops.count(), round);
    }
    assert!(timer.stats().capacity <= 256, "entries are used again: {}", timer.stats().capacity);
}

#[test]
fn a_panic_of_on_earlier_is_counted_and_the_timeout_is_accepted_all_the_same() {
    let heard = Arc::new(Mutex::new(0));
    let tell = Arc::clone(&heard);
    let (timer, mut driver, clock) =
        driven_by(Timer::builder().on_panic(move |_| *tell.lock().expect("no panic") += 1));
    let far = timer.schedule(HOUR, || ()).expect("accepted");
    assert!(driver.next_wakeup().is_some());
    driver.on_earlier(|| panic!("on purpose"));
    let runs = Runs::new(2);
    let timeout = timer.schedule(MS, runs.task(0)).expect("accepted, and the panic is not the caller's");
    assert_eq!((timer.stats().scheduled, timer.stats().panicked, *heard.lock().expect("no panic")), (2, 1, 1));
    assert!(driver.next_wakeup().is_some());
    assert!(far.reset(Duration::ZERO), "nor is it here");
    assert_eq!(timer.stats().panicked, 2);
    clock.advance(MS);
    assert_eq!((settle(&mut driver, &clock), runs.of(0)), (2, 1));
    assert!(timeout.is_expired());
    // It may be the callback's own destructor.
    let bomb = Bomb;
    driver.on_earlier(move || _ = &bomb);
    drop(driver);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_clock_that_panics_when_it_is_dropped_does_so_unseen() {
    struct Fragile(Bomb);
    impl Clock for Fragile {
        fn now(&self) -> Instant {
            let Fragile(Bomb) = self;
            Instant::now()
        }
    }
    let (timer, driver) = Timer::builder().clock(Fragile(Bomb)).build_driven().expect("the options make sense");
    let timeout = timer.schedule(HOUR, || ()).expect("accepted");
    drop((timer, driver));
    // The last owner of the engine's memory.
    drop(timeout);
    let timer = Timer::builder().clock(Fragile(Bomb)).build().expect("the options make sense");
    drop(timer);
}

#[test]
fn handles_may_be_used_after_a_panic_that_was_caught() {
    fn unwinds<T: UnwindSafe + RefUnwindSafe>() {}
    unwinds::<(Timer, Timeout, TimeoutGuard, Reusable, Shard<'_>, ShutdownFuture)>();
    unwinds::<(Sleep, Interval)>();
    let timer = Timer::new().expect("defaults");
    let timeout = timer.schedule(HOUR, || ()).expect("accepted");
    let caught = catch_unwind(|| {
        assert!(timeout.is_pending());
        panic!("on purpose");
    });
    assert!(caught.is_err() && timeout.cancel());
    assert_eq!(timer.pending(), 0);
}
