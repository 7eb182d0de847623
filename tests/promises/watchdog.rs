//! `health`: which shard is stuck, which is behind, and which has a clock that failed; and that all
//! others are well.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tourbillon::{Builder, Clock, Inline, ShardHealth, Shutdown, ThreadPool, Timer, WorkerState};

use crate::common::{
    HOUR, MS, Runs, assert_counters_reconcile, built, driven, eventually, fire_one, in_time, on_workers, settle,
};
use crate::shard_of;

/// A task or a turn that takes longer is stuck.
const SECOND: Duration = Duration::from_secs(1);

/// A clock that the test sets, without waiting for any worker.
#[derive(Clone)]
struct Shown(Arc<Mutex<Instant>>);

impl Shown {
    fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn advance(&self, by: Duration) {
        *self.0.lock().expect("no panic") += by;
    }
}

impl Clock for Shown {
    fn now(&self) -> Instant {
        *self.0.lock().expect("no panic")
    }
}

/// Schedules a task that runs at once, and until the test ends it.
fn get_stuck(timer: &Timer, key: u32) -> Sender<()> {
    let ((began, has_begun), (release, wait)) = (channel(), channel::<()>());
    let task = move || {
        began.send(()).expect("the test waits");
        let _ = wait.recv();
    };
    timer.shard_for(&key).schedule_detached(Duration::ZERO, task).expect("accepted");
    has_begun.recv().expect("it begins");
    release
}

fn only(timer: &Timer) -> ShardHealth {
    let health = timer.health();
    assert_eq!(health.shards.len(), 1);
    health.shards[0].clone()
}

fn on_shown(builder: Builder) -> (Timer, Shown) {
    let clock = Shown::now();
    (builder.shards(1).clock(clock.clone()).build().expect("the options make sense"), clock)
}

#[test]
fn an_idle_engine_is_healthy_for_as_long_as_it_idles() {
    let (timer, clock) = on_shown(Timer::builder());
    let health = timer.health();
    assert_eq!(health.stuck_after, SECOND);
    assert!(health.is_healthy());
    let shard = only(&timer);
    assert_eq!((shard.worker, shard.last_turn, shard.behind), (WorkerState::NotStarted, None, Duration::ZERO));
    assert_eq!((shard.inbox_depth, shard.stuck_task, shard.panicked_turns), (0, None, 0));
    clock.advance(HOUR);
    assert!(timer.health().is_healthy());
    fire_one(&timer, Duration::ZERO);
    let later = timer.schedule(10 * HOUR, || ()).expect("accepted");
    // Once it sleeps.
    eventually("the worker has nothing to do", || {
        clock.advance(MS);
        only(&timer).behind.is_zero()
    });
    clock.advance(9 * HOUR);
    eventually("it need not turn before its next deadline", || timer.health().is_healthy());
    let shard = only(&timer);
    assert_eq!((shard.worker, shard.behind), (WorkerState::Running, Duration::ZERO));
    assert!(shard.last_turn.is_some_and(|ago| ago >= 9 * HOUR));
    assert!(later.is_pending());
}

#[test]
fn a_task_that_keeps_a_thread_of_a_pool_is_stuck_and_its_worker_is_not() {
    let (timer, clock) = on_shown(Timer::builder().executor(ThreadPool::new(2)));
    let release = get_stuck(&timer, 0);
    assert_eq!(only(&timer).stuck_task, None);
    clock.advance(SECOND);
    assert_eq!(only(&timer).stuck_task, None, "just as long as it may");
    clock.advance(MS);
    let health = timer.health();
    assert_eq!((health.shards[0].stuck_task, health.shards[0].worker), (Some(SECOND + MS), WorkerState::Running));
    assert!(!health.is_healthy());
    eventually("the worker waits", || only(&timer).behind.is_zero());
    // A shorter one, of another thread, does not hide it.
    let short = get_stuck(&timer, 0);
    clock.advance(MS);
    assert_eq!(only(&timer).stuck_task, Some(SECOND + 2 * MS));
    drop(short);
    drop(release);
    eventually("it is well again", || timer.health().is_healthy());
    assert_eq!(only(&timer).stuck_task, None);
}

#[test]
fn a_task_that_keeps_the_worker_is_stuck_and_new_timeouts_wait() {
    let (timer, clock) = on_shown(Timer::builder().executor(Inline));
    let release = get_stuck(&timer, 0);
    assert!(timer.health().is_healthy());
    let runs = Runs::new(500);
    (0..500).for_each(|id| timer.schedule_detached(Duration::ZERO, runs.task(id)).expect("accepted"));
    clock.advance(Duration::from_secs(3));
    let shard = only(&timer);
    assert_eq!((shard.stuck_task, shard.behind), (Some(3_000 * MS), 3_000 * MS));
    assert_eq!((shard.inbox_depth, shard.last_turn), (500, Some(3_000 * MS)));
    assert!(!timer.health().is_healthy());
    drop(release);
    eventually("it is well again", || runs.total() == 500 && timer.health().is_healthy());
    assert_eq!(only(&timer).inbox_depth, 0);
    runs.assert_each_ran_once();
}

#[test]
fn a_worker_that_is_kept_from_its_first_turn_is_behind_and_nothing_expires() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let (timer, clock) = on_shown(Timer::builder().on_worker_start(move |_| {
        let _ = wait.lock().expect("no panic").recv();
    }));
    let first = timer.schedule(Duration::ZERO, || ()).expect("accepted");
    eventually("the worker begins", || only(&timer).last_turn.is_some());
    clock.advance(Duration::from_secs(3));
    let shard = only(&timer);
    assert_eq!((shard.worker, shard.behind, shard.inbox_depth), (WorkerState::Running, 3_000 * MS, 1));
    assert!(!timer.health().is_healthy() && first.is_pending());
    drop(go);
    eventually("it fires", || first.is_expired());
    eventually("it is well again", || timer.health().is_healthy());
}

#[test]
fn the_shard_whose_task_is_stuck_is_named() {
    let clock = Shown::now();
    let timer = built(Timer::builder().shards(3).executor(ThreadPool::new(2)).clock(clock.clone()));
    let release = get_stuck(&timer, 7);
    clock.advance(HOUR);
    let stuck = shard_of(&timer, &7_u32);
    for (index, shard) in timer.health().shards.iter().enumerate() {
        assert_eq!(shard.stuck_task.is_some(), index == stuck, "shard {index}");
        assert_eq!(shard.worker == WorkerState::NotStarted, index != stuck);
    }
    drop(release);
}

#[test]
fn a_worker_that_sleeps_past_its_deadline_is_behind() {
    // The worker does not learn that this clock has moved, as if the system had put it to sleep.
    let (timer, clock) = on_shown(Timer::builder());
    fire_one(&timer, Duration::ZERO);
    let late = timer.schedule(HOUR, || ()).expect("accepted");
    eventually("the worker waits", || {
        clock.advance(Duration::from_nanos(1));
        only(&timer).behind.is_zero()
    });
    thread::sleep(20 * MS);
    clock.advance(HOUR + Duration::from_secs(5));
    let behind = only(&timer).behind;
    // Or more: before its deadline it should have prepared the wheel for it.
    assert!(late.is_pending() && behind >= 5_000 * MS && behind < HOUR, "{behind:?}");
    assert!(!timer.health().is_healthy());
}

/// The real time, except on the threads that it fails for.
#[derive(Clone)]
struct Fails {
    spared: ThreadId,
    fails: Arc<AtomicBool>,
}

impl Fails {
    fn for_all_but_this_thread() -> Self {
        Self { spared: thread::current().id(), fails: Arc::default() }
    }

    fn set(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }
}

impl Clock for Fails {
    fn now(&self) -> Instant {
        let spared = thread::current().id() == self.spared;
        assert!(spared || !self.fails.load(Ordering::SeqCst), "on purpose, in a clock");
        Instant::now()
    }
}

#[test]
fn a_clock_that_panics_for_a_while_is_survived_and_nothing_is_lost() {
    for builder in [Timer::builder(), Timer::builder().executor(Inline).on_turn(|_| ())] {
        let clock = Fails::for_all_but_this_thread();
        let timer = builder.shards(1).clock(clock.clone()).build().expect("the options make sense");
        let first = timer.schedule(Duration::ZERO, || ()).expect("accepted");
        eventually("it runs, and has been run", || first.is_expired() && timer.stats().lateness.count() == 1);
        clock.set(true);
        let runs = Runs::new(300);
        let schedule = |id: usize| timer.schedule(Duration::from_millis(id as u64 % 10), runs.task(id));
        let timeouts: Vec<_> = (0..300).map(|id| schedule(id).expect("accepted")).collect();
        eventually("its turns panic", || only(&timer).panicked_turns >= 3);
        let health = timer.health();
        assert_eq!(health.shards[0].worker, WorkerState::Panicking);
        assert!(!health.is_healthy());
        assert_eq!((runs.total(), timer.pending()), (0, 300));
        clock.set(false);
        eventually("all fire", || runs.total() == 300);
        eventually("it is well again", || timer.health().is_healthy());
        assert_eq!(only(&timer).worker, WorkerState::Running);
        runs.assert_each_ran_once();
        assert!(timeouts.iter().all(|timeout| timeout.is_expired()));
        let stats = timer.stats();
        assert!(stats.panicked_turns >= 3 && stats.panicked_turns == only(&timer).panicked_turns);
        assert_eq!(stats.panicked_turns, stats.shards[0].panicked_turns);
        assert_counters_reconcile(&stats);
        assert!(in_time("a shutdown", move || timer.shutdown()).expect("the first").is_empty());
    }
}

#[test]
fn an_engine_whose_clock_panics_can_be_shut_down_and_returns_its_timeouts() {
    let clock = Fails::for_all_but_this_thread();
    let timer = Timer::builder().shards(1).clock(clock.clone()).build().expect("the options make sense");
    let first = timer.schedule(Duration::ZERO, || ()).expect("accepted");
    eventually("it runs", || first.is_expired() && timer.stats().lateness.count() == 1);
    clock.set(true);
    (0..10).for_each(|_| timer.schedule_detached(Duration::ZERO, || ()).expect("accepted"));
    let began = Instant::now();
    eventually("its turns panic", || only(&timer).panicked_turns >= 7);
    // It has rested for 2, 4, 8, 16, 32 and 64 ms, of which one wake-up may have cut one short.
    assert!(began.elapsed() >= Duration::from_millis(62), "{:?}: it rests for too short a time", began.elapsed());
    let left = timer.shutdown().expect("the first");
    assert_eq!(left.len(), 10);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_driven_engine_is_behind_if_it_is_not_turned_when_it_should_be() {
    let (timer, mut driver, clock) = driven();
    assert_eq!(only(&timer).worker, WorkerState::Driven);
    assert!(timer.health().is_healthy());
    timer.schedule_detached(100 * MS, || ()).expect("accepted");
    driver.turn();
    assert_eq!(driver.next_wakeup(), Some(clock.now() + 100 * MS));
    clock.advance(100 * MS);
    assert!(timer.health().is_healthy() && only(&timer).behind.is_zero());
    clock.advance(SECOND);
    assert!(timer.health().is_healthy());
    clock.advance(MS);
    assert_eq!(only(&timer).behind, SECOND + MS);
    assert!(!timer.health().is_healthy());
    assert_eq!(settle(&mut driver, &clock), 1);
    assert!(timer.health().is_healthy() && only(&timer).last_turn == Some(Duration::ZERO));
}

#[test]
fn a_driven_engine_that_has_nothing_to_do_is_not_behind_whether_or_not_it_was_asked_when_to_wake() {
    let (timer, mut driver, clock) = driven();
    clock.advance(HOUR);
    assert!(timer.health().is_healthy(), "never turned");
    driver.turn();
    clock.advance(HOUR);
    let shard = only(&timer);
    assert!(timer.health().is_healthy(), "turned, and nothing is pending: {shard:?}");
    timer.schedule_detached(2 * HOUR, || ()).expect("accepted");
    driver.turn();
    clock.advance(HOUR);
    let shard = only(&timer);
    assert!(timer.health().is_healthy(), "nothing is due yet: {shard:?}");
}

#[test]
fn a_task_in_a_turn_is_seen_from_another_thread() {
    let (timer, mut driver, clock) = driven();
    let (own, seen) = (timer.clone(), Arc::new(Mutex::new(None)));
    let (saw, moved) = (Arc::clone(&seen), clock.clone());
    let task = move || {
        moved.advance(Duration::from_secs(2));
        let health = thread::scope(|scope| scope.spawn(|| own.health()).join().expect("no panic"));
        *saw.lock().expect("no panic") = Some(health);
    };
    timer.schedule_detached(Duration::ZERO, task).expect("accepted");
    driver.turn();
    let health = seen.lock().expect("no panic").take().expect("it ran");
    assert_eq!(health.shards[0].stuck_task, Some(Duration::from_secs(2)));
    assert!(!health.is_healthy());
    let _ = driver.next_wakeup();
    assert!(timer.health().is_healthy());
}

#[test]
fn after_a_shutdown_of_any_kind_the_worker_has_ended_and_health_is_good() {
    for how in [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(Duration::ZERO), Shutdown::Drain(MS)] {
        for used in [false, true] {
            let (timer, clock) = on_workers(Timer::builder().shards(2));
            if used {
                for key in 0..20 {
                    timer.shard_for(&key).schedule_detached(Duration::ZERO, || ()).expect("accepted");
                }
            }
            drop(timer.shutdown_with(how).expect("the first"));
            clock.advance(HOUR);
            let health = timer.health();
            assert!(health.shards.iter().all(|shard| shard.worker == WorkerState::Ended), "{how:?}: {health:?}");
            assert!(health.is_healthy(), "{how:?}: {health:?}");
        }
        let (timer, mut driver, clock) = driven();
        driver.turn();
        drop(timer.shutdown_with(how).expect("the first"));
        clock.advance(HOUR);
        assert_eq!(only(&timer).worker, WorkerState::Ended, "{how:?}");
        assert!(timer.health().is_healthy());
    }
}
