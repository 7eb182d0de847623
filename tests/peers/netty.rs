//! The fifteen cases of Netty's HashedWheelTimerTest, in its order. Where Netty sleeps, these tests
//! move a manual clock.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tourbillon::{Expired, Inline, ManualClock, Timeout, Timer};

use crate::common::{
    Drops, HOUR, MS, PATIENCE, Runs, assert_counters_reconcile, driven_by, eventually, in_time, on_workers, settle,
    threads_named,
};

const NS: Duration = Duration::from_nanos(1);

/// Netty 1, testScheduleTimeoutShouldNotRunBeforeDelay.
#[test]
fn a_worker_does_not_run_a_timeout_a_nanosecond_before_its_delay() {
    let (timer, clock) = on_workers(Timer::builder());
    let runs = Runs::new(1);
    let timeout = timer.schedule(10_000 * MS, runs.task(0)).expect("accepted");
    for step in [3_000 * MS, 6_999 * MS, MS - NS] {
        clock.advance(step);
        assert_eq!(runs.total(), 0);
        assert!(timeout.is_pending() && !timeout.is_expired());
    }
    clock.advance(NS);
    assert_eq!(runs.total(), 1);
}

/// Netty 2, testScheduleTimeoutShouldRunAfterDelay.
#[test]
fn a_timeout_runs_after_its_delay_in_real_time_and_reads_expired() {
    let timer = Timer::new().expect("the defaults make sense");
    let (send, receive) = channel();
    let start = Instant::now();
    let timeout =
        timer.schedule(20 * MS, move || send.send(start.elapsed()).expect("the test waits")).expect("accepted");
    let took = receive.recv_timeout(PATIENCE).expect("it runs");
    assert!(took >= 20 * MS, "early: {took:?}");
    assert!(timeout.is_expired() && !timeout.is_pending() && !timeout.is_cancelled());
}

/// Netty 3, testStopTimer.
#[test]
fn a_shutdown_returns_timeouts_that_have_not_run_and_no_others() {
    let (timer, clock) = on_workers(Timer::builder());
    let runs = Runs::new(3);
    drop(timer.schedule_many(2 * MS, (0..3).map(|id| runs.task(id))).expect("accepted"));
    clock.advance(2 * MS);
    assert!(timer.shutdown().expect("the first").is_empty(), "all have run");
    runs.assert_each_ran_once();

    let (timer, clock) = on_workers(Timer::builder());
    let late = Runs::new(5);
    drop(timer.schedule_many(5_000 * MS, (0..5).map(|id| late.task(id))).expect("accepted"));
    clock.advance(4_999 * MS);
    let left = timer.shutdown().expect("the first");
    assert_eq!((left.len(), late.total()), (5, 0));
}

/// Netty 4, testTimerShouldThrowExceptionAfterShutdownForNewTimeouts.
#[test]
fn an_engine_that_has_worked_and_was_shut_down_refuses_and_starts_no_thread_again() {
    let (timer, clock) = on_workers(Timer::builder().thread_name("nettyd"));
    let runs = Runs::new(2);
    timer.schedule_detached(MS, runs.task(0)).expect("accepted");
    clock.advance(MS);
    assert!(timer.shutdown().expect("the first").is_empty());
    let refused = timer.clone().schedule(MS, runs.task(1)).expect_err("shut down");
    assert!(refused.is_shutdown());
    clock.advance(HOUR);
    assert_eq!(runs.total(), 1, "what was refused does not run");
    eventually("its threads end", || threads_named("nettyd").is_empty());
}

/// Netty 5, testTimerOverflowWheelLength.
#[test]
fn a_task_that_schedules_itself_again_goes_on_over_the_end_of_the_wheel() {
    fn again(timer: Timer, runs: Arc<AtomicUsize>, delay: Duration) {
        runs.fetch_add(1, Ordering::Relaxed);
        let own = timer.clone();
        timer.schedule_detached(delay, move || again(own, runs, delay)).expect("accepted");
    }
    for ticks in [1, 31, 32, 33, 100] {
        let (timer, clock) = on_workers(Timer::builder().ticks_per_wheel(32).levels(1));
        let (own, runs, delay) = (timer.clone(), Arc::new(AtomicUsize::new(0)), ticks * MS);
        let counted = Arc::clone(&runs);
        timer.schedule_detached(delay, move || again(own, counted, delay)).expect("accepted");
        for run in 1..=40 {
            clock.advance(delay - NS);
            assert_eq!(runs.load(Ordering::Relaxed), run - 1, "every {ticks} ticks");
            clock.advance(NS);
            assert_eq!(runs.load(Ordering::Relaxed), run, "every {ticks} ticks");
        }
        assert_eq!(timer.shutdown().expect("the first").len(), 1, "the next one");
    }
}

/// Netty 6, testExecutionOnTime: Netty allows twice the tick and the delay, and this test one tick.
#[test]
fn a_hundred_thousand_timeouts_run_on_the_tick_that_their_delay_is_rounded_up_to() {
    const TICK: Duration = Duration::from_millis(200);
    const DELAY: Duration = Duration::from_millis(125);
    let (timer, mut driver, clock) = driven_by(Timer::builder().tick_duration(TICK));
    let (soonest, latest) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::new(AtomicU64::new(0)));
    // They begin at forty phases of a tick. The last rounds only let the clock go on.
    for round in 0..600 {
        for _ in 0..if round < 500 { 200 } else { 0 } {
            let (soonest, latest) = (Arc::clone(&soonest), Arc::clone(&latest));
            let (clock, begun) = (clock.clone(), clock.now());
            let task = move || {
                let took = u64::try_from((clock.now() - begun).as_nanos()).expect("short");
                soonest.fetch_min(took, Ordering::Relaxed);
                latest.fetch_max(took, Ordering::Relaxed);
            };
            timer.schedule_detached(DELAY, task).expect("accepted");
        }
        clock.advance(5 * MS);
        settle(&mut driver, &clock);
    }
    assert_eq!((timer.stats().fired, timer.pending()), (100_000, 0));
    let [soonest, latest] = [soonest, latest].map(|ns| Duration::from_nanos(ns.load(Ordering::Relaxed)));
    assert!(soonest >= DELAY && latest < DELAY + TICK, "{soonest:?} to {latest:?}");
}

/// Netty 7, testExecutionOnTaskExecutor.
#[test]
fn each_task_runs_on_the_executors_thread_and_on_no_other() {
    let (batches, to_run) = channel::<Expired>();
    let runner = thread::spawn(move || to_run.into_iter().for_each(Expired::run));
    let its_thread = runner.thread().id();
    let executor = move |expired| batches.send(expired).expect("the runner outlives the engine");
    let timer = Timer::builder().executor(executor).build().expect("the options make sense");
    let ran_on: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
    for n in 0..100 {
        let ran_on = Arc::clone(&ran_on);
        let task = move || ran_on.lock().expect("no panic").push(thread::current().id());
        timer.schedule_detached(n % 3 * MS, task).expect("accepted");
    }
    eventually("all run", || ran_on.lock().expect("no panic").len() == 100);
    assert!(ran_on.lock().expect("no panic").iter().all(|&by| by == its_thread));
    drop(timer);
    in_time("the runner ends with the engine", move || runner.join().expect("no panic"));
}

/// Returns an engine that allows two pending timeouts, and has two.
fn full() -> (Timer, ManualClock, [Timeout; 2]) {
    let (timer, clock) = on_workers(Timer::builder().max_pending_timeouts(2));
    let both = [5_000 * MS, 6_000 * MS].map(|delay| timer.schedule(delay, || ()).expect("there is room"));
    (timer, clock, both)
}

fn is_full(timer: &Timer) -> bool {
    timer.schedule(5_000 * MS, || panic!("it was refused")).is_err_and(|error| error.is_full())
}

/// Netty 8, testRejectedExecutionExceptionWhenTooManyTimeoutsAreAddedBackToBack.
#[test]
fn the_third_of_two_is_refused_and_never_runs() {
    let (timer, clock, both) = full();
    assert!(is_full(&timer));
    assert_eq!((timer.pending(), timer.stats().rejected), (2, 1));
    clock.advance(HOUR);
    assert!(both.iter().all(Timeout::is_expired));
    assert_eq!((timer.stats().fired, timer.stats().panicked), (2, 0));
}

/// Netty 9,
/// testNewTimeoutShouldStopThrowingRejectedExecutionExceptionWhenExistingTimeoutIsCancelled.
#[test]
fn a_cancel_makes_room_without_waiting_for_the_workers_next_tick() {
    let (timer, _clock, both) = full();
    assert!(is_full(&timer));
    // The clock stands still: Netty's place would come back with the next tick.
    assert!(both[0].cancel());
    let third = timer.schedule(5_000 * MS, || ()).expect("there is room again");
    assert!(third.is_pending() && is_full(&timer));
}

/// Netty 10,
/// testNewTimeoutShouldStopThrowingRejectedExecutionExceptionWhenExistingTimeoutIsExecuted.
#[test]
fn a_timeout_that_has_run_makes_room_for_exactly_one() {
    let (timer, clock, _both) = full();
    clock.advance(4_999 * MS);
    assert!(is_full(&timer));
    clock.advance(MS);
    let third = timer.schedule(5_000 * MS, || ()).expect("there is room again");
    assert!(third.is_pending() && is_full(&timer));
}

/// Netty 11, reportPendingTimeouts.
#[test]
fn pending_goes_down_with_each_cancel_and_each_run() {
    let (timer, clock) = on_workers(Timer::builder());
    let runs = Runs::new(3);
    let [one, two, three] = [0, 1, 2].map(|id| timer.schedule(500 * MS, runs.task(id)).expect("accepted"));
    assert_eq!(timer.pending(), 3);
    assert!(one.cancel());
    assert_eq!(timer.pending(), 2);
    assert!(two.cancel());
    assert_eq!(timer.pending(), 1);
    clock.advance(500 * MS);
    assert!(three.is_expired());
    assert_eq!((timer.pending(), runs.total(), runs.of(2)), (0, 1, 1));
}

/// Netty 12, testOverflow.
#[test]
fn the_longest_delay_of_java_never_comes_and_holds_up_no_other() {
    let (timer, clock) = on_workers(Timer::builder());
    let longest = Duration::from_millis(i64::MAX.unsigned_abs());
    let never = timer.schedule(longest, || panic!("292 million years are not over")).expect("accepted");
    for round in 1..=3 {
        let soon = timer.schedule(MS, || ()).expect("accepted");
        clock.advance(80 * 365 * 24 * HOUR);
        assert!(soon.is_expired(), "round {round}");
        assert!(never.is_pending(), "round {round}");
    }
    assert!(never.cancel());
}

/// Netty 13, testStopTimerCancelsPendingTasks.
#[test]
fn a_returned_timeout_reads_cancelled_and_does_not_run_by_itself() {
    let (timer, clock) = on_workers(Timer::builder());
    let runs = Runs::new(5);
    let timeouts = timer.schedule_many(5 * MS, (0..5).map(|id| runs.task(id))).expect("accepted");
    let left = timer.shutdown().expect("the first");
    clock.advance(HOUR);
    assert!(timeouts.iter().all(|timeout| timeout.is_cancelled() && !timeout.is_expired()));
    assert!(timeouts.iter().all(|timeout| !timeout.cancel()), "it is too late for that");
    drop(left);
    assert_eq!(runs.total(), 0);
}

/// Netty 14, cancelWillCallCallback (which Netty never runs): the destructor of a capture is the
/// callback.
#[test]
fn the_destructor_of_a_capture_is_called_once_by_the_cancel_before_it_returns() {
    let (timer, clock) = on_workers(Timer::builder());
    let (drops, runs) = (Drops::default(), Runs::new(1));
    let (witness, run) = (drops.witness(), runs.task(0));
    let task = move || {
        run();
        drop(witness);
    };
    let timeout = timer.schedule(100 * MS, task).expect("accepted");
    clock.advance(99 * MS);
    assert_eq!(drops.count(), 0);
    assert!(timeout.cancel());
    assert_eq!(drops.count(), 1);
    assert!(drops.all_by(thread::current().id()), "on the canceller's thread");
    clock.advance(HOUR);
    drop((timeout, timer));
    assert_eq!((drops.count(), runs.total()), (1, 0), "once, and instead of the run");
}

/// Netty 15, testPendingTimeoutsShouldBeCountedCorrectlyWhenTimeoutCancelledWithinGoalTick.
#[test]
fn timeouts_that_are_cancelled_while_their_own_tick_runs_are_counted_down_once() {
    // With a budget of one, the others are still in the slot while the first runs.
    let builder = Timer::builder().shards(1).executor(Inline).expiry_limit(1).max_pending_timeouts(11);
    let (timer, clock) = on_workers(builder);
    let (begun, has_begun) = channel();
    let released = Arc::new(AtomicBool::new(false));
    let task = || {
        let (begun, released) = (begun.clone(), Arc::clone(&released));
        move || {
            begun.send(()).expect("the test waits");
            eventually("it is released", || released.load(Ordering::Acquire));
        }
    };
    let timeouts: Vec<_> = (0..11).map(|_| timer.schedule(200 * MS, task()).expect("there is room")).collect();
    thread::scope(|scope| {
        scope.spawn(|| clock.advance(200 * MS));
        has_begun.recv_timeout(PATIENCE).expect("one of them runs");
        assert_eq!(timeouts.iter().filter(|timeout| timeout.cancel()).count(), 10);
        released.store(true, Ordering::Release);
    });
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.cancelled, stats.pending), (1, 10, 0));
    assert_counters_reconcile(&stats);
    for _ in 0..11 {
        timer.schedule_detached(HOUR, || ()).expect("there is room again");
    }
    assert!(timer.schedule_detached(HOUR, || ()).is_err(), "and not for more than before");
}
