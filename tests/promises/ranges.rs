//! `schedule_between`: within the range, at a tick that others share, but not with too many of
//! them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Inline, Timer};

use crate::common::{DAY, HOUR, MS, Random, Rig, Times, driven, driven_by, eventually, settle};

#[test]
fn never_before_the_earliest_nor_for_after_the_latest() {
    for tick in [MS, Duration::from_micros(300), Duration::from_secs(1)] {
        let (timer, mut driver, clock) = driven_by(Timer::builder().tick_duration(tick).shards(3));
        let mut random = Random::new(5);
        let late: Arc<Mutex<Vec<(Duration, Duration, Duration)>>> = Arc::default();
        for n in 0..3_000_u64 {
            let earliest = random.duration(2 * HOUR);
            let latest = earliest + tick + random.duration(HOUR);
            let (scheduled, own, seen) = (clock.now(), clock.clone(), Arc::clone(&late));
            let task = move || seen.lock().expect("no panic").push((earliest, own.now() - scheduled, latest));
            let timeout = timer.shard_for(&n).schedule_between(earliest, latest, task).expect("accepted");
            let deadline = timeout.deadline() - scheduled;
            assert!(earliest <= deadline && deadline <= latest, "{earliest:?} {deadline:?} {latest:?}");
            // Not always at the beginning of a tick.
            clock.advance(random.duration(tick));
            settle(&mut driver, &clock);
        }
        while let Some(at) = driver.next_wakeup() {
            clock.advance(at.saturating_duration_since(clock.now()));
            driver.turn();
        }
        let late = late.lock().expect("no panic");
        assert_eq!(late.len(), 3_000);
        // The clock moves by up to a tick at a time, so a timeout may run late by that much.
        assert!(late.iter().all(|(earliest, ran, latest)| earliest <= ran && *ran <= *latest + tick), "on time");
    }
}

#[test]
fn a_range_of_less_than_a_tick_or_that_ends_before_it_begins_is_its_earliest() {
    for mut rig in Rig::each(Timer::builder) {
        rig.advance(Duration::from_micros(400));
        let times = Times::on(&rig.clock);
        let ranges = [(5 * MS, 5 * MS), (5 * MS, Duration::from_micros(5_300)), (5 * MS, MS), (5 * MS, Duration::ZERO)];
        let exact = rig.timer.schedule(5 * MS, || ()).expect("accepted").deadline();
        for (earliest, latest) in ranges {
            let noted = times.clone();
            let timeout = rig.timer.schedule_between(earliest, latest, move || noted.note()).expect("accepted");
            assert_eq!(timeout.deadline(), exact);
        }
        let noted = times.clone();
        drop(rig.timer.schedule_between(Duration::ZERO, Duration::ZERO, move || noted.note()).expect("accepted"));
        rig.settle();
        assert_eq!(times.in_ms(), [0], "no delay is at once, {}", rig.kind);
        rig.advance(6 * MS);
        assert_eq!(times.count(), 5);
    }
}

#[test]
fn a_range_that_ends_at_never_is_not_put_off_for_ever() {
    let (timer, mut driver, clock) = driven();
    let open = timer.schedule_between(MS, Duration::MAX, || ()).expect("accepted");
    let never = timer.schedule_between(Duration::MAX, Duration::MAX, || ()).expect("accepted");
    clock.advance(400 * DAY);
    settle(&mut driver, &clock);
    assert!(open.is_expired() || open.deadline() > clock.now());
    assert!(never.is_pending());
}

#[test]
fn timeouts_whose_ranges_overlap_share_ticks() {
    let (timer, mut driver, clock) = driven();
    let mut wakes = |width: Duration| {
        let deadlines: Vec<_> = (0..1_000)
            .map(|_| {
                clock.advance(MS);
                let earliest = Duration::from_secs(60);
                let timeout = timer.schedule_between(earliest, earliest + width, || ());
                timeout.expect("accepted").deadline()
            })
            .collect();
        driver.turn();
        let mut turns = 0;
        while let Some(at) = driver.next_wakeup() {
            clock.advance(at.saturating_duration_since(clock.now()));
            turns += usize::from(driver.turn() > 0);
        }
        let distinct: std::collections::BTreeSet<_> = deadlines.into_iter().collect();
        (distinct.len(), turns)
    };
    assert_eq!(wakes(Duration::ZERO), (1_000, 1_000));
    let (distinct, turns) = wakes(5_000 * MS);
    assert!(distinct <= 4 && turns <= 4, "{distinct} ticks, {turns} turns");
}

#[test]
fn a_burst_is_spread_over_its_range() {
    let (timer, _driver, _clock) = driven();
    let mut ticks: BTreeMap<Instant, usize> = BTreeMap::new();
    for _ in 0..100_000 {
        let timeout = timer.schedule_between(HOUR, HOUR + 1_000 * MS, || ()).expect("accepted");
        *ticks.entry(timeout.deadline()).or_default() += 1;
    }
    let most = ticks.values().max().expect("some");
    assert!(*most <= 1_300, "{most} in one tick");
    // Up to a thousand may share one.
    assert!(ticks.len() >= 77, "{} ticks", ticks.len());
}

#[test]
fn a_reset_of_a_range_is_exact_and_a_cancel_cancels() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let noting = || {
            let times = times.clone();
            move || times.note()
        };
        let reset = rig.timer.schedule_between(100 * MS, HOUR, noting()).expect("accepted");
        let cancelled = rig.timer.schedule_between(MS, 50 * MS, noting()).expect("accepted");
        rig.settle();
        assert!(reset.reset(7 * MS) && cancelled.cancel());
        rig.walk(60);
        assert_eq!(times.in_ms(), [7], "{}", rig.kind);
    }
}

#[test]
fn a_range_is_refused_like_any_other_timeout() {
    let (timer, _driver, _clock) = driven_by(Timer::builder().max_pending_timeouts(1));
    let times = Times::on(&tourbillon::ManualClock::new());
    let noted = times.clone();
    let _only = timer.schedule_between(MS, HOUR, || ()).expect("there is room");
    let error = timer.schedule_between(MS, HOUR, move || noted.note()).expect_err("full");
    assert!(error.is_full());
    error.into_inner()();
    assert_eq!((timer.shutdown().expect("the first").len(), times.count()), (1, 1));
    assert!(timer.schedule_between(MS, HOUR, || ()).expect_err("shut down").is_shutdown());
}

#[test]
fn by_the_real_clock_it_is_not_early_and_from_many_threads_in_its_range() {
    let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
    let early: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let ran = Times::on(&tourbillon::ManualClock::new());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for n in 0..100 {
                    let (early, ran) = (Arc::clone(&early), ran.clone());
                    let (earliest, start) = (Duration::from_micros(500 * n), Instant::now());
                    let task = move || {
                        if start.elapsed() < earliest {
                            early.lock().expect("no panic").push(earliest);
                        }
                        ran.note();
                    };
                    drop(timer.schedule_between(earliest, earliest + 20 * MS, task).expect("accepted"));
                }
            });
        }
    });
    eventually("all fire", || ran.count() == 300);
    assert!(early.lock().expect("no panic").is_empty(), "{early:?}");
}
