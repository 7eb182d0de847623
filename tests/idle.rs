//! An engine with nothing to do does nothing: no tick, no wake-up, no system call. (Linux counts
//! how often a thread goes to sleep; a thread that sleeps all the time makes no system call.)

#![cfg(target_os = "linux")]

mod common;

use std::thread;
use std::time::Duration;

use tourbillon::{Builder, PausableClock, Pinning, Timer, WaitStrategy};

use common::{HOUR, MS, eventually, fire_one, threads_named};

/// How long nothing may happen.
const SILENCE: Duration = Duration::from_secs(2);

fn sleeps(name: &str) -> Vec<(String, u64)> {
    let mut sleeps: Vec<_> = threads_named(name).into_iter().map(|thread| (thread.sleeps(), thread.name)).collect();
    sleeps.sort();
    sleeps.into_iter().map(|(sleeps, name)| (name, sleeps)).collect()
}

/// Runs `work`, and checks that none of the engine's threads wakes up during it.
fn assert_sleeps_through(timer: &Timer, name: &str, work: impl FnOnce()) {
    // A thread that spins does not go to sleep again, but it turns.
    let seen = || (sleeps(name), timer.stats().turns);
    eventually("all threads are asleep", || {
        let before = seen();
        thread::sleep(100 * MS);
        before == seen()
    });
    let (before, stats) = (sleeps(name), timer.stats());
    assert!(before.iter().any(|(name, _)| name.ends_with("-0")), "a worker runs: {before:?}");
    work();
    assert_eq!(sleeps(name), before, "a thread woke up");
    let after = timer.stats();
    assert_eq!((after.wakeups, after.turns), (stats.wakeups, stats.turns));
}

/// Returns an engine whose worker and pool have run once.
fn warm(builder: Builder, name: &str) -> Timer {
    let timer = builder.thread_name(name).pinning(Pinning::None).build().expect("the options make sense");
    fire_one(&timer, MS);
    timer
}

#[test]
fn an_empty_engine_sleeps() {
    let timer = warm(Timer::builder(), "still-a");
    assert_sleeps_through(&timer, "still-a", || thread::sleep(SILENCE));
}

#[test]
fn an_empty_engine_sleeps_with_a_hybrid_wait_too() {
    let timer = warm(Timer::builder().wait(WaitStrategy::Hybrid { spin: MS }), "still-b");
    drop(timer.schedule(HOUR, || ()).expect("accepted"));
    assert_sleeps_through(&timer, "still-b", || thread::sleep(SILENCE));
}

#[test]
fn an_engine_whose_only_timeout_is_an_hour_away_sleeps() {
    let timer = warm(Timer::builder(), "still-c");
    drop(timer.schedule(HOUR, || ()).expect("accepted"));
    assert_sleeps_through(&timer, "still-c", || thread::sleep(SILENCE));
}

#[test]
fn an_engine_with_a_hundred_thousand_timeouts_an_hour_away_sleeps() {
    let timer = warm(Timer::builder().shards(2), "still-d");
    for n in 0..100_000 {
        drop(timer.schedule(HOUR + Duration::from_millis(n % 5_000), || ()).expect("accepted"));
    }
    assert_eq!(timer.pending(), 100_000);
    assert_sleeps_through(&timer, "still-d", || thread::sleep(SILENCE));
}

#[test]
fn an_engine_whose_timeouts_never_come_sleeps() {
    let timer = warm(Timer::builder().levels(1).ticks_per_wheel(4), "still-e");
    drop(timer.schedule(Duration::MAX, || ()).expect("accepted"));
    assert_sleeps_through(&timer, "still-e", || thread::sleep(SILENCE));
}

#[test]
fn an_engine_in_a_pause_sleeps_past_its_deadlines() {
    let clock = PausableClock::new();
    let timer = warm(Timer::builder().clock(clock.clone()), "still-j");
    let soon = timer.schedule(SILENCE, || ()).expect("accepted");
    clock.pause();
    // The worker looks once at what would have been due, and not again.
    thread::sleep(SILENCE + 100 * MS);
    assert_sleeps_through(&timer, "still-j", || thread::sleep(SILENCE));
    assert!(soon.is_pending());
}

#[test]
fn an_engine_in_a_pause_does_not_spin() {
    let clock = PausableClock::new();
    let wait = WaitStrategy::Hybrid { spin: HOUR };
    let timer = warm(Timer::builder().clock(clock.clone()).wait(wait), "still-l");
    let soon = timer.schedule(60 * SILENCE, || ()).expect("accepted");
    clock.pause();
    // An earlier one wakes a worker that sleeps, so that it looks in the pause.
    drop(timer.schedule(30 * SILENCE, || ()).expect("accepted"));
    assert_sleeps_through(&timer, "still-l", || thread::sleep(SILENCE));
    assert!(soon.is_pending());
}

#[test]
fn resets_cancels_and_later_timeouts_do_not_wake_the_worker() {
    let timer = warm(Timer::builder(), "still-f");
    let timeouts: Vec<_> = (0..1000).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
    let far = timer.schedule(9 * HOUR, || ()).expect("accepted");
    timer.schedule_detached(Duration::ZERO, || ()).expect("it makes the worker take all of them");
    assert_sleeps_through(&timer, "still-f", || {
        for round in 0..50_u32 {
            timeouts.iter().for_each(|timeout| assert!(timeout.reset(HOUR + round * MS)));
            assert!(far.reset(8 * HOUR - round * MS), "earlier, but not before what the worker waits for");
            timer.schedule_detached(2 * HOUR, || ()).expect("accepted");
            assert!(timer.schedule(2 * HOUR, || ()).expect("accepted").cancel());
        }
        timeouts.iter().for_each(|timeout| assert!(timeout.cancel()));
        thread::sleep(100 * MS);
    });
}

#[test]
fn cancelled_timeouts_wake_the_worker_once_in_thousands() {
    let timer = warm(Timer::builder(), "still-h");
    drop(timer.schedule(HOUR, || ()).expect("accepted"));
    let before = timer.stats().wakeups;
    for _ in 0..100 {
        // All at once, so that few of them can revive a cancelled entry.
        let many: Vec<_> = (0..1_000).map(|_| timer.schedule(2 * HOUR, || ()).expect("accepted")).collect();
        assert!(many.iter().all(|timeout| timeout.cancel()));
    }
    let wakeups = timer.stats().wakeups - before;
    assert!((1..=30).contains(&wakeups), "{wakeups} wake-ups for 100,000 timeouts");
}

#[test]
fn a_request_after_the_other_costs_the_worker_nothing() {
    let timer = warm(Timer::builder(), "still-i");
    let work_of_the_worker = || {
        let stats = timer.stats();
        (stats.wakeups, stats.transferred)
    };
    let (_, transferred) = work_of_the_worker();
    drop(timer.schedule(HOUR, || ()).expect("accepted"));
    eventually("the worker has taken it over", || work_of_the_worker().1 > transferred);
    // Until it sleeps: an awake worker takes what comes.
    thread::sleep(100 * MS);
    let before = work_of_the_worker();
    let mut ring: Vec<_> = (0..100).map(|_| timer.schedule(2 * HOUR, || ()).expect("accepted")).collect();
    for request in 0..1_000_000 {
        let place = &mut ring[request % 100];
        assert!(place.cancel());
        *place = timer.schedule(2 * HOUR, || ()).expect("accepted");
    }
    assert_eq!(work_of_the_worker(), before, "a million timeouts were scheduled and cancelled");
}

#[test]
fn a_shard_sleeps_while_another_works() {
    let timer = warm(Timer::builder().shards(2), "still-g");
    // The second shard gets its worker by the second producer.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                drop(timer.schedule(HOUR, || ()).expect("accepted"));
                thread::sleep(20 * MS);
            });
        }
    });
    eventually("two workers run", || threads_named("still-g-0").len() + threads_named("still-g-1").len() == 2);
    let mine = || timer.stats().shards.iter().map(|shard| shard.turns).collect::<Vec<_>>();
    let before = mine();
    for _ in 0..50 {
        fire_one(&timer, MS);
    }
    let turned: Vec<_> = mine().iter().zip(&before).map(|(after, before)| after - before).collect();
    assert_eq!(turned.iter().filter(|&&turns| turns == 0).count(), 1, "{turned:?}");
}
