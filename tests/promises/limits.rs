//! `max_pending_timeouts`: exact. A refusal leaves no trace except the closure that comes back.

use std::cell::Cell;
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tourbillon::{Builder, Inline, Refusal, ShutdownError, Stats, ThreadPool, Timeout, Timer};

use crate::common::{Drops, HOUR, MS, Runs, assert_counters_reconcile, driven_by, eventually, settle};

fn limited(max: usize) -> Builder {
    Timer::builder().max_pending_timeouts(max)
}

/// The same statistics without the count of refusals.
fn without_rejected(mut stats: Stats) -> Stats {
    stats.rejected = 0;
    stats.shards.iter_mut().for_each(|shard| shard.rejected = 0);
    stats
}

#[test]
fn a_refused_timeout_changes_only_the_count_of_refusals_and_its_closure_comes_back() {
    let (timer, mut driver, clock) = driven_by(limited(2));
    drop(timer.schedule_many(HOUR, [|| (), || ()]).expect("there is room"));
    driver.turn();
    let before = timer.stats();
    let (runs, drops) = (Runs::new(5), Drops::default());
    let error = timer.schedule(MS, runs.task(0)).expect_err("full");
    assert!(error.kind() == Refusal::Full && error.is_full() && !error.is_shutdown());
    error.into_inner()();
    timer.schedule_at(clock.now(), runs.task(1)).expect_err("full").into_inner()();
    timer.schedule_detached(MS, runs.task(2)).expect_err("full").into_inner()();
    let many = timer.schedule_many(MS, [3, 4].map(|id| runs.task(id))).expect_err("full").into_inner();
    many.into_iter().for_each(|task| task());
    runs.assert_each_ran_once();
    let witness = drops.witness();
    let dropped = timer.schedule(MS, move || drop(witness)).expect_err("full");
    assert_eq!(drops.count(), 0, "it is in the error");
    drop(dropped);
    assert_eq!((drops.count(), timer.pending()), (1, 2));
    assert_eq!(timer.stats().rejected, 6);
    assert_eq!(without_rejected(timer.stats()), before);
    clock.advance(HOUR);
    assert_eq!(settle(&mut driver, &clock), 2, "nothing refused fires");
}

#[test]
fn room_is_made_by_cancelling_by_firing_and_by_shutdown_at_once() {
    let (timer, mut driver, clock) = driven_by(limited(1));
    for _ in 0..1000 {
        let timeout = timer.schedule(HOUR, || ()).expect("there is room");
        assert!(timer.schedule(HOUR, || ()).is_err());
        assert!(timeout.cancel());
    }
    for _ in 0..1000 {
        timer.schedule_detached(MS, || ()).expect("there is room");
        clock.advance(MS);
        assert!(timer.schedule(HOUR, || ()).is_err(), "it is due, but has not fired");
        assert_eq!(settle(&mut driver, &clock), 1);
    }
    drop(timer.schedule(HOUR, || ()).expect("there is room"));
    assert!(timer.schedule(HOUR, || ()).is_err(), "a dropped handle makes none");
    assert_eq!(timer.shutdown().expect("the first").len(), 1);
    assert_eq!(timer.pending(), 0);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_task_finds_the_room_that_it_has_made_itself() {
    fn again(timer: Timer, left: usize, done: std::sync::mpsc::Sender<bool>) {
        if left == 0 {
            return done.send(true).expect("the test waits");
        }
        let (next, failed) = (timer.clone(), done.clone());
        if timer.schedule_detached(Duration::ZERO, move || again(next, left - 1, done)).is_err() {
            failed.send(false).expect("the test waits");
        }
    }
    let builders = [limited(1).executor(Inline), limited(1).executor(ThreadPool::new(2))];
    for builder in builders {
        let (timer, (done, is_done)) = (builder.build().expect("the options make sense"), channel());
        again(timer, 1000, done);
        assert!(is_done.recv_timeout(crate::common::PATIENCE).expect("it ends"), "refused while there is room");
    }
}

#[test]
fn many_are_accepted_all_or_none() {
    let (timer, _driver, _clock) = driven_by(limited(10));
    let task = || || ();
    let held = timer.schedule_many(HOUR, (0..4).map(|_| task())).expect("there is room");
    let refused = timer.schedule_many(HOUR, (0..7).map(|_| task())).expect_err("one too many");
    assert_eq!(refused.into_inner().len(), 7);
    assert_eq!(timer.pending(), 4);
    drop(timer.schedule_many(HOUR, (0..6).map(|_| task())).expect("exactly full"));
    assert!(held[0].cancel());
    assert!(timer.schedule_many(HOUR, [task(), task()]).is_err());
    drop(timer.schedule_many(HOUR, [task()]).expect("room for one"));
    assert_eq!(timer.pending(), 10);
}

#[test]
fn many_threads_fill_the_limit_exactly() {
    for round in 0..20 {
        const MAX: usize = 1000;
        let timer = limited(MAX).shards(1 + round % 2).build().expect("the options make sense");
        let accepted: usize = thread::scope(|scope| {
            let producer = |_| {
                scope.spawn(|| {
                    let one_by_one = (0..MAX / 2).filter(|_| timer.schedule_detached(HOUR, || ()).is_ok()).count();
                    let many = (0..MAX / 4).filter_map(|_| timer.schedule_many(HOUR, [|| (), || ()]).ok());
                    one_by_one + many.map(|many| many.len()).sum::<usize>()
                })
            };
            let producers: Vec<_> = (0..4).map(producer).collect();
            producers.into_iter().map(|producer| producer.join().expect("no panic")).sum()
        });
        assert!(accepted == MAX || accepted == MAX - 1 && timer.schedule(HOUR, || ()).is_ok(), "{accepted} accepted");
        assert!(timer.schedule(HOUR, || ()).is_err());
        assert_eq!(timer.pending(), MAX);
    }
}

#[test]
fn never_more_than_allowed_are_pending_at_once_under_contention() {
    const MAX: usize = 50;
    let timer = limited(MAX).executor(Inline).build().expect("the options make sense");
    // Raised after a timeout was accepted, and lowered before it ends: never more than are pending.
    let held = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..500 {
                    let timeouts: Vec<_> = (0..MAX / 2).filter_map(|_| timer.schedule(HOUR, || ()).ok()).collect();
                    let now = held.fetch_add(timeouts.len(), Ordering::SeqCst) + timeouts.len();
                    assert!(now <= MAX, "{now} pending");
                    assert!(timer.pending() <= MAX);
                    held.fetch_sub(timeouts.len(), Ordering::SeqCst);
                    for timeout in timeouts {
                        if round % 10 == 0 {
                            assert!(timeout.reset(Duration::ZERO));
                        } else {
                            assert!(timeout.cancel());
                        }
                    }
                }
            });
        }
    });
    eventually("the rest fires", || timer.pending() == 0);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn one_of_two_threads_gets_the_only_place() {
    const ROUNDS: usize = 10_000;
    let (timer, _driver, _clock) = driven_by(limited(1));
    let (arrived, accepted) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let meet = |nth: usize| {
        arrived.fetch_add(1, Ordering::SeqCst);
        let mut looks = 0;
        while arrived.load(Ordering::SeqCst) < 2 * nth {
            looks += 1;
            if looks % 1_000 == 0 { thread::yield_now() } else { std::hint::spin_loop() }
        }
    };
    let compete = || {
        for round in 0..ROUNDS {
            meet(2 * round + 1);
            let place = timer.schedule(HOUR, || ()).ok();
            accepted.fetch_add(usize::from(place.is_some()), Ordering::SeqCst);
            meet(2 * round + 2);
            assert_eq!(accepted.load(Ordering::SeqCst), round + 1);
            assert!(place.is_none_or(|timeout| timeout.cancel()));
        }
    };
    thread::scope(|scope| {
        scope.spawn(compete);
        scope.spawn(compete);
    });
    assert_eq!((timer.pending(), timer.stats().rejected), (0, ROUNDS as u64));
}

#[test]
fn none_is_refused_while_there_is_room_under_contention() {
    const EACH: usize = 10;
    const PRODUCERS: usize = 4;
    let timer = limited(EACH * PRODUCERS).build().expect("the options make sense");
    thread::scope(|scope| {
        for _ in 0..PRODUCERS {
            scope.spawn(|| {
                for round in 0..2_000 {
                    // No thread holds more than a share, so there is always room for a share.
                    if round % 2 == 0 {
                        let many = timer.schedule_many(HOUR, (0..EACH).map(|_| || ())).expect("there is room");
                        many.into_iter().for_each(|timeout| assert!(timeout.cancel()));
                    } else {
                        let schedule = |_| timer.schedule(HOUR, || ()).expect("there is room").cancel_on_drop();
                        drop((0..EACH).map(schedule).collect::<Vec<_>>());
                    }
                }
            });
        }
    });
    assert_eq!((timer.pending(), timer.stats().rejected), (0, 0));
}

#[test]
fn without_a_limit_there_is_none() {
    let (timer, _driver, _clock) = driven_by(Timer::builder());
    for _ in 0..200_000 {
        timer.schedule_detached(HOUR, || ()).expect("no limit was set");
    }
    assert_eq!((timer.pending(), timer.stats().rejected), (200_000, 0));
}

#[test]
fn an_error_names_the_fault_and_a_value_that_would_be_right() {
    let all = [
        (Refusal::Full, ["max_pending_timeouts", "again when some have fired"]),
        (Refusal::Shutdown, ["shut down", "takes no more"]),
        (Refusal::ZeroPeriod, ["period", "must not be zero"]),
        (Refusal::Forked, ["before this process was forked", "make one in the child"]),
        (Refusal::OutOfMemory, ["no memory", "Builder::capacity"]),
    ];
    for (refusal, says) in all {
        let said = refusal.to_string();
        assert!(says.iter().all(|part| said.contains(part)), "{said}");
    }
    let all = [
        (ShutdownError::FromTask, ["one of the timer's own tasks", "from another thread"]),
        (ShutdownError::AlreadyShutdown, ["shut down before", "the timer"]),
        (ShutdownError::Forked, ["before this process was forked", "the parent"]),
    ];
    for (error, says) in all {
        let said = error.to_string();
        assert!(says.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[test]
fn a_refusal_of_a_closed_engine_is_not_pending_for_a_moment() {
    let timer = Timer::builder().shards(1).max_pending_timeouts(10).build().expect("the options make sense");
    timer.schedule_detached(HOUR, || ()).expect("accepted");
    assert_eq!(timer.shutdown().expect("the first").len(), 1);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert!(timer.schedule(HOUR, || ()).is_err_and(|refused| refused.is_shutdown()));
            }
        });
        let looks = (0..100_000).map(|_| timer.pending()).max();
        done.store(true, Ordering::Relaxed);
        assert_eq!(looks, Some(0));
    });
}

#[test]
fn an_error_says_the_same_as_its_kind_and_needs_no_trait_of_its_task() {
    let (timer, _driver, _clock) = driven_by(limited(1));
    let _only = timer.schedule(HOUR, || ()).expect("there is room");
    let full = timer.schedule(HOUR, || ()).expect_err("full");
    let zero = timer.schedule_at_fixed_rate(MS, Duration::ZERO, || ()).expect_err("zero");
    drop(timer.shutdown());
    let ended = timer.schedule(HOUR, || ()).expect_err("shut down");
    assert_eq!(format!("{full:?}"), "ScheduleError { kind: Full, .. }", "the closure need not be `Debug`");
    for (error, kind) in [
        (full.without_task(), Refusal::Full),
        (zero.without_task(), Refusal::ZeroPeriod),
        (ended.without_task(), Refusal::Shutdown),
    ] {
        assert_eq!((error.kind(), error.to_string()), (kind, kind.to_string()));
        assert_eq!((error.is_full(), error.is_shutdown()), (kind == Refusal::Full, kind == Refusal::Shutdown));
    }
}

/// An error type that converts the errors of `?`, as `anyhow::Error` does.
#[derive(Debug)]
struct Report(Box<dyn Error + Send + Sync>);

impl<E: Error + Send + Sync + 'static> From<E> for Report {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

#[test]
fn a_refusal_is_passed_on_by_a_question_mark_even_if_its_task_cannot_be_shared() {
    /// A task that is `Send` and not `Sync`.
    fn task(count: u32) -> impl FnMut() + Send {
        let counts = Cell::new(count);
        move || counts.set(counts.get() + 1)
    }
    fn boxed(timer: &Timer) -> Result<Timeout, Box<dyn Error + Send + Sync>> {
        Ok(timer.schedule(HOUR, task(1))?)
    }
    fn many(timer: &Timer) -> Result<Vec<Timeout>, Report> {
        Ok(timer.schedule_many(HOUR, [1, 2].map(task))?)
    }
    fn periodic(timer: &Timer) -> Result<Timeout, Report> {
        Ok(timer.schedule_at_fixed_rate(HOUR, Duration::ZERO, task(1))?)
    }
    let (timer, _driver, _clock) = driven_by(limited(1));
    let only = boxed(&timer).expect("there is room");
    assert_eq!(boxed(&timer).expect_err("full").to_string(), Refusal::Full.to_string());
    assert_eq!(many(&timer).expect_err("full").0.to_string(), Refusal::Full.to_string());
    assert_eq!(periodic(&timer).expect_err("zero").0.to_string(), Refusal::ZeroPeriod.to_string());
    // Threads may look at the error while another owns it, and its task.
    let refused = timer.schedule(HOUR, task(1)).expect_err("full");
    let kinds = thread::scope(|scope| [(); 2].map(|()| scope.spawn(|| refused.kind())).map(|seen| seen.join().ok()));
    assert_eq!(kinds, [Some(Refusal::Full); 2]);
    assert!(only.cancel());
}
