//! The definition of lateness, to the nanosecond, and the lateness of an interval.

use std::time::{Duration, Instant};

use tourbillon::{Clock, Driver, Lateness, ManualClock, Timer};

use crate::common::{HOUR, MS, Random, driven_by, settle};

const SECOND: Duration = Duration::from_secs(1);
/// The tick of these tests.
const TICK: Duration = Duration::from_millis(10);
/// Deadlines are rounded up to so much at most: a 1,024th of a tick.
const PART: Duration = Duration::from_micros(625);

/// A clock that the engine knows nothing of, so that it treats it as a real one.
struct Users(ManualClock);

impl Clock for Users {
    fn now(&self) -> Instant {
        self.0.now()
    }
}

fn with_users_clock() -> (Timer, Driver, ManualClock) {
    let clock = ManualClock::new();
    let builder = Timer::builder().tick_duration(TICK).clock(Users(clock.clone()));
    let (timer, driver) = builder.build_driven().expect("the options make sense");
    (timer, driver, clock)
}

/// Lets one task be late by this.
fn be_late(timer: &Timer, driver: &mut Driver, clock: &ManualClock, by: Duration) {
    timer.schedule_detached(MS, || ()).expect("accepted");
    clock.advance(MS + by);
    assert_eq!(settle(driver, clock), 1);
}

#[test]
fn lateness_counts_from_the_deadline_that_was_asked_for_and_lacks_less_than_a_part_of_a_tick() {
    let mut random = Random::new(11);
    for _ in 0..200 {
        let (timer, mut driver, clock) = driven_by(Timer::builder().tick_duration(TICK));
        clock.advance(random.duration(HOUR));
        let (delay, late) = (random.duration(SECOND) + MS, random.duration(SECOND));
        timer.schedule_detached(delay, || ()).expect("accepted");
        clock.advance(delay + PART + late);
        assert_eq!(settle(&mut driver, &clock), 1);
        let (said, exact) = (timer.stats().lateness.max(), PART + late);
        assert!(said <= exact && exact - said <= PART, "{said:?} for {exact:?}");
    }
}

#[test]
fn a_driven_engine_runs_each_timeout_of_a_tick_with_its_own_deadline() {
    let (timer, mut driver, clock) = with_users_clock();
    // In the middle of a tick, as calls are.
    clock.advance(3 * TICK + MS);
    for delay in [2 * MS, 8 * MS] {
        timer.schedule_detached(delay, || ()).expect("accepted");
    }
    assert_eq!(driver.turn(), 0);
    clock.advance(2 * MS + PART);
    assert_eq!(driver.turn(), 1);
    clock.advance(6 * MS);
    assert_eq!(driver.turn(), 1);
    assert!(timer.stats().lateness.max() <= PART);
}

#[test]
fn a_timeout_that_is_alone_in_its_tick_is_not_late_by_the_rest_of_it() {
    let (timer, mut driver, clock) = with_users_clock();
    clock.advance(3 * TICK + MS);
    timer.schedule_detached(2 * MS, || ()).expect("accepted");
    assert_eq!(driver.turn(), 0);
    clock.advance(2 * MS + PART);
    assert_eq!(driver.turn(), 1);
    assert!(timer.stats().lateness.max() <= PART);
}

#[test]
fn a_delay_of_zero_counts_from_the_tick_that_has_come() {
    for (timer, mut driver, clock) in [driven_by(Timer::builder().tick_duration(TICK)), with_users_clock()] {
        clock.advance(3 * TICK + 4 * MS);
        timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
        drop(timer.schedule_at(clock.now() - HOUR, || ()).expect("accepted"));
        assert_eq!(settle(&mut driver, &clock), 2);
        let lateness = timer.stats().lateness;
        assert_eq!((lateness.percentile(0.0), lateness.max()), (4 * MS, 4 * MS));
    }
}

#[test]
fn a_reset_timeout_is_late_from_its_new_deadline() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().tick_duration(TICK));
    let timeout = timer.schedule(SECOND, || ()).expect("accepted");
    assert_eq!(settle(&mut driver, &clock), 0);
    clock.advance(SECOND / 2);
    assert!(timeout.reset(SECOND));
    clock.advance(SECOND + 3 * MS);
    assert_eq!(settle(&mut driver, &clock), 1);
    assert_eq!(timer.stats().lateness.max(), 3 * MS);
}

#[test]
fn the_lateness_of_an_interval_knows_only_what_came_in_it() {
    let (timer, mut driver, clock) = driven_by(Timer::builder());
    be_late(&timer, &mut driver, &clock, 900 * MS);
    let before = timer.stats().lateness;
    be_late(&timer, &mut driver, &clock, 20 * MS);
    be_late(&timer, &mut driver, &clock, 30 * MS);
    let since = timer.stats().lateness.since(&before);
    assert_eq!(since.count(), 2);
    // Its parts of a tick, and a sixteenth.
    let about = |said: Duration, exact: Duration| said >= exact - MS / 512 && said <= exact + exact / 16;
    assert!(about(since.percentile(50.0), 20 * MS) && about(since.max(), 30 * MS), "{since:?}");
    assert_eq!((since.count_at_most(25 * MS), since.count_at_most(HOUR)), (1, 2));
    let nothing = timer.stats().lateness.since(&timer.stats().lateness);
    assert_eq!((nothing.count(), nothing.max(), nothing.percentile(99.0)), (0, Duration::ZERO, Duration::ZERO));
    assert_eq!(timer.stats().lateness.since(&Lateness::default()), timer.stats().lateness);
}
