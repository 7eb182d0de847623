//! Handles: what they cost, which threads may hold them, and that they may outlive everything.

use std::cell::RefCell;
use std::fmt::Debug;
use std::mem::ManuallyDrop;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{
    BuildError, Builder, Driver, Executor, Expired, Inline, ManualClock, Pinning, Refusal, ScheduleError, ShardStats,
    ShutdownError, Stats, ThreadPool, Timeout, TimeoutGuard, Timer, Unfired, WaitStrategy,
};

use crate::common::{Drops, HOUR, MS, built, driven, eventually, fire_one};
use crate::pauses::stoppable;

fn is_send_and_sync<T: Send + Sync + 'static>() {}
fn is_send<T: Send + 'static>() {}
fn is_error<E: std::error::Error + Send + Sync + 'static>() {}

#[test]
fn a_handle_that_was_a_pointer_still_resets_and_cancels_its_own_timeout_and_leaks_nothing() {
    let (timer, mut driver, clock) = driven();
    let (first, second) = (Drops::default(), Drops::default());
    let (kept, ended) = (first.witness(), second.witness());
    let kept = timer.schedule(HOUR, move || drop(kept)).expect("accepted").into_raw();
    let ended = timer.schedule(HOUR, move || drop(ended)).expect("accepted").into_raw();
    assert_ne!(kept, ended);
    // SAFETY: `kept` is made again below, after this use.
    let borrowed = ManuallyDrop::new(unsafe { Timeout::from_raw(kept) });
    assert!(borrowed.reset(2 * HOUR));
    // SAFETY: each pointer comes from `into_raw`, and is not used any more.
    let (kept, ended) = unsafe { (Timeout::from_raw(kept), Timeout::from_raw(ended)) };
    assert!(ended.cancel_owned());
    assert_eq!((first.count(), second.count()), (0, 1));
    clock.advance(HOUR);
    driver.turn();
    assert!(kept.is_pending());
    clock.advance(HOUR);
    driver.turn();
    assert!(kept.is_expired());
    assert_eq!(first.count(), 1);
}

#[test]
fn handles_are_eight_bytes_and_public_types_go_where_they_are_needed() {
    assert_eq!((size_of::<Timeout>(), size_of::<Option<Timeout>>(), size_of::<TimeoutGuard>()), (8, 8, 8));
    is_send_and_sync::<Timer>();
    is_send_and_sync::<Timeout>();
    is_send_and_sync::<TimeoutGuard>();
    is_send_and_sync::<ManualClock>();
    is_send_and_sync::<ThreadPool>();
    is_send_and_sync::<Inline>();
    is_send_and_sync::<Stats>();
    is_send::<Builder>();
    is_send::<Driver>();
    is_send::<Expired>();
    is_send::<Unfired>();
    is_error::<BuildError>();
    is_error::<ShutdownError>();
    is_error::<ScheduleError<fn()>>();
    is_error::<ScheduleError<Vec<fn()>>>();
    is_error::<ScheduleError<Box<dyn FnOnce() + Send>>>();
    is_error::<Refusal>();
}

#[test]
fn every_public_type_is_debug_and_shows_its_state() {
    fn shows(value: &impl Debug, name: &str) {
        assert!(format!("{value:?}").contains(name), "{value:?}");
    }
    shows(&Timer::builder(), "Builder");
    let clock = ManualClock::new();
    shows(&clock, "ManualClock");
    let (timer, driver) = Timer::builder().clock(clock).build_driven().expect("the options make sense");
    shows(&timer, "Timer");
    shows(&driver, "Driver");
    shows(&timer.stats(), "Stats");
    shows(&ShardStats::default(), "ShardStats");
    let timeout = timer.schedule(HOUR, || ()).expect("accepted");
    shows(&timeout, "Timeout");
    shows(&timeout, "pending");
    timeout.cancel();
    shows(&timeout, "cancelled");
    shows(&timer.schedule(HOUR, || ()).expect("accepted").cancel_on_drop(), "TimeoutGuard");
    shows(&timer.schedule(HOUR, || ()).map(drop), "Ok");
    shows(&timer.shutdown().expect("the first"), "Unfired");
    shows(&timer.shutdown().err(), "AlreadyShutdown");
    shows(&timer.schedule(HOUR, || ()).err(), "Shutdown");
    shows(&Timer::builder().shards(0).build().err(), "shards");
    shows(&ThreadPool::new(1), "ThreadPool");
    shows(&(Inline, Pinning::Auto, WaitStrategy::Park), "Inline, Auto, Park");
    let (send, receive) = channel();
    let executor = move |expired: Expired| send.send(format!("{expired:?}")).expect("the test waits");
    let timer = Timer::builder().executor(executor).build().expect("the options make sense");
    timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
    shows(&receive.recv().expect("it fires"), "Expired");
}

/// Calls every method of a handle whose engine is gone.
fn use_after_the_end(timeout: &Timeout, was_cancelled: bool, deadline: Instant) {
    assert!(!timeout.cancel() && !timeout.reset(MS) && !timeout.reset(HOUR) && !timeout.reset_at(Instant::now()));
    assert_eq!((timeout.is_pending(), timeout.is_cancelled()), (false, was_cancelled));
    assert_eq!(timeout.is_expired(), !was_cancelled);
    assert_eq!(timeout.deadline(), deadline);
    assert!(format!("{timeout:?}").contains("Timeout"));
}

#[test]
fn a_handle_may_outlive_its_driven_engine() {
    let (timer, mut driver, clock) = driven();
    let fired = timer.schedule(MS, || ()).expect("accepted");
    let linked = timer.schedule(HOUR, || ()).expect("accepted");
    clock.advance(MS);
    driver.turn();
    let in_mail = timer.schedule(HOUR, || ()).expect("accepted");
    driver.turn();
    assert!(in_mail.reset(20 * MS));
    let in_inbox = timer.schedule(HOUR, || ()).expect("accepted");
    let cancelled = timer.schedule(HOUR, || ()).expect("accepted");
    cancelled.cancel();
    let handles = [(fired, false), (linked, true), (in_mail, true), (in_inbox, true), (cancelled, true)];
    let deadlines = handles.each_ref().map(|(handle, _)| handle.deadline());
    drop(timer);
    drop(driver);
    for ((handle, was_cancelled), deadline) in handles.iter().zip(deadlines) {
        use_after_the_end(handle, *was_cancelled, deadline);
    }
    thread::scope(|scope| {
        for ((handle, was_cancelled), deadline) in handles.into_iter().zip(deadlines) {
            scope.spawn(move || {
                use_after_the_end(&handle, was_cancelled, deadline);
                if was_cancelled { drop(handle) } else { drop(handle.cancel_on_drop()) }
            });
        }
    });
}

#[test]
fn a_handle_may_outlive_its_engine_with_workers() {
    for started in [false, true] {
        let timer = Timer::builder().build().expect("the options make sense");
        if started {
            fire_one(&timer, Duration::ZERO);
        }
        let handle = timer.schedule(HOUR, || ()).expect("accepted");
        let deadline = handle.deadline();
        drop(timer);
        eventually("the worker lets go of it", || handle.is_cancelled());
        thread::spawn(move || use_after_the_end(&handle, true, deadline)).join().expect("its assertions hold");
    }
}

#[test]
fn handles_may_be_used_while_their_engine_goes() {
    for round in 0..300 {
        let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
        let drops = Drops::default();
        let task = || {
            let witness = drops.witness();
            move || drop(witness)
        };
        let handles = timer.schedule_many(HOUR, (0..40).map(|_| task())).expect("accepted");
        if round % 2 == 0 {
            fire_one(&timer, Duration::ZERO);
        }
        thread::scope(|scope| {
            for (n, handle) in handles.into_iter().enumerate() {
                let act = move || match n % 4 {
                    0 => drop(handle.cancel()),
                    1 => drop(handle.reset(MS)),
                    2 => drop(handle.cancel_on_drop()),
                    _ => drop(handle),
                };
                if n < 36 { act() } else { drop(scope.spawn(act)) }
            }
            drop(timer);
        });
        eventually("all closures are used up", || drops.count() == 40);
    }
}

/// Holds values as a thread-local, which are dropped when its thread ends.
struct Late {
    timeouts: Vec<Timeout>,
    timer: Option<Timer>,
}

impl Drop for Late {
    fn drop(&mut self) {
        for (n, timeout) in self.timeouts.drain(..).enumerate() {
            match n % 4 {
                0 => assert!(timeout.cancel()),
                1 => assert!(timeout.reset(2 * HOUR) && timeout.is_pending() && timeout.cancel()),
                2 => drop(timeout.cancel_on_drop()),
                _ => assert!(timeout.deadline() > Instant::now() && timeout.reset(MS)),
            }
        }
        if let Some(timer) = self.timer.take() {
            let timeout = timer.schedule(HOUR, || ()).expect("a dying thread may schedule");
            assert!(timeout.cancel() && timer.stats().scheduled > 0);
        }
    }
}

thread_local! {
    static LATE: RefCell<Late> = const { RefCell::new(Late { timeouts: Vec::new(), timer: None }) };
}

#[test]
fn the_engine_may_be_used_in_destructors_of_thread_locals() {
    // Either that thread-local or the engine's own is set up first.
    for ours_first in [true, false] {
        let timer = Timer::builder().build().expect("the options make sense");
        let theirs = timer.clone();
        let user = thread::spawn(move || {
            if ours_first {
                LATE.with_borrow_mut(|late| late.timer = None);
            }
            let timeouts = (0..400).map(|_| theirs.schedule(HOUR, || ()).expect("accepted")).collect();
            LATE.with_borrow_mut(|late| *late = Late { timeouts, timer: Some(theirs) });
        });
        user.join().expect("its destructors' assertions hold");
        eventually("those that were reset fire", || timer.stats().fired == 100);
        let stats = timer.stats();
        assert_eq!((stats.scheduled, stats.cancelled, stats.pending), (401, 301, 0));
    }
}

#[test]
fn threads_that_end_and_threads_that_begin_do_not_disturb_each_other() {
    const THREADS: u64 = 3 * 300;
    let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..THREADS / 3 {
                    let theirs = timer.clone();
                    let user = thread::spawn(move || {
                        // Ours first, so that it is dropped last, when the engine's thread-local
                        // has gone.
                        LATE.with_borrow_mut(|late| late.timer = None);
                        let timeouts = (0..40).map(|_| theirs.schedule(HOUR, || ()).expect("accepted")).collect();
                        LATE.with_borrow_mut(|late| *late = Late { timeouts, timer: Some(theirs) });
                    });
                    user.join().expect("its destructors' assertions hold");
                }
            });
        }
    });
    eventually("those that were reset fire", || timer.stats().fired == 10 * THREADS);
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.cancelled, stats.pending), (41 * THREADS, 31 * THREADS, 0));
}

/// Holds handles whose engine is gone, until its thread ends.
struct Leftover(Vec<(Timeout, Instant)>);

impl Drop for Leftover {
    fn drop(&mut self) {
        for (timeout, deadline) in self.0.drain(..) {
            use_after_the_end(&timeout, true, deadline);
        }
    }
}

thread_local! {
    static LEFTOVER: RefCell<Leftover> = const { RefCell::new(Leftover(Vec::new())) };
}

#[test]
fn a_handle_may_outlive_its_engine_in_a_thread_local() {
    for in_wheel in [true, false] {
        let user = thread::spawn(move || {
            let (timer, mut driver, _clock) = driven();
            let timeouts: Vec<_> = (0..100).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
            if in_wheel {
                driver.turn();
            }
            let held = timeouts.into_iter().map(|timeout| (timeout.deadline(), timeout));
            LEFTOVER.with_borrow_mut(|left| left.0 = held.map(|(deadline, timeout)| (timeout, deadline)).collect());
        });
        user.join().expect("its destructors' assertions hold");
    }
}

thread_local! {
    static FIRED: RefCell<Vec<Timeout>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn an_engine_ends_once_though_a_thread_in_teardown_gave_entries_back() {
    for handles in 1..=4 {
        let drops = Drops::default();
        let witness = drops.witness();
        // The hook goes with the engine's memory.
        let timer = built(Timer::builder().shards(1).on_panic(move |_| _ = &witness));
        let theirs = timer.clone();
        let user = thread::spawn(move || {
            // Before the engine's own, so that it goes after it.
            FIRED.with_borrow_mut(Vec::clear);
            let fired: Vec<_> = (0..handles).map(|_| theirs.schedule(MS, || ()).expect("accepted")).collect();
            eventually("they have run", || theirs.stats().completed == handles);
            FIRED.with_borrow_mut(|mine| *mine = fired);
        });
        user.join().expect("no panic");
        assert_eq!(drops.count(), 0, "the engine is in use");
        fire_one(&timer, MS);
        drop(timer);
        eventually("the engine is freed", || drops.count() == 1);
    }
}

#[test]
fn the_last_timer_may_go_in_a_destructor_of_a_thread_local() {
    let (timer, drops) = (Timer::builder().build().expect("the options make sense"), Drops::default());
    let witness = drops.witness();
    timer.schedule_detached(HOUR, move || drop(witness)).expect("accepted");
    let user = thread::spawn(move || LATE.with_borrow_mut(|late| late.timer = Some(timer)));
    user.join().expect("its destructors' assertions hold");
    eventually("the worker drops what is pending", || drops.count() == 1);
}

#[test]
fn an_executor_can_be_shared_behind_an_arc_and_chosen_at_run_time() {
    let chosen: [std::sync::Arc<dyn Executor>; 2] =
        [std::sync::Arc::new(Inline), std::sync::Arc::new(ThreadPool::new(1))];
    for executor in chosen {
        let timer = Timer::builder().executor(executor).build().expect("the options make sense");
        fire_one(&timer, MS);
    }
}

#[test]
fn the_time_that_remains_is_that_until_the_next_deadline() {
    for (mut rig, clock) in stoppable(Timer::builder) {
        let never = rig.timer.schedule(Duration::MAX, || ()).expect("accepted");
        let once = rig.timer.schedule(10 * MS, || ()).expect("accepted");
        let periodic = rig.timer.schedule_at_fixed_rate(4 * MS, 4 * MS, || ()).expect("accepted");
        rig.walk(6);
        assert_eq!((once.remaining(), periodic.remaining()), (4 * MS, 2 * MS), "{}", rig.kind);
        clock.pause();
        rig.advance(HOUR);
        assert_eq!(once.remaining(), 4 * MS, "time stands still");
        clock.resume();
        rig.walk(4);
        assert!(once.is_expired() && once.remaining().is_zero());
        assert!(never.remaining() == Duration::MAX && never.cancel() && never.remaining().is_zero());
    }
}
