//! The weak spots of Netty's wheel that its own tests leave open, by their letters.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Expired, Inline, Timeout, Timer, Unfired, WaitStrategy};

use crate::common::{
    Drops, HOUR, MS, Runs, assert_counters_reconcile, driven, driven_by, eventually, on_workers, settle,
};

/// Netty, hole a: the counter went up before the refusal, and never down again.
#[test]
fn a_refused_timeout_is_not_counted_as_pending_neither_when_full_nor_after_a_shutdown() {
    for is_limited in [false, true] {
        let builder = Timer::builder();
        let (timer, mut driver, clock) = driven_by(if is_limited { builder.max_pending_timeouts(1) } else { builder });
        let first = timer.schedule(HOUR, || ()).expect("accepted");
        if is_limited {
            assert!((0..1000).all(|_| timer.schedule(HOUR, || ()).is_err_and(|error| error.is_full())));
        }
        assert_eq!(timer.pending(), 1);
        assert_eq!(timer.shutdown().expect("the first").len(), 1);
        assert!((0..1000).all(|_| timer.schedule(HOUR, || ()).is_err_and(|error| error.is_shutdown())));
        clock.advance(HOUR);
        assert_eq!((settle(&mut driver, &clock), timer.pending(), timer.stats().scheduled), (0, 0, 1));
        assert!(first.is_cancelled());
        assert_counters_reconcile(&timer.stats());
    }
}

/// Netty, hole b: a task that was pushed after the worker had drained its queue was neither run nor
/// returned.
#[test]
fn the_last_timeout_before_a_shutdown_and_the_first_after_it_are_not_lost() {
    const TASKS: usize = 64;
    for round in 0..300 {
        let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
        if round % 2 == 0 {
            let first = timer.schedule(Duration::ZERO, || ()).expect("accepted");
            eventually("the worker runs", || first.is_expired());
        }
        let (runs, drops, start) = (Runs::new(TASKS), Drops::default(), Barrier::new(2));
        let task = |id| {
            let (run, witness) = (runs.task(id), drops.witness());
            move || {
                run();
                drop(witness);
            }
        };
        let (accepted, left) = thread::scope(|scope| {
            let producer = scope.spawn(|| {
                start.wait();
                let delay = |id| [Duration::ZERO, HOUR][id % 2];
                (0..TASKS).filter(|&id| timer.schedule_detached(delay(id), task(id)).is_ok()).count()
            });
            start.wait();
            let left = timer.shutdown().expect("the first");
            (producer.join().expect("no panic"), left)
        });
        assert_eq!(runs.total() + left.len(), accepted, "round {round}");
        left.into_iter().for_each(Unfired::run);
        assert_eq!((runs.total(), drops.count()), (accepted, TASKS), "round {round}");
    }
}

/// Netty, hole c: stop came too late for the callbacks, and for the counter.
#[test]
fn a_shutdown_counts_down_each_returned_timeout_and_calls_each_destructor() {
    let (timer, clock) = on_workers(Timer::builder());
    let drops = Drops::default();
    let task = || {
        let witness = drops.witness();
        move || drop(witness)
    };
    let timeouts = timer.schedule_many(HOUR, (0..100).map(|_| task())).expect("accepted");
    clock.advance(MS);
    let late = timer.schedule_many(2 * HOUR, (0..100).map(|_| task())).expect("accepted");
    assert!(timeouts[..50].iter().all(Timeout::cancel));
    assert_eq!((timer.pending(), drops.count()), (150, 50));
    let left = timer.shutdown().expect("the first");
    assert_eq!((left.len(), timer.pending(), timer.stats().returned, drops.count()), (150, 0, 150, 50));
    drop(left);
    assert_eq!(drops.count(), 200);
    drop((timeouts, late, timer));
    assert_eq!(drops.count(), 200, "none twice");
}

/// Netty, hole d: an exception of the wheel's own, for a clock with an unexpected time, ended the
/// timer's thread.
#[test]
fn a_clock_that_goes_back_and_forth_ends_no_worker() {
    struct Unsteady(Instant, Arc<AtomicU64>);
    impl tourbillon::Clock for Unsteady {
        fn now(&self) -> Instant {
            self.0 + Duration::from_millis(self.1.load(Ordering::Acquire))
        }
    }
    let ms = Arc::new(AtomicU64::new(0));
    let clock = Unsteady(Instant::now(), Arc::clone(&ms));
    let builder = Timer::builder().ticks_per_wheel(4).levels(2).wait(WaitStrategy::Spin).shards(1).executor(Inline);
    let timer = builder.clock(clock).build().expect("the options make sense");
    for (round, jump) in [5, 1_000_000, 3, 0, 77_777, 12, 2_000_000].into_iter().enumerate() {
        let timeouts: Vec<_> = (1..40_u32).map(|n| timer.schedule(n * MS, || ()).expect("accepted")).collect();
        ms.store(jump, Ordering::Release);
        eventually("the worker goes on", || {
            let turns = timer.stats().turns;
            thread::sleep(MS);
            timer.stats().turns > turns || timer.pending() == 0
        });
        // From wherever it went, forward again.
        ms.store(3_000_000 * (round as u64 + 1), Ordering::Release);
        eventually("all fire", || timeouts.iter().all(Timeout::is_expired));
    }
    assert!(timer.shutdown().expect("the worker lives").is_empty());
}

/// Netty, hole e: of intake, expiry and cancels, only the first had a limit.
#[test]
fn a_storm_of_cancels_a_fat_slot_and_a_full_inbox_each_take_a_bounded_part_of_a_turn() {
    const MANY: usize = 10_000;
    const LIMIT: usize = 100;
    let (timer, mut driver, clock) = driven_by(Timer::builder().transfer_limit(LIMIT).expiry_limit(LIMIT));
    let doomed = timer.schedule_many(HOUR, (0..MANY).map(|_| || ())).expect("accepted");
    drop(timer.schedule_many(5 * MS, (0..MANY).map(|_| || ())).expect("accepted"));
    settle(&mut driver, &clock);
    assert!(doomed.iter().all(Timeout::cancel));
    clock.advance(5 * MS);
    drop(timer.schedule_many(HOUR, (0..MANY).map(|_| || ())).expect("accepted"));
    for turn in 1..=MANY / LIMIT {
        let before = timer.stats();
        assert_eq!(driver.turn(), LIMIT, "what is due does not wait for the cancels");
        let after = timer.stats();
        let taken = after.shards[0].transferred - before.shards[0].transferred;
        let gone = before.shards[0].linked + taken - after.shards[0].linked;
        assert!(taken <= LIMIT as u64 && gone <= 2 * LIMIT as u64, "turn {turn}: {taken} came, {gone} went");
    }
    settle(&mut driver, &clock);
    assert_eq!((timer.pending(), timer.stats().shards[0].linked), (MANY, MANY as u64));
}

/// Netty, hole f: a task that an executor rejected was lost, with a warning.
#[test]
fn a_batch_that_an_executor_refuses_runs_all_the_same_and_is_counted() {
    let panics = AtomicUsize::new(0);
    let executor = move |expired: Expired| {
        // A queue that is full, and one that reports that by a panic.
        if panics.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
            panic!("on purpose, with {} timeouts", expired.len());
        }
    };
    let (timer, clock) = on_workers(Timer::builder().shards(1).executor(executor));
    let runs = Runs::new(1_000);
    drop(timer.schedule_many(MS, (0..1_000).map(|id| runs.task(id))).expect("accepted"));
    clock.advance(MS);
    runs.assert_each_ran_once();
    assert_eq!((timer.stats().caller_ran, timer.stats().fired), (1_000, 1_000));
    assert!(timer.shutdown().expect("the worker lives").is_empty());
}

/// Netty, hole g: with 60 s on a wheel of 5 s, the worker looked at each timeout in each of twelve
/// rounds.
#[test]
fn a_timeout_of_a_minute_is_not_looked_at_in_each_round_of_the_wheel() {
    const TIMEOUTS: u64 = 1_000;
    let (timer, mut driver, clock) = driven_by(Timer::builder().tick_duration(10 * MS));
    for n in 0..TIMEOUTS {
        timer.schedule_detached(Duration::from_millis(60_000 + n), || ()).expect("accepted");
    }
    // Turned at each tick, as Netty's worker is.
    for _ in 0..6_000 {
        driver.turn();
        clock.advance(10 * MS);
    }
    assert_eq!(timer.pending() as u64 + timer.stats().fired, TIMEOUTS);
    clock.advance(1_000 * MS);
    settle(&mut driver, &clock);
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.relinked), (TIMEOUTS, 0));
    assert!(stats.cascaded <= TIMEOUTS, "each at most once: {}", stats.cascaded);
}

/// Netty, hole h: the count lagged behind the latch that announced the run, and behind the cancel.
#[test]
fn pending_is_right_in_the_task_and_as_soon_as_a_cancel_returns() {
    // The worker is not turned between a cancel and the look at the count.
    let (timer, mut driver, clock) = driven();
    let timeouts = timer.schedule_many(HOUR, (0..100).map(|_| || ())).expect("accepted");
    driver.turn();
    for (n, timeout) in timeouts.iter().enumerate() {
        assert!(timeout.cancel());
        assert_eq!(timer.pending(), 99 - n);
    }
    let seen = Arc::new(AtomicUsize::new(usize::MAX));
    let (own, sees) = (timer.clone(), Arc::clone(&seen));
    timer.schedule_detached(MS, move || sees.store(own.pending(), Ordering::Relaxed)).expect("accepted");
    clock.advance(MS);
    assert_eq!((settle(&mut driver, &clock), seen.load(Ordering::Relaxed)), (1, 0));
}
