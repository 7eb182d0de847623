//! Engines that end, or are short of memory or room, and wakers that misbehave.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use tourbillon::{Expired, Inline, PausableClock, Shutdown, ShutdownError, Timer};

use super::Task;
use super::common::{Counter, HOUR, MS, PATIENCE, built, driven, driven_by, eventually, in_time};

#[test]
fn a_sleep_keeps_its_engine() {
    in_time("a sleep without a timer", || {
        let timer = Timer::new().expect("defaults");
        let sleep = timer.sleep(3 * MS);
        drop(timer);
        pollster::block_on(sleep);
    });
}

#[test]
fn an_engine_without_a_timer_goes_with_its_last_future_and_not_before() {
    for which_is_last in [0, 1] {
        let engine = Arc::new(());
        let part_of_it = Arc::clone(&engine);
        let is_there = || Arc::strong_count(&engine) == 2;
        let executor = move |expired: Expired| {
            let _it_goes_with_the_engine = &part_of_it;
            expired.run();
        };
        let timer = Timer::builder().shards(2).executor(executor).build().expect("defaults");
        let task = Task::new();
        // Each is counted by the thread that made it. One has a timeout, the other has none.
        let of_another_thread = timer.clone();
        let theirs = thread::spawn(move || of_another_thread.sleep(HOUR)).join().expect("no panic");
        // A sleep that comes and goes while there is a timer changes nothing.
        drop(timer.sleep(HOUR));
        let mut mine = timer.sleep(HOUR);
        assert!(task.poll(&mut mine).is_pending());
        drop(timer);
        let mut sleeps = vec![mine, theirs];
        let last = sleeps.remove(which_is_last);
        assert!(is_there());
        drop(sleeps);
        thread::sleep(20 * MS);
        assert!(is_there(), "one future is left");
        thread::spawn(move || drop(last)).join().expect("no panic");
        eventually("the engine has gone", || !is_there());
    }
}

/// Returns an engine of one kind, and its driver.
fn engine(is_driven: bool) -> (Timer, Option<tourbillon::Driver>) {
    if is_driven {
        let (timer, driver) = Timer::builder().build_driven().expect("a good plan");
        return (timer, Some(driver));
    }
    (Timer::builder().pinning(tourbillon::Pinning::None).build().expect("a good plan"), None)
}

#[test]
fn a_shutdown_makes_waiting_futures_ready_and_they_say_so() {
    for (is_driven, how) in [true, false]
        .into_iter()
        .flat_map(|is_driven| [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(MS)].map(|how| (is_driven, how)))
    {
        let (timer, _driver) = engine(is_driven);
        let task = Task::new();
        let (mut sleep, mut limit) = (timer.sleep(HOUR), timer.timeout(HOUR, std::future::pending::<()>()));
        let mut interval = timer.interval_at(timer.now() + HOUR, HOUR);
        assert!(task.poll(&mut sleep).is_pending() && task.poll(&mut limit).is_pending());
        assert!(task.poll_with(|context| interval.poll_tick(context)).is_pending());
        let task_of_its_own = timer.schedule(HOUR, || ()).expect("accepted");
        let unfired = timer.shutdown_with(how).expect("the first");
        assert_eq!(unfired.len(), usize::from(how != Shutdown::FireNow), "no future is returned");
        assert_eq!(task.woken(), 3, "{how:?}, driven: {is_driven}");
        assert!(sleep.is_elapsed());
        assert!(task.poll(&mut sleep).is_ready() && sleep.ended_by_shutdown());
        let std::task::Poll::Ready(Err(elapsed)) = task.poll(&mut limit) else { panic!("it is over") };
        assert!(elapsed.is_shutdown() && elapsed.to_string().contains("shut down"), "{elapsed}");
        assert!(task.poll_with(|context| interval.poll_tick(context)).is_ready() && interval.ended_by_shutdown());
        assert!(task.poll_with(|context| interval.poll_tick(context)).is_pending(), "and it does not spin");
        let stats = timer.stats();
        let fired = if how == Shutdown::FireNow { 4 } else { 0 };
        assert_eq!((stats.fired, stats.returned, stats.pending), (fired, 4 - fired, 0));
        drop((sleep, limit, interval, task_of_its_own));
        assert!(task.is_forgotten());
    }
}

#[test]
fn a_dropped_driver_makes_waiting_futures_ready() {
    let (timer, driver, _clock) = driven();
    let task = Task::new();
    let mut sleep = timer.sleep(HOUR);
    assert!(task.poll(&mut sleep).is_pending());
    drop(driver);
    assert_eq!(task.woken(), 1);
    assert!(task.poll(&mut sleep).is_ready() && sleep.ended_by_shutdown());
}

#[test]
fn a_future_that_is_due_at_the_shutdown_did_not_end_by_it() {
    let (timer, _driver, clock) = driven();
    let task = Task::new();
    let (mut due, mut far) = (timer.sleep(5 * MS), timer.sleep(6 * MS));
    assert!(task.poll(&mut due).is_pending() && task.poll(&mut far).is_pending());
    clock.advance(5 * MS);
    assert!(timer.shutdown().expect("the first").is_empty());
    assert!(task.poll(&mut due).is_ready() && task.poll(&mut far).is_ready());
    assert_eq!((due.ended_by_shutdown(), far.ended_by_shutdown()), (false, true));
    far.reset(MS);
    assert!(!far.ended_by_shutdown() && task.poll(&mut far).is_pending());
}

#[test]
fn a_future_that_fires_in_a_drain_of_a_driven_engine_is_not_counted_as_returned() {
    let (timer, _driver, clock) = driven_by(Timer::builder().max_pending_timeouts(2));
    let task = Task::new();
    let mut due = timer.sleep(5 * MS);
    assert!(task.poll(&mut due).is_pending());
    clock.advance(5 * MS);
    assert!(timer.shutdown_with(Shutdown::Drain(MS)).expect("the first").is_empty());
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.returned, timer.pending(), task.woken()), (1, 0, 0, 1));
}

#[test]
fn after_a_shutdown_futures_are_ready_at_their_own_deadlines_and_are_woken() {
    in_time("futures of an engine that is no more", || {
        let timer = Timer::new().expect("defaults");
        let mut again = timer.sleep(HOUR);
        let task = Task::new();
        assert!(task.poll(&mut again).is_pending());
        drop(timer.shutdown().expect("the first"));
        let delay = 20 * MS;
        let (begin, never) = (std::time::Instant::now(), std::future::pending::<()>);
        pollster::block_on(async {
            timer.sleep(delay).await;
            assert!(begin.elapsed() >= delay);
            let elapsed = timer.timeout(delay, never()).await.expect_err("the time was up");
            assert!(begin.elapsed() >= 2 * delay && !elapsed.is_shutdown());
            again.reset(delay);
            (&mut again).await;
            assert!(begin.elapsed() >= 3 * delay && !again.ended_by_shutdown());
            let mut interval = timer.interval(delay);
            for _ in 0..3 {
                interval.tick().await;
            }
            assert!(begin.elapsed() >= 5 * delay && !interval.ended_by_shutdown());
        });
    });
}

#[test]
fn a_shutdown_does_not_end_a_pause_and_a_future_goes_on_with_its_end() {
    for how in [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(Duration::ZERO)] {
        in_time("a future of an engine that was shut down in a pause", move || {
            let clock = PausableClock::new();
            let timer = Timer::builder().clock(clock.clone()).build().expect("the options make sense");
            drop(timer.schedule(HOUR, || ()).expect("accepted"));
            clock.pause();
            let (mut sleep, task) = (timer.sleep(2 * MS), Task::new());
            drop(timer.shutdown_with(how).expect("the first"));
            thread::sleep(5 * MS);
            assert!(clock.is_paused() && task.poll(&mut sleep).is_pending());
            clock.resume();
            pollster::block_on(sleep);
        });
    }
}

#[test]
fn after_a_shutdown_a_future_goes_by_its_own_clock() {
    let (timer, driver, clock) = driven();
    drop(timer.shutdown().expect("the first"));
    drop(driver);
    let mut sleep = timer.sleep(5 * MS);
    let task = Task::new();
    assert!(task.poll(&mut sleep).is_pending());
    eventually("it is called", || task.woken() > 0);
    assert!(task.poll(&mut sleep).is_pending(), "its own clock stands still");
    clock.advance(5 * MS);
    eventually("it is called again", || task.woken() > 0);
    assert!(task.poll(&mut sleep).is_ready() && !sleep.ended_by_shutdown());
}

#[test]
fn the_global_engine_can_not_be_shut_down() {
    let global = Timer::global();
    for how in [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(MS)] {
        assert_eq!(global.clone().shutdown_with(how).err(), Some(ShutdownError::Global));
    }
    assert!(!global.is_shutdown());
    assert!(global.schedule(HOUR, || ()).expect("it goes on").cancel());
}

#[test]
fn a_shutdown_that_fires_makes_sleeps_ready_and_one_that_drains_waits_for_them() {
    for driven_engine in [true, false] {
        let builder = Timer::builder().pinning(tourbillon::Pinning::None);
        let (timer, driver) = if driven_engine {
            let (timer, driver, _clock) = driven_by(builder);
            (timer, Some(driver))
        } else {
            (builder.build().expect("a good plan"), None)
        };
        let task = Task::new();
        let mut sleep = timer.sleep(HOUR);
        assert!(task.poll(&mut sleep).is_pending());
        assert!(timer.shutdown_with(Shutdown::FireNow).expect("the first").is_empty());
        assert_eq!(task.woken(), 1);
        assert!(task.poll(&mut sleep).is_ready());
        drop(driver);
    }
    let timer = Timer::new().expect("defaults");
    let task = Task::new();
    let mut sleep = timer.sleep(5 * MS);
    assert!(task.poll(&mut sleep).is_pending());
    assert!(timer.shutdown_with(Shutdown::Drain(PATIENCE)).expect("the first").is_empty());
    assert_eq!(task.woken(), 1);
    assert!(task.poll(&mut sleep).is_ready());

    let (timer, _driver, clock) = driven();
    let mut sleep = timer.sleep(5 * MS);
    assert!(task.poll(&mut sleep).is_pending());
    clock.advance(5 * MS);
    assert!(timer.shutdown_with(Shutdown::Drain(MS)).expect("the first").is_empty());
    assert_eq!(task.woken(), 1, "a driven engine wakes at once what is due");
    assert!(task.poll(&mut sleep).is_ready());
}

struct Does<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Does<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn waker(wake: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Does(wake)))
}

fn poll_with(sleep: &mut tourbillon::Sleep, waker: &Waker) -> bool {
    let sleep = std::pin::Pin::new(sleep);
    std::future::Future::poll(sleep, &mut std::task::Context::from_waker(waker)).is_ready()
}

#[test]
fn a_waker_that_panics_is_reported_and_takes_no_other_with_it() {
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let builder = Timer::builder().on_panic(move |_| _ = count.fetch_add(1, Ordering::Relaxed));
    let (timer, mut driver, clock) = driven_by(builder);
    let (before, after, bad) = (Task::new(), Task::new(), waker(|| panic!("on purpose")));
    let (mut first, mut second, mut third) = (timer.sleep(MS), timer.sleep(MS), timer.sleep(MS));
    assert!(before.poll(&mut first).is_pending());
    assert!(!poll_with(&mut second, &bad));
    assert!(after.poll(&mut third).is_pending());
    clock.advance(MS);
    assert_eq!(driver.turn(), 3);
    assert_eq!((before.woken(), after.woken(), told.load(Ordering::Relaxed)), (1, 1, 1));
    assert_eq!(timer.stats().panicked, 1);
    assert!(poll_with(&mut second, &bad), "it is over all the same");
}

#[test]
fn wakers_are_called_by_the_worker_and_not_by_the_executor() {
    let timer = Timer::builder()
        .shards(1)
        .thread_name("mine")
        .executor(|_: tourbillon::Expired| panic!("not for this"))
        .build();
    let timer = timer.expect("a good plan");
    let names = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&names);
    let waker = waker(move || seen.lock().expect("no panic").push(thread::current().name().map(str::to_owned)));
    let mut sleep = timer.sleep(MS);
    assert!(!poll_with(&mut sleep, &waker));
    eventually("it is woken", || !names.lock().expect("no panic").is_empty());
    assert_eq!(*names.lock().expect("no panic"), [Some("mine-0".to_owned())]);
    assert!(poll_with(&mut sleep, &waker));
}

/// The thread has left the shard by then: a waker may do what a task may.
#[test]
fn a_waker_may_schedule_sleep_cancel_and_is_refused_a_shutdown() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().executor(Inline));
    let (inner, ran) = (timer.clone(), Counter::default());
    let count = ran.task();
    let waker = waker(move || {
        inner.schedule_detached(Duration::ZERO, count.clone()).expect("open");
        assert!(inner.schedule(HOUR, || ()).expect("open").cancel());
        let mut sleep = inner.sleep(HOUR);
        assert!(Task::new().poll(&mut sleep).is_pending());
        assert_eq!(inner.shutdown().unwrap_err(), ShutdownError::FromTask);
    });
    let mut sleep = timer.sleep(MS);
    assert!(!poll_with(&mut sleep, &waker));
    clock.advance(MS);
    driver.turn();
    driver.turn();
    assert_eq!((ran.get(), timer.stats().panicked, timer.pending()), (1, 0, 0));
}

#[test]
fn advance_returns_when_all_have_been_woken() {
    let clock = tourbillon::ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().expect("a good plan");
    let task = Task::new();
    let mut sleeps: Vec<_> = (1..=100).map(|ms| timer.sleep(ms * MS)).collect();
    assert!(sleeps.iter_mut().all(|sleep| task.poll(sleep).is_pending()));
    clock.advance(50 * MS);
    assert_eq!(task.woken(), 50);
    while clock.advance_to_next(&timer) {}
    assert_eq!(task.woken(), 50);
    assert!(sleeps.iter_mut().all(|sleep| task.poll(sleep).is_ready()));
}

#[test]
fn a_task_finds_the_place_of_a_sleep_that_ended_in_its_turn() {
    // On a pool, which gets the task when the turn is over.
    let clock = tourbillon::ManualClock::new();
    let timer = built(Timer::builder().max_pending_timeouts(2).clock(clock.clone()));
    let (task, inner) = (Task::new(), timer.clone());
    let mut sleep = timer.sleep(MS);
    assert!(task.poll(&mut sleep).is_pending());
    let both = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&both);
    let schedule = move || {
        for _ in 0..2 {
            count.fetch_add(usize::from(inner.schedule_detached(HOUR, || ()).is_ok()), Ordering::Relaxed);
        }
    };
    timer.schedule_detached(MS, schedule).expect("room");
    clock.advance(MS);
    assert_eq!(both.load(Ordering::Relaxed), 2);
}
