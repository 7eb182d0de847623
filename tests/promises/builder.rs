//! Options that make no sense are errors that name the value and the bound.

use std::time::Duration;

use tourbillon::{BuildError, Builder, Pinning, Timer, WaitStrategy};

use crate::common::{HOUR, MS, allowed_cores, eventually};

/// Returns the error of both ways to build, which is the same.
fn error_of(builder: fn() -> Builder) -> String {
    let driven = builder().build_driven().map(drop).expect_err("an option makes no sense");
    let with_workers = builder().build().map(drop).expect_err("an option makes no sense");
    assert_eq!(driven, with_workers);
    with_workers.to_string()
}

#[track_caller]
fn assert_names(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{error:?} does not name {part:?}");
    }
}

#[test]
fn zero_is_refused_by_name() {
    assert_names(&error_of(|| Timer::builder().shards(0)), &["shards", "zero"]);
    assert_names(&error_of(|| Timer::builder().tick_duration(Duration::ZERO)), &["tick_duration", "zero"]);
    assert_names(&error_of(|| Timer::builder().ticks_per_wheel(0)), &["ticks_per_wheel", "zero"]);
    assert_names(&error_of(|| Timer::builder().levels(0)), &["levels", "zero"]);
    assert_names(&error_of(|| Timer::builder().transfer_limit(0)), &["transfer_limit", "zero"]);
    assert_names(&error_of(|| Timer::builder().expiry_limit(0)), &["expiry_limit", "zero"]);
    assert_names(&error_of(|| Timer::builder().max_pending_timeouts(0)), &["max_pending_timeouts", "zero"]);
}

#[test]
fn too_much_is_refused_with_the_value_and_the_bound() {
    assert_names(&error_of(|| Timer::builder().shards(1025)), &["shards", "1025", "1024"]);
    assert_names(&error_of(|| Timer::builder().ticks_per_wheel((1 << 20) + 1)), &["ticks_per_wheel", "1048577"]);
    assert_names(&error_of(|| Timer::builder().ticks_per_wheel((1 << 20) + 1)), &["1048576"]);
    let too_long = || Timer::builder().tick_duration(Duration::from_secs(1 << 40));
    assert_names(&error_of(too_long), &["tick_duration", "1099511627776000000000", "9223372036000000000"]);
    let little = || Timer::builder().tick_duration(Duration::from_nanos(9_223_372_036_000_000_001));
    assert_names(&error_of(little), &["tick_duration", "9223372036000000001", "9223372036000000000"]);
    assert_names(&error_of(|| Timer::builder().levels(7)), &["levels", "7", "512", "6"]);
    let tall = || Timer::builder().ticks_per_wheel(3).levels(29);
    assert_names(&error_of(tall), &["levels", "29", "4", "27"]);
    assert_names(&error_of(|| Timer::builder().ticks_per_wheel(1).levels(2)), &["ticks_per_wheel", "1", "2"]);
    assert_names(&error_of(|| Timer::builder().capacity(usize::MAX)), &["capacity", &usize::MAX.to_string()]);
}

#[test]
fn a_tick_that_would_run_out_within_a_hundred_years_is_refused_with_the_shortest_one() {
    let short = || Timer::builder().tick_duration(Duration::from_nanos(1));
    assert_names(&error_of(short), &["tick_duration", "is 1 ns", "1000 ns"]);
    let short = || Timer::builder().tick_duration(Duration::from_nanos(999));
    assert_names(&error_of(short), &["tick_duration", "is 999 ns", "1000 ns"]);
}

#[test]
fn the_largest_values_are_errors_and_not_panics() {
    let max = usize::MAX;
    assert_names(&error_of(|| Timer::builder().ticks_per_wheel(usize::MAX)), &["ticks_per_wheel", &max.to_string()]);
    assert_names(&error_of(|| Timer::builder().levels(usize::MAX)), &["levels", &max.to_string()]);
    assert_names(&error_of(|| Timer::builder().tick_duration(Duration::MAX)), &["tick_duration"]);
    assert_names(&error_of(|| Timer::builder().shards(usize::MAX)), &["shards", &max.to_string(), "1024"]);
}

#[test]
fn the_largest_and_smallest_values_that_are_allowed_make_an_engine_that_works() {
    let builders = [
        Timer::builder().shards(1024).ticks_per_wheel(1).levels(1),
        Timer::builder().ticks_per_wheel(1 << 20).levels(2),
        Timer::builder().ticks_per_wheel(2).levels(55),
        Timer::builder().ticks_per_wheel(4).levels(27),
        Timer::builder().tick_duration(Duration::from_micros(1)),
        Timer::builder().tick_duration(Duration::from_nanos(u64::MAX / 4)),
        Timer::builder().transfer_limit(1).expiry_limit(1),
        Timer::builder().transfer_limit(usize::MAX).expiry_limit(usize::MAX).max_pending_timeouts(usize::MAX),
        Timer::builder().capacity(1),
    ];
    for builder in builders {
        let shown = format!("{builder:?}");
        let (timer, mut driver, clock) = crate::common::driven_by(builder);
        let timeout = timer.schedule(5 * MS, || ()).expect("accepted");
        clock.advance(timeout.deadline().saturating_duration_since(clock.now()));
        assert_eq!(crate::common::settle(&mut driver, &clock), 1, "{shown}");
        assert!(timeout.is_expired());
    }
}

#[test]
fn a_core_outside_of_the_cpuset_is_refused_with_those_inside() {
    let allowed = allowed_cores();
    let outside = (0..).find(|core| !allowed.contains(core)).expect("there are more numbers than cores");
    let error = Timer::builder().pinning(Pinning::Cores(vec![allowed[0], outside])).build().expect_err("outside");
    assert_eq!(error, BuildError::UnknownCore { core: outside, allowed: allowed.clone() });
    assert_names(&error.to_string(), &[&format!("core {outside}"), &format!("{allowed:?}")]);
    let unknown = Timer::builder().pinning(Pinning::Cores(vec![usize::MAX])).build().expect_err("no such core");
    assert_names(&unknown.to_string(), &[&usize::MAX.to_string()]);
    let none = Timer::builder().pinning(Pinning::Cores(Vec::new())).build().expect_err("no core at all");
    assert_names(&none.to_string(), &["cores", "zero"]);
}

#[test]
fn capacity_is_reserved_by_build_and_not_exceeded_while_it_suffices() {
    let (timer, _driver, _clock) = crate::common::driven_by(Timer::builder().capacity(1000));
    assert_eq!(timer.stats().capacity, 1000);
    drop(timer.schedule_many(MS, (0..1000).map(|_| || ())).expect("accepted"));
    assert_eq!(timer.stats().capacity, 1000);
    timer.schedule_detached(MS, || ()).expect("more are allocated when they are needed");
    assert!(timer.stats().capacity > 1000);
}

#[test]
fn every_wait_strategy_works() {
    let strategies = [WaitStrategy::Park, WaitStrategy::Hybrid { spin: MS }, WaitStrategy::Spin];
    for wait in strategies.into_iter().chain([WaitStrategy::Hybrid { spin: Duration::MAX }]) {
        let timer = Timer::builder().wait(wait).build().expect("the options make sense");
        for delay in [Duration::ZERO, MS, 20 * MS] {
            let timeout = timer.schedule(delay, || ()).expect("accepted");
            crate::common::eventually("it fires", || timeout.is_expired());
        }
        assert!(timer.shutdown().is_ok());
    }
}

#[test]
fn the_global_timer_is_one_engine_for_the_whole_process() {
    let global = std::ptr::from_ref(Timer::global());
    let elsewhere = std::thread::spawn(|| std::ptr::from_ref(Timer::global()).addr()).join().expect("no panic");
    assert_eq!(global.addr(), elsewhere);
    let timeout = Timer::global().schedule(MS, || ()).expect("accepted");
    eventually("it fires", || timeout.is_expired());
    drop(Timer::global().clone());
    assert!(Timer::global().schedule(HOUR, || ()).expect("it is never dropped").cancel());
}
