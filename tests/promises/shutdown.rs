//! Shutdown: what it returns, which threads it waits for, which may call it, and the outcome of a
//! schedule that races it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Builder, Driver, Executor, Expired, Inline, Refusal, Shutdown, ShutdownError, ThreadPool, Timer};

use crate::common::{Drops, HOUR, MS, Random, Runs, assert_counters_reconcile, driven, eventually, in_time, settle};

#[test]
fn shutdown_returns_pending_timeouts_with_their_deadlines_and_cancels_them() {
    let (timer, mut driver, clock) = driven();
    let runs = Runs::new(5);
    let linked = timer.schedule(10 * MS, runs.task(0)).expect("accepted");
    let fired = timer.schedule(MS, runs.task(1)).expect("accepted");
    let cancelled = timer.schedule(MS, runs.task(2)).expect("accepted");
    clock.advance(MS);
    assert!(cancelled.cancel());
    assert_eq!(settle(&mut driver, &clock), 1);
    let in_inbox = timer.schedule(Duration::MAX, runs.task(3)).expect("accepted");
    let due = timer.schedule(Duration::ZERO, runs.task(4)).expect("accepted");
    let left = timer.shutdown().expect("the first");
    let mut deadlines: Vec<_> = left.iter().map(|left| left.deadline()).collect();
    deadlines.sort();
    assert_eq!(deadlines, [due.deadline(), linked.deadline(), in_inbox.deadline()]);
    for timeout in [&linked, &in_inbox, &due, &cancelled] {
        assert!(timeout.is_cancelled() && !timeout.is_pending() && !timeout.is_expired());
        assert!(!timeout.cancel() && !timeout.reset(MS));
    }
    assert!(fired.is_expired());
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.cancelled, stats.returned, stats.pending), (1, 1, 3, 0));
    assert_eq!(driver.turn(), 0);
    left.into_iter().for_each(|left| left.run());
    assert_eq!((0..5).map(|id| runs.of(id)).collect::<Vec<_>>(), [1, 1, 0, 1, 1]);
}

#[test]
fn dropping_an_unfired_drops_its_closure_without_running_it() {
    let (timer, _driver, _clock) = driven();
    let (runs, drops) = (Runs::new(1), Drops::default());
    let (witness, run) = (drops.witness(), runs.task(0));
    let task = move || {
        run();
        drop(witness);
    };
    timer.schedule_detached(HOUR, task).expect("accepted");
    let left = timer.shutdown().expect("the first");
    assert_eq!(drops.count(), 0);
    drop(left);
    assert_eq!((runs.total(), drops.count()), (0, 1));
}

#[test]
fn a_second_shutdown_says_so_on_every_clone() {
    let (timer, _driver, _clock) = driven();
    let clone = timer.clone();
    assert!(!timer.is_shutdown());
    assert!(timer.shutdown().expect("the first").is_empty());
    assert!(timer.is_shutdown() && clone.is_shutdown());
    assert_eq!(timer.shutdown().err(), Some(ShutdownError::AlreadyShutdown));
    assert_eq!(clone.shutdown().err(), Some(ShutdownError::AlreadyShutdown));
}

#[test]
fn of_many_shutdowns_at_once_one_gets_the_answer() {
    for _ in 0..50 {
        let timer = Timer::builder().build().expect("the options make sense");
        drop(timer.schedule_many(HOUR, (0..10).map(|_| || ())).expect("accepted"));
        let answers: Vec<_> = thread::scope(|scope| {
            let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| timer.shutdown())).collect();
            calls.into_iter().map(|call| call.join().expect("no panic")).collect()
        });
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!(won.into_iter().flatten().map(|left| left.len()).collect::<Vec<_>>(), [10]);
        assert!(lost.iter().all(|answer| matches!(answer, Err(ShutdownError::AlreadyShutdown))));
    }
}

#[test]
fn after_a_shutdown_the_closure_comes_back() {
    let (timer, _driver, clock) = driven();
    drop(timer.shutdown());
    let runs = Runs::new(5);
    let error = timer.schedule(MS, runs.task(0)).expect_err("shut down");
    assert!(error.kind() == Refusal::Shutdown && error.is_shutdown() && !error.is_full());
    error.into_inner()();
    timer.schedule_at(clock.now(), runs.task(1)).expect_err("shut down").into_inner()();
    timer.schedule_detached(MS, runs.task(2)).expect_err("shut down").into_inner()();
    let error = timer.schedule_many(MS, [3, 4].map(|id| runs.task(id))).expect_err("shut down");
    error.into_inner().into_iter().for_each(|task| task());
    assert!(timer.schedule_many(MS, [(); 0].map(|()| || ())).expect_err("shut down").is_shutdown(), "none, too");
    runs.assert_each_ran_once();
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.pending, stats.rejected), (0, 0, 5));
}

/// Several threads schedule until they are refused, while the engine is shut down.
fn race(builder: Builder, seed: u64) {
    const PRODUCERS: usize = 3;
    const MOST: usize = 20_000;
    let timer = builder.build().expect("the options make sense");
    let runs = Runs::new(PRODUCERS * MOST);
    let (accepted, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let left = thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let (timer, runs, accepted, refused) = (&timer, &runs, &accepted, &refused);
            scope.spawn(move || {
                for id in producer * MOST..(producer + 1) * MOST {
                    let delay = [Duration::ZERO, MS, HOUR][id % 3];
                    match timer.schedule(delay, runs.task(id)) {
                        Ok(_detached) => accepted.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            assert_eq!((error.kind(), runs.of(id)), (Refusal::Shutdown, 0));
                            error.into_inner()();
                            refused.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                    };
                }
            });
        }
        thread::sleep(Random::new(seed).duration(4 * MS));
        timer.shutdown().expect("the first")
    });
    let (accepted, refused) = (accepted.into_inner(), refused.into_inner());
    let stats = timer.stats();
    assert_eq!(stats.scheduled, accepted as u64);
    assert_eq!(stats.rejected, refused as u64, "one each, unless a producer came to its end before");
    assert_eq!(stats.scheduled, stats.fired + left.len() as u64, "{stats:?}");
    assert_eq!((stats.returned, stats.pending), (left.len() as u64, 0));
    assert_eq!(runs.total() as u64, stats.fired + stats.rejected, "nothing runs after shutdown has returned");
    left.into_iter().for_each(|left| left.run());
    assert_eq!(runs.total(), accepted + refused);
    assert!((0..PRODUCERS * MOST).all(|id| runs.of(id) <= 1));
}

#[test]
fn a_schedule_that_races_shutdown_is_refused_or_returned_or_ran_but_never_lost() {
    for round in 0..50 {
        race(Timer::builder().executor(ThreadPool::new(2)), round);
        race(Timer::builder().executor(Inline).shards(2), round);
    }
}

#[test]
fn many_timeouts_that_race_shutdown_are_accepted_or_refused_together() {
    for round in 0..100 {
        let (timer, _driver, _clock) = driven();
        let (accepted, left) = thread::scope(|scope| {
            let producer = scope.spawn(|| {
                let mut accepted = 0;
                loop {
                    match timer.schedule_many(HOUR, (0..7).map(|_| || ())) {
                        Ok(timeouts) => accepted += timeouts.len(),
                        Err(refused) => {
                            assert_eq!(refused.into_inner().len(), 7);
                            break accepted;
                        }
                    }
                }
            });
            thread::sleep(Random::new(round).duration(MS));
            let left = timer.shutdown().expect("the first").len();
            (producer.join().expect("no panic"), left)
        });
        assert_eq!(accepted, left);
        assert_eq!((timer.stats().returned, timer.pending()), (left as u64, 0));
    }
}

/// Returns the error of `shutdown` in a task of the engine that `build` makes, if there is one.
fn shutdown_from_a_task(build: impl FnOnce() -> Timer + Send + 'static) -> Option<ShutdownError> {
    in_time("shutdown from a task", || {
        let (send, receive) = channel();
        let timer = build();
        let own = timer.clone();
        timer
            .schedule_detached(MS, move || send.send(own.shutdown().err()).expect("the test waits"))
            .expect("accepted");
        let answer = receive.recv_timeout(crate::common::PATIENCE).expect("the task runs");
        assert!(!timer.is_shutdown());
        assert!(timer.shutdown().is_ok(), "from outside it works all the same");
        answer
    })
}

#[test]
fn shutdown_from_one_of_the_engines_own_tasks_is_an_error_and_no_deadlock() {
    let from_task = Some(ShutdownError::FromTask);
    let build = |builder: Builder| move || builder.build().expect("the options make sense");
    assert_eq!(shutdown_from_a_task(build(Timer::builder())), from_task);
    assert_eq!(shutdown_from_a_task(build(Timer::builder().executor(ThreadPool::new(1)))), from_task);
    assert_eq!(shutdown_from_a_task(build(Timer::builder().executor(Inline))), from_task);
    let elsewhere = |expired: Expired| drop(thread::spawn(move || expired.run()));
    assert_eq!(shutdown_from_a_task(build(Timer::builder().executor(elsewhere))), from_task);
}

#[test]
fn shutdown_from_a_task_in_a_turn_is_an_error_and_no_deadlock() {
    let answer = in_time("shutdown from a turn", || {
        let (timer, mut driver, _clock) = driven();
        let (own, answer) = (timer.clone(), Arc::new(Mutex::new(None)));
        let to = Arc::clone(&answer);
        let task = move || *to.lock().expect("no panic") = own.shutdown().err();
        timer.schedule_detached(Duration::ZERO, task).expect("accepted");
        assert_eq!(driver.turn(), 1);
        assert!(timer.shutdown().is_ok());
        answer.lock().expect("no panic").take()
    });
    assert_eq!(answer, Some(ShutdownError::FromTask));
}

#[test]
fn shutdown_of_the_outer_engine_from_a_nested_turn_is_an_error_and_no_deadlock() {
    // A task of one engine turns another, whose task shuts the first one down: that is still one of
    // its own tasks.
    let answer = in_time("shutdown from a nested turn", || {
        let (send, receive) = channel();
        let outer = Timer::builder().executor(Inline).build().expect("the options make sense");
        let (inner, driver, _clock) = driven();
        let driver: Mutex<Driver> = Mutex::new(driver);
        let target = outer.clone();
        inner.schedule_detached(Duration::ZERO, move || send.send(target.shutdown().err()).expect("ok")).expect("ok");
        let task = move || assert_eq!(driver.lock().expect("no panic").turn(), 1);
        outer.schedule_detached(Duration::ZERO, task).expect("accepted");
        receive.recv_timeout(crate::common::PATIENCE).ok().flatten()
    });
    assert_eq!(answer, Some(ShutdownError::FromTask));
}

#[test]
fn a_task_of_one_engine_may_shut_another_down() {
    let (send, receive) = channel();
    let (one, other) = (Timer::new().expect("defaults"), Timer::new().expect("defaults"));
    drop(other.schedule(HOUR, || ()).expect("accepted"));
    let task = move || send.send(other.shutdown().map(|left| left.len())).expect("the test waits");
    one.schedule_detached(MS, task).expect("accepted");
    assert_eq!(receive.recv_timeout(crate::common::PATIENCE).expect("it runs"), Ok(1));
}

fn assert_shutdown_waits(executor: impl Executor) {
    let timer = Timer::builder().executor(executor).build().expect("the options make sense");
    let (begun, has_begun) = channel();
    let done = Arc::new(AtomicBool::new(false));
    let sets = Arc::clone(&done);
    let task = move || {
        begun.send(()).expect("the test waits");
        thread::sleep(100 * MS);
        sets.store(true, Ordering::Relaxed);
    };
    timer.schedule_detached(Duration::ZERO, task).expect("accepted");
    has_begun.recv().expect("it runs");
    assert!(timer.shutdown().expect("the first").is_empty());
    assert!(done.load(Ordering::Relaxed), "shutdown came back while a task was running");
}

#[test]
fn shutdown_waits_for_tasks_that_are_running() {
    assert_shutdown_waits(ThreadPool::new(2));
    assert_shutdown_waits(Inline);
    assert_shutdown_waits(|expired: Expired| drop(thread::spawn(move || expired.run())));
}

#[test]
fn shutdown_waits_for_all_that_a_pool_has_been_given() {
    let timer = Timer::builder().executor(ThreadPool::new(1)).build().expect("the options make sense");
    let runs = Runs::new(2000);
    for id in 0..2000 {
        let run = runs.task(id);
        let task = move || {
            thread::sleep(Duration::from_micros(10));
            run();
        };
        timer.schedule_detached(Duration::ZERO, task).expect("accepted");
    }
    eventually("some have expired", || timer.stats().fired > 0);
    let left = timer.shutdown().expect("the first");
    assert_eq!(runs.total() + left.len(), 2000);
    assert_eq!(runs.total() as u64, timer.stats().fired);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn shutdown_of_an_engine_that_never_ran_returns_at_once() {
    let before = Instant::now();
    assert!(Timer::new().expect("defaults").shutdown().expect("the first").is_empty());
    assert!(before.elapsed() < crate::common::PATIENCE);
}

#[test]
fn an_engine_that_says_it_is_shut_down_accepts_nothing_any_more() {
    for round in 0..24 {
        let how = [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(MS)][round % 3];
        let timer = Timer::builder().shards(2).executor(Inline).build().expect("the options make sense");
        // So that each worker has something to do first.
        for key in 0..8 {
            let shard = timer.shard_for(&key);
            (0..1_000).for_each(|_| shard.schedule_detached(HOUR, || ()).expect("accepted"));
        }
        let other = timer.clone();
        let asks = thread::spawn(move || {
            while !other.is_shutdown() {}
            (0..32).all(|key| other.shard_for(&key).schedule(HOUR, || ()).is_err_and(|error| error.is_shutdown()))
        });
        drop(timer.shutdown_with(how).expect("the first"));
        assert!(asks.join().expect("no panic"), "accepted after that, {how:?}");
    }
}
