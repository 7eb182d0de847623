//! `reset_many`: many resets by one look at the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tourbillon::{Clock, ManualClock, Timeout, Timer};

use crate::common::{HOUR, MS, Runs, driven, eventually, settle};

fn schedule(timer: &Timer, runs: &Runs, delay: Duration, ids: std::ops::Range<usize>) -> Vec<Timeout> {
    timer.schedule_many(delay, ids.map(|id| runs.task(id))).expect("accepted")
}

#[test]
fn each_pending_timeout_is_moved_later_or_earlier_and_only_those_are_counted() {
    // Fewer than it looks ahead, as many, and many more. In the inbox, and in the wheel.
    for (len, turned) in [0, 1, 7, 8, 9, 100].into_iter().flat_map(|len| [(len, false), (len, true)]) {
        let (timer, mut driver, clock) = driven();
        let runs = Runs::new(4 * len);
        let fired = schedule(&timer, &runs, MS, 0..len);
        clock.advance(MS);
        assert_eq!(settle(&mut driver, &clock), len);
        let cancelled = schedule(&timer, &runs, HOUR, len..2 * len);
        assert!(cancelled.iter().all(Timeout::cancel));
        let near = schedule(&timer, &runs, 3 * MS, 2 * len..3 * len);
        let far = schedule(&timer, &runs, HOUR, 3 * len..4 * len);
        if turned {
            driver.turn();
        }
        let mixed = (0..len).flat_map(|id| [&fired[id], &near[id], &cancelled[id], &far[id]]);
        assert_eq!(timer.reset_many(mixed, 5 * MS), 2 * len);
        let deadline = clock.now() + 5 * MS;
        assert!(near.iter().chain(&far).all(|timeout| timeout.is_pending() && timeout.deadline() == deadline));
        assert_eq!(timer.stats().reset, 2 * len as u64);
        clock.advance(4 * MS);
        assert_eq!(settle(&mut driver, &clock), 0, "before the new deadline");
        clock.advance(MS);
        assert_eq!(settle(&mut driver, &clock), 2 * len);
        assert_eq!(runs.total(), 3 * len);
        assert!((0..len).all(|id| runs.of(id + len) == 0), "a cancelled one has run");
    }
}

#[test]
fn timeouts_of_several_shards_are_reset_and_their_sleeping_workers_woken() {
    let timer = Timer::builder().shards(3).build().expect("three shards");
    let runs = Runs::new(300);
    let timeouts: Vec<_> =
        (0..300).map(|id| timer.shard_for(&(id % 10)).schedule(HOUR, runs.task(id)).expect("accepted")).collect();
    for round in 0..2 {
        // In the second round the workers sleep, and all timeouts are in their wheels.
        let delay = if round == 0 { 2 * HOUR } else { MS };
        assert_eq!(timer.reset_many(&timeouts, delay), 300);
        std::thread::sleep(20 * MS);
    }
    eventually("all timeouts run", || runs.total() == 300);
    runs.assert_each_ran_once();
}

/// Counts how often it is read.
#[derive(Debug)]
struct Counting {
    clock: ManualClock,
    reads: Arc<AtomicU64>,
}

impl Clock for Counting {
    fn now(&self) -> Instant {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.clock.now()
    }
}

#[test]
fn the_clock_is_read_once_for_all_of_them() {
    let reads: Arc<AtomicU64> = Arc::default();
    let clock = Counting { clock: ManualClock::new(), reads: Arc::clone(&reads) };
    let (timer, mut driver) = Timer::builder().clock(clock).build_driven().expect("defaults");
    let timeouts = schedule(&timer, &Runs::new(1_000), HOUR, 0..1_000);
    driver.turn();
    let before = reads.load(Ordering::Relaxed);
    assert_eq!(timer.reset_many(&timeouts, 2 * HOUR), 1_000);
    assert_eq!(reads.load(Ordering::Relaxed) - before, 1);
}

#[test]
fn timeouts_of_another_engine_are_reset_by_its_own_clock() {
    let ((timer, mut driver, clock), (other, mut other_driver, other_clock)) = (driven(), driven());
    other_clock.advance(HOUR);
    let (mine, theirs) =
        (timer.schedule(HOUR, || ()).expect("accepted"), other.schedule(HOUR, || ()).expect("accepted"));
    assert_eq!(timer.reset_many([&mine, &theirs, &mine], 5 * MS), 3);
    assert_eq!(theirs.deadline(), other_clock.now() + 5 * MS);
    assert_eq!((timer.stats().reset, other.stats().reset), (2, 1));
    for clock in [&clock, &other_clock] {
        clock.advance(5 * MS);
    }
    assert_eq!((settle(&mut driver, &clock), settle(&mut other_driver, &other_clock)), (1, 1));
}

#[test]
fn timeouts_reset_before_the_callers_iterator_panics_stay_reset() {
    let (timer, mut driver, clock) = driven();
    let timeouts = schedule(&timer, &Runs::new(100), HOUR, 0..100);
    let until_it_panics = timeouts.iter().enumerate().map(|(id, timeout)| {
        assert!(id < 50, "on purpose");
        timeout
    });
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| timer.reset_many(until_it_panics, MS)));
    assert!(panicked.is_err());
    let moved = timeouts.iter().filter(|timeout| timeout.deadline() == clock.now() + MS).count();
    assert!((42..=50).contains(&moved), "{moved}: all but the few that it looks ahead");
    assert_eq!(timer.stats().reset, moved as u64);
    clock.advance(MS);
    assert_eq!(settle(&mut driver, &clock), moved);
}

#[test]
fn a_sleeping_driver_is_called_once_for_all_that_are_reset_to_earlier() {
    let (timer, mut driver, _clock) = driven();
    let calls: Arc<AtomicU64> = Arc::default();
    let counts = Arc::clone(&calls);
    driver.on_earlier(move || _ = counts.fetch_add(1, Ordering::Relaxed));
    timer.schedule_detached(HOUR, || ()).expect("accepted");
    driver.turn();
    assert!(driver.next_wakeup().is_some());
    let before = calls.load(Ordering::Relaxed);
    let timeouts = schedule(&timer, &Runs::new(64), 2 * HOUR, 0..64);
    assert_eq!(calls.load(Ordering::Relaxed), before, "none is the earliest");
    assert_eq!(timer.reset_many(&timeouts, MS), 64);
    assert_eq!(calls.load(Ordering::Relaxed), before + 1);
}
