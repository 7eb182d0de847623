//! When timeouts fire: never early, at once if they are due, and never if their deadline is never.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tourbillon::{Clock, ManualClock, Timer};

use crate::common::{DAY, Drops, HOUR, MS, Runs, driven, driven_by, settle, settle_by};

/// Returns the last instant that exists.
fn end_of_time() -> Instant {
    let (mut end, mut step) = (Instant::now(), Duration::MAX);
    while step > Duration::from_nanos(1) {
        match end.checked_add(step) {
            Some(later) => end = later,
            None => step /= 2,
        }
    }
    end
}

#[test]
fn a_timeout_never_fires_early_and_fires_with_the_part_of_a_tick_that_its_deadline_is_rounded_up_to() {
    let (micros, nanos) = (Duration::from_micros, Duration::from_nanos);
    // Tick, time of the schedule, delay, time of the fire. A tick of 1 ms has 16 parts.
    let cases = [
        (micros(1000), micros(0), micros(1), nanos(62_500)),
        (micros(1000), micros(0), micros(999), micros(1000)),
        (micros(1000), micros(0), micros(1000), micros(1000)),
        (micros(1000), micros(500), micros(500), micros(1000)),
        (micros(1000), micros(500), micros(501), nanos(1_062_500)),
        (micros(300), micros(299), micros(2), nanos(337_500)),
        // One part.
        (micros(7), micros(0), micros(700), micros(700)),
        (micros(7), micros(1), nanos(700_001), micros(707)),
        // A tick of 1 us is one part.
        (micros(1), nanos(1), micros(3), micros(4)),
        (Duration::from_secs(3), micros(1), HOUR, HOUR + nanos(187_500_000)),
    ];
    for (tick, at, delay, fires) in cases {
        let (timer, mut driver, clock) = driven_by(Timer::builder().tick_duration(tick));
        let start = clock.now();
        clock.advance(at);
        let timeout = timer.schedule(delay, || ()).expect("accepted");
        assert_eq!(timeout.deadline(), start + fires);
        clock.advance(fires - at - Duration::from_nanos(1));
        assert_eq!(settle(&mut driver, &clock), 0, "early: {tick:?} {at:?} {delay:?}");
        clock.advance(Duration::from_nanos(1));
        assert_eq!(settle(&mut driver, &clock), 1, "late: {tick:?} {at:?} {delay:?}");
    }
}

#[test]
fn a_deadline_on_a_tick_is_not_pushed_on_by_one() {
    let (timer, mut driver, clock) = driven();
    for ticks in [1, 2, 7, 511, 512, 513, 1024, 262_144, 1_000_000] {
        let by_delay = timer.schedule(ticks * MS, || ()).expect("accepted");
        let by_deadline = timer.schedule_at(clock.now() + ticks * MS, || ()).expect("accepted");
        let by_reset = timer.schedule(HOUR, || ()).expect("accepted");
        assert!(by_reset.reset(ticks * MS));
        let by_reset_at = timer.schedule(HOUR, || ()).expect("accepted");
        assert!(by_reset_at.reset_at(clock.now() + ticks * MS));
        for timeout in [&by_delay, &by_deadline, &by_reset, &by_reset_at] {
            assert_eq!(timeout.deadline(), clock.now() + ticks * MS);
        }
        clock.advance(ticks * MS - Duration::from_nanos(1));
        assert_eq!(settle(&mut driver, &clock), 0);
        clock.advance(Duration::from_nanos(1));
        assert_eq!(settle(&mut driver, &clock), 4);
    }
}

#[test]
fn now_is_the_time_of_the_engines_clock_real_or_manual() {
    let real = Timer::new().expect("the defaults make sense");
    let (by_hand, _driver, clock) = driven();
    for _ in 0..2 {
        let before = Instant::now();
        let now = real.now();
        assert!(before <= now && now <= Instant::now());
        assert_eq!(by_hand.now(), clock.now());
        clock.advance(MS / 3);
        assert_eq!(by_hand.now(), clock.now());
    }
}

#[test]
fn no_delay_runs_at_once_wherever_in_a_tick() {
    let (timer, mut driver, clock) = driven();
    for _ in 0..4 {
        timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
        let reset = timer.schedule(HOUR, || ()).expect("accepted");
        assert!(reset.reset(Duration::ZERO));
        assert_eq!(driver.turn(), 2);
        clock.advance(Duration::from_micros(333));
    }
}

#[test]
fn a_past_deadline_or_a_reset_to_one_runs_at_once_wherever_in_a_tick() {
    let (timer, mut driver, clock) = driven();
    let (start, ns) = (clock.now(), Duration::from_nanos(1));
    for _ in 0..4 {
        for past in [start - DAY, start, clock.now() - ns, clock.now()] {
            let scheduled = timer.schedule_at(past, || ()).expect("accepted");
            assert_eq!(driver.turn(), 1, "a deadline {:?} ago", clock.now() - past);
            let reset = timer.schedule(HOUR, || ()).expect("accepted");
            assert!(reset.reset_at(past));
            assert_eq!(driver.turn(), 1, "a reset to {:?} ago", clock.now() - past);
            assert!(scheduled.is_expired() && reset.is_expired());
        }
        clock.advance(Duration::from_micros(333));
    }
}

#[test]
fn duration_max_never_fires_and_nothing_overflows() {
    for tick in [Duration::from_micros(1), Duration::from_nanos(1_100), MS, Duration::from_secs(u64::MAX >> 31)] {
        let drops = Drops::default();
        let (timer, mut driver, clock) = driven_by(Timer::builder().tick_duration(tick));
        clock.advance(Duration::from_micros(1500));
        let (start, never) = (clock.now(), || {
            let witness = drops.witness();
            move || panic!("never came, with a witness of {} bytes", size_of_val(&witness))
        });
        let timeouts = [
            timer.schedule(Duration::MAX, never()).expect("accepted"),
            timer.schedule_at(end_of_time(), never()).expect("accepted"),
            timer.schedule(MS, never()).expect("accepted"),
            timer.schedule(MS, never()).expect("accepted"),
        ];
        timer.schedule_detached(Duration::MAX, never()).expect("accepted");
        let many = timer.schedule_many(Duration::MAX, [never(), never()]).expect("accepted");
        assert!(timeouts[2].reset(Duration::MAX));
        assert!(timeouts[3].reset_at(end_of_time()));
        for _ in 0..20 {
            clock.advance(5 * 365 * DAY);
            assert_eq!(settle(&mut driver, &clock), 0);
        }
        for timeout in timeouts.iter().chain(&many) {
            assert!(timeout.is_pending());
            assert!(timeout.deadline() > start + 100 * 365 * DAY, "{:?}", timeout.deadline() - start);
        }
        assert_eq!(timer.stats().panicked, 0);
        assert_eq!(timer.pending(), 7);
        assert!(timeouts[0].reset(tick) && timeouts[1].cancel());
        assert!(timeouts[0].deadline() <= clock.now() + 2 * tick);
        assert_eq!(timer.shutdown().expect("the first").into_iter().filter(|left| left.deadline() > start).count(), 6);
        assert_eq!(drops.count(), 7, "every closure was dropped");
    }
}

#[test]
fn a_clock_at_its_last_instant_does_no_harm() {
    let (timer, mut driver, clock) = driven();
    clock.advance(Duration::MAX);
    let far = clock.now();
    clock.advance(HOUR);
    assert_eq!(clock.now(), far, "the clock stops where an instant ends to be one");
    timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
    let later = timer.schedule(HOUR, || ()).expect("accepted");
    assert_eq!(settle(&mut driver, &clock), 1);
    assert!(later.deadline() > far);
    assert!(later.reset_at(far - HOUR) && settle(&mut driver, &clock) == 1);
}

#[test]
fn the_clock_may_jump_by_any_length_and_all_that_is_due_fires() {
    for levels in [1, 2, 4] {
        let (timer, mut driver, clock) = driven_by(Timer::builder().levels(levels).ticks_per_wheel(16));
        let delays = (0..40).map(|bit| Duration::from_micros(1 << bit));
        let runs = Runs::new(40);
        for (id, delay) in delays.clone().enumerate() {
            timer.schedule_detached(delay, runs.task(id)).expect("accepted");
        }
        clock.advance(delays.clone().nth(30).expect("there are 40") + MS);
        assert_eq!(settle(&mut driver, &clock), 31, "{levels} levels");
        clock.advance(365 * DAY);
        assert_eq!(settle(&mut driver, &clock), 9, "{levels} levels");
        runs.assert_each_ran_once();
    }
}

/// A clock that goes farther than one that is moved by hand.
#[derive(Clone)]
struct Far(Instant, Arc<Mutex<Duration>>);

impl Far {
    fn advance(&self, by: Duration) {
        *self.1.lock().expect("no panic under this lock") += by;
    }
}

impl Clock for Far {
    fn now(&self) -> Instant {
        self.0 + *self.1.lock().expect("no panic under this lock")
    }
}

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn driven_by_far(start: Instant) -> (Timer, tourbillon::Driver, Far) {
    let clock = Far(start, Arc::default());
    let (timer, driver) = Timer::builder().clock(clock.clone()).build_driven().expect("the options make sense");
    (timer, driver, clock)
}

#[test]
fn a_time_to_come_that_is_not_counted_is_never_and_one_that_has_passed_is_now() {
    // Its last moment, as an engine counts 292 years; and beyond.
    for years in [292, 300, 600] {
        let (timer, mut driver, clock) = driven_by_far(Instant::now());
        let reset = timer.schedule(Duration::MAX, || ()).expect("accepted");
        clock.advance(years * YEAR + 200 * DAY);
        let soon = timer.now() + MS;
        let scheduled = timer.schedule_at(soon, || ()).expect("accepted");
        assert!(reset.reset_at(soon));
        assert_eq!(driver.turn(), 0, "{years} years");
        clock.advance(YEAR);
        assert!(settle_by(&mut driver, || clock.now()) == 0 && scheduled.is_pending() && reset.is_pending());
        let passed = timer.schedule_at(timer.now(), || ()).expect("accepted");
        assert!(reset.reset_at(timer.now() - HOUR));
        assert!(driver.turn() == 2 && passed.is_expired() && reset.is_expired());
    }
}

#[test]
fn an_instant_is_not_early_by_a_clock_that_began_centuries_before_the_process() {
    drop(Timer::builder().build_driven());
    for years in [1, 291, 293, 300, 584] {
        let Some(start) = Instant::now().checked_sub(years * YEAR) else { return };
        let (timer, mut driver, clock) = driven_by_far(start);
        let at = Instant::now() + DAY;
        let timeout = timer.schedule_at(at, || ()).expect("accepted");
        assert!(timeout.deadline() >= at, "{years} years");
        clock.advance(HOUR);
        assert_eq!(driver.turn(), 0, "{years} years");
        if years == 1 {
            clock.advance(at + MS - timer.now());
            assert_eq!(settle_by(&mut driver, || clock.now()), 1);
        }
    }
}

#[test]
fn a_long_tick_makes_no_delay_never_that_it_can_count() {
    // An odd tick is one part.
    let tick = 200 * YEAR + Duration::from_nanos(1);
    let (timer, mut driver, clock) = driven_by(Timer::builder().tick_duration(tick));
    let timeout = timer.schedule(199 * YEAR, || ()).expect("accepted");
    clock.advance(200 * YEAR);
    assert_eq!(settle(&mut driver, &clock), 0);
    clock.advance(Duration::from_nanos(1));
    assert!(settle(&mut driver, &clock) == 1 && timeout.is_expired());
}

#[test]
fn a_timeout_late_at_the_end_of_time_is_late_by_the_time_that_was_counted() {
    const END: Duration = Duration::from_secs(9_223_372_036);
    let (timer, mut driver, clock) = driven_by_far(Instant::now());
    clock.advance(END - Duration::from_secs(2));
    timer.schedule_detached(Duration::from_secs(1), || ()).expect("accepted");
    clock.advance(300 * YEAR);
    assert_eq!(driver.turn(), 1);
    assert_eq!(timer.stats().lateness.max(), Duration::from_secs(1));
    assert_eq!(u128::from(timer.current_tick()), END.as_millis());
    let health = timer.health();
    assert!(health.shards.iter().all(|shard| shard.behind.is_zero() && shard.last_turn == Some(Duration::ZERO)));
}

#[test]
fn never_does_not_come_also_when_the_engine_has_run_out_of_ticks() {
    let clock = Far(Instant::now(), Arc::default());
    let builder = Timer::builder().tick_duration(Duration::from_micros(1)).clock(clock.clone());
    let (timer, mut driver) = builder.build_driven().expect("the options make sense");
    let settle = |driver: &mut tourbillon::Driver| settle_by(driver, || clock.now());
    let runs = Runs::new(5);
    let never = timer.schedule(Duration::MAX, runs.task(0)).expect("accepted");
    let put_off = timer.schedule(5 * Duration::from_micros(1), runs.task(4)).expect("accepted");
    driver.turn();
    assert!(put_off.reset(Duration::MAX));
    timer.schedule_detached(292 * YEAR, runs.task(1)).expect("accepted");
    // 2^63 ns are 292.5 years.
    clock.advance(300 * YEAR);
    settle(&mut driver);
    assert!(put_off.is_pending(), "it was put off for ever");
    let too_far = timer.schedule(MS, runs.task(2)).expect("accepted");
    let periodic = timer.schedule_repeating(Duration::ZERO, || Some(Duration::ZERO)).expect("accepted");
    timer.schedule_detached(Duration::ZERO, runs.task(3)).expect("accepted");
    clock.advance(100 * DAY);
    assert_eq!(settle(&mut driver), 2, "what has no delay, and the first run of the periodic timeout");
    assert!(never.is_pending() && too_far.is_pending() && periodic.is_pending());
    assert_eq!([0, 1, 2, 3, 4].map(|id| runs.of(id)), [0, 1, 0, 1, 0]);
    assert_eq!(driver.next_wakeup(), None);
}

#[test]
fn a_timeout_does_not_fire_early_by_the_clock_that_the_user_reads() {
    let (send, receive) = std::sync::mpsc::channel();
    let timer = Timer::builder().tick_duration(Duration::from_micros(100)).build().expect("the options make sense");
    for n in 0..50_u32 {
        let (send, delay) = (send.clone(), n * Duration::from_micros(211));
        let before = Instant::now();
        let task = move || send.send((Instant::now(), before + delay)).expect("the test waits");
        timer.schedule_detached(delay, task).expect("accepted");
    }
    for _ in 0..50 {
        let (ran, deadline) = receive.recv_timeout(crate::common::PATIENCE).expect("it fires sometime");
        assert!(ran >= deadline, "{:?} early", deadline - ran);
    }
}

#[test]
fn the_defaults_are_those_of_the_documentation() {
    let timer = Timer::new().expect("the defaults make sense");
    assert_eq!(timer.tick_duration(), MS);
    assert_eq!(timer.ticks_per_wheel(), 512);
    assert!(timer.shards() >= 1);
    assert_eq!((timer.pending(), timer.is_shutdown()), (0, false));
}

#[test]
fn options_can_be_read_back_and_the_wheel_is_rounded_up_to_a_power_of_two() {
    let tick = Duration::from_micros(123);
    let clock = ManualClock::new();
    let builder = Timer::builder().shards(3).tick_duration(tick).ticks_per_wheel(100).clock(clock.clone());
    let (timer, _driver) = builder.build_driven().expect("the options make sense");
    assert_eq!((timer.shards(), timer.tick_duration(), timer.ticks_per_wheel()), (3, tick, 128));
    assert_eq!(timer.current_tick(), 0);
    clock.advance(10 * tick - Duration::from_nanos(1));
    assert_eq!(timer.current_tick(), 9);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(timer.current_tick(), 10);
}
