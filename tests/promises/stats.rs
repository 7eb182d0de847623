//! `stats`: what the engine counts, on which thread, and how exact lateness is.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use tourbillon::{Expired, Lateness, ManualClock, Shutdown, Stats, Timer};

use crate::common::{HOUR, Keeps, MS, Random, Rig, Runs, assert_counters_reconcile, built, driven, driven_by, settle};

/// Asserts the percentiles of these, to a sixteenth.
fn assert_percentiles(lateness: &Lateness, mut exact: Vec<Duration>) {
    exact.sort();
    assert_eq!(lateness.count(), exact.len() as u64);
    assert_eq!(lateness.max(), *exact.last().expect("some"));
    for percent in [0.0, 1.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 100.0] {
        let share = percent / 100.0 * exact.len() as f64;
        let rank = (0..exact.len()).find(|rank| *rank as f64 + 1.0 >= share).expect("at most all");
        let (said, exact) = (lateness.percentile(percent), exact[rank]);
        assert!(said >= exact && said <= exact + exact / 16, "p{percent}: {said:?} for {exact:?}");
    }
    assert_eq!(lateness.percentile(100.0), lateness.max());
    assert_eq!((lateness.percentile(-5.0), lateness.percentile(500.0)), (lateness.percentile(0.0), lateness.max()));
}

#[test]
fn lateness_is_the_time_from_the_deadline_to_the_beginning_of_the_run() {
    let (timer, mut driver, clock) = driven();
    let none = timer.stats().lateness;
    assert_eq!((none.count(), none.max(), none.percentile(99.0)), (0, Duration::ZERO, Duration::ZERO));
    let (mut random, mut exact) = (Random::new(8), Vec::new());
    for _ in 0..1_000 {
        let (delay, late) = (Duration::from_millis(random.below(500) as u64), random.duration(2 * HOUR));
        timer.schedule_detached(delay, || ()).expect("accepted");
        // It starts on a tick, so that the deadline is exact.
        clock.advance(delay + late);
        assert_eq!(settle(&mut driver, &clock), 1);
        exact.push(late);
        let into_tick = (clock.now() - timer_start(&timer, &clock)).subsec_nanos() % 1_000_000;
        clock.advance(MS - Duration::from_nanos(u64::from(into_tick)));
    }
    assert_percentiles(&timer.stats().lateness, exact.clone());
    assert_percentiles(&timer.stats().shards[0].lateness, exact);
}

#[test]
fn a_task_behind_slow_ones_of_a_burst_is_as_late_as_the_clock_says_when_it_is_looked_at() {
    let (timer, mut driver, clock) = driven();
    let slow = || {
        let clock = clock.clone();
        move || clock.advance(MS)
    };
    for delay in [MS, 2 * MS] {
        for _ in 0..128 {
            timer.schedule_detached(delay, slow()).expect("accepted");
        }
    }
    clock.advance(2 * MS);
    assert_eq!(driver.turn(), 256);
    // The engine reads the clock once for each 64.
    let late = [1, 65, 128, 192].map(|ms| [ms * MS; 64]);
    assert_percentiles(&timer.stats().lateness, late.concat());
}

/// Returns the start of the engine's time.
fn timer_start(timer: &Timer, clock: &ManualClock) -> std::time::Instant {
    // The instant that it shows for a deadline at tick zero.
    let probe = timer.schedule_at(clock.now(), || ()).expect("accepted");
    let current = Duration::from_millis(timer.current_tick());
    let start = probe.deadline() - current;
    assert!(probe.cancel());
    start
}

#[test]
fn a_timeout_on_time_is_not_late_with_workers_either() {
    for mut rig in Rig::each(Timer::builder) {
        for ms in 0..20 {
            rig.timer.schedule_detached(ms * MS, || ()).expect("accepted");
        }
        let periodic = rig.timer.schedule_at_fixed_rate(MS, MS, || ()).expect("accepted");
        rig.settle();
        rig.walk(20);
        let lateness = rig.timer.stats().lateness;
        assert_eq!((lateness.count(), lateness.max()), (40, Duration::ZERO), "{}", rig.kind);
        rig.timer.schedule_detached(5 * MS, || ()).expect("accepted");
        assert!(periodic.cancel());
        rig.advance(8 * MS);
        assert_eq!(rig.timer.stats().lateness.max(), 3 * MS);
    }
}

#[test]
fn a_timeout_that_did_not_run_was_not_late() {
    let (clock, keeps) = (ManualClock::new(), Keeps::default());
    let timer = built(Timer::builder().clock(clock.clone()).executor(keeps.clone()));
    let cancelled = timer.schedule_at_fixed_rate(MS, MS, || ()).expect("accepted");
    let put_off = timer.schedule_at_fixed_rate(MS, MS, || ()).expect("accepted");
    clock.advance(MS);
    assert!(cancelled.cancel() && put_off.reset(MS));
    clock.advance(MS / 2);
    keeps.run();
    assert_eq!((timer.stats().fired, timer.stats().lateness.count()), (0, 0), "neither has run");
    clock.advance(MS / 2);
    keeps.run();
    assert_eq!((timer.stats().fired, timer.stats().lateness.count()), (1, 1));
}

#[test]
fn periodic_runs_are_counted_in_fired_and_those_that_go_on_in_repeated() {
    for mut rig in Rig::each(Timer::builder) {
        let mut left = 5;
        let task = move || {
            left -= 1;
            (left > 0).then_some(MS)
        };
        let ends = rig.timer.schedule_repeating(MS, task).expect("accepted");
        let goes_on = rig.timer.schedule_at_fixed_rate(2 * MS, 2 * MS, || ()).expect("accepted");
        rig.timer.schedule_detached(3 * MS, || ()).expect("accepted");
        rig.walk(10);
        assert!(ends.is_expired() && goes_on.is_pending());
        let stats = rig.timer.stats();
        assert_eq!((stats.scheduled, stats.fired, stats.repeated), (3, 11, 9), "{}", rig.kind);
        assert_eq!((stats.fired - stats.repeated, stats.pending), (2, 1), "for good");
        assert!(goes_on.cancel());
        let stats = rig.timer.stats();
        assert_eq!((stats.fired, stats.repeated, stats.cancelled, stats.pending), (11, 9, 1, 0));
        assert_counters_reconcile(&stats);
    }
}

#[test]
fn an_executor_that_drops_or_panics_is_counted_in_refused_and_all_runs_all_the_same() {
    let calls = AtomicUsize::new(0);
    let clock = ManualClock::new();
    let executor = move |expired: Expired| match calls.fetch_add(1, Ordering::Relaxed) % 3 {
        0 => expired.run(),
        1 => drop(expired),
        _ => {
            let _held = expired;
            panic!("on purpose, in an executor");
        }
    };
    let timer = Timer::builder().executor(executor).clock(clock.clone()).build().expect("the options make sense");
    let runs = Runs::new(9 * 10);
    for round in 0..9 {
        for id in 10 * round..10 * (round + 1) {
            timer.schedule_detached(MS, runs.task(id)).expect("accepted");
        }
        clock.advance(MS);
    }
    runs.assert_each_ran_once();
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.caller_ran, stats.panicked), (90, 60, 0));
    assert_counters_reconcile(&stats);
}

#[test]
fn the_whole_is_the_sum_of_the_shards() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().shards(4).max_pending_timeouts(5_000));
    let mut random = Random::new(2);
    let mut held = Vec::new();
    for n in 0..5_000_u64 {
        let shard = timer.shard_for(&n);
        let timeout = match n % 4 {
            0 => timer.schedule_repeating(random.duration(HOUR), || None).expect("accepted"),
            1 => timer.schedule_at_fixed_rate(MS, HOUR, || ()).expect("accepted"),
            _ => shard.schedule(random.duration(HOUR), || ()).expect("accepted"),
        };
        held.push(timeout);
    }
    (0..10_u8).for_each(|key| assert!(timer.shard_for(&key).schedule(MS, || ()).is_err()));
    driver.turn();
    thread::scope(|scope| {
        scope.spawn(|| held.iter().step_by(7).for_each(|timeout| _ = timeout.cancel()));
    });
    held.iter().skip(1).step_by(5).for_each(|timeout| _ = timeout.reset(random.duration(HOUR)));
    clock.advance(30 * 60 * 1_000 * MS);
    settle(&mut driver, &clock);
    let check = |stats: &Stats| {
        macro_rules! sums {
            ($($field:ident),*) => {
                $(assert_eq!(stats.shards.iter().fold(0, |sum, shard| sum + shard.$field), stats.$field);)*
            };
        }
        sums!(scheduled, fired, repeated, cancelled, returned, rejected, reset, relinked, cascaded, transferred);
        sums!(wakeups, turns, turns_over_budget, panicked_turns, pending, inbox_depth);
        let late: u64 = stats.shards.iter().map(|shard| shard.lateness.count()).sum();
        assert_eq!((stats.lateness.count(), late), (stats.fired, stats.fired));
        let max = stats.shards.iter().map(|shard| shard.lateness.max()).max();
        assert_eq!(Some(stats.lateness.max()), max);
        for shard in &stats.shards {
            assert!(shard.scheduled > 0 && shard.fired > 0 && shard.cancelled > 0 && shard.reset > 0);
            let ended = shard.fired + shard.cancelled + shard.returned;
            assert_eq!(
                shard.scheduled + shard.repeated,
                ended + shard.pending as u64,
                "each shard's counters reconcile"
            );
        }
        assert_counters_reconcile(stats);
    };
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.rejected, stats.pending), (5_000, 10, timer.pending()));
    check(&stats);
    let left = timer.shutdown().expect("the first");
    let stats = timer.stats();
    assert_eq!((stats.returned, stats.pending), (left.len() as u64, 0));
    check(&stats);
}

#[test]
fn lateness_shows_itself() {
    let (timer, mut driver, clock) = driven();
    timer.schedule_detached(MS, || ()).expect("accepted");
    clock.advance(3 * MS);
    driver.turn();
    let shown = format!("{:?}", timer.stats().lateness);
    assert!(shown.contains("count: 1") && shown.contains("max: 2ms"), "{shown}");
    assert_eq!(timer.stats().lateness, timer.stats().lateness.clone());
}

#[test]
fn as_many_runs_have_completed_as_have_fired_when_nothing_runs_and_not_before() {
    for mut rig in Rig::each(Timer::builder) {
        let own = rig.timer.clone();
        let seen = Arc::new(AtomicU64::new(u64::MAX));
        let saw = Arc::clone(&seen);
        let look = move || saw.store(own.stats().completed, Ordering::Relaxed);
        rig.timer.schedule_detached(MS, look).expect("accepted");
        rig.timer.schedule_detached(MS, || panic!("as this test wants it")).expect("accepted");
        let periodic = rig.timer.schedule_at_fixed_rate(MS, MS, || ()).expect("accepted");
        rig.walk(3);
        assert_eq!(seen.load(Ordering::Relaxed), 0, "{}: its own run has not ended", rig.kind);
        let stats = rig.timer.stats();
        assert_eq!((stats.fired, stats.completed, stats.shards[0].completed), (5, 5, 5), "{}", rig.kind);
        assert!(periodic.cancel());
    }
}

#[test]
fn no_snapshot_has_more_that_has_completed_than_has_fired() {
    let (timer, over) = (Timer::new().expect("there is memory"), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for _ in 0..100 {
                    timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
                }
            }
        });
        let looks = (0..2_000).map(|_| timer.stats()).find(|stats| stats.completed > stats.fired);
        over.store(true, Ordering::Relaxed);
        assert_eq!(looks.map(|stats| (stats.fired, stats.completed)), None);
    });
}

#[test]
fn a_future_that_a_shutdown_ends_has_not_fired_and_not_completed_and_is_not_late() {
    for mut rig in Rig::each(Timer::builder) {
        let mut sleeps = [MS, HOUR].map(|delay| rig.timer.sleep(delay));
        let mut poll = |index: usize| {
            let mut context = Context::from_waker(Waker::noop());
            Pin::new(&mut sleeps[index]).poll(&mut context)
        };
        assert!(poll(0).is_pending() && poll(1).is_pending());
        rig.advance(MS);
        assert!(rig.timer.shutdown().expect("it is no task").is_empty());
        assert!(poll(0).is_ready() && poll(1).is_ready());
        let stats = rig.timer.stats();
        assert_eq!((stats.fired, stats.returned, stats.completed), (1, 1, 1), "{}", rig.kind);
    }
}

#[test]
fn a_run_that_was_put_off_and_that_a_shutdown_fires_completes() {
    let (keeps, clock) = (Keeps::default(), ManualClock::new());
    let timer = built(Timer::builder().shards(1).clock(clock.clone()).executor(keeps.clone()));
    let periodic = timer.schedule_at_fixed_rate(MS, MS, || ()).expect("accepted");
    clock.advance(MS);
    assert_eq!(keeps.batches(), 1);
    assert!(periodic.reset(HOUR));
    assert!(timer.shutdown_with(Shutdown::FireNow).expect("it is no task").is_empty());
    keeps.run();
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.completed, stats.pending), (1, 1, 0));
    assert_eq!(stats.lateness.count(), 0, "it ran before its deadline");
}
