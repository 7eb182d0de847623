//! The three cases of Dubbo's HashedWheelTimerTest.

use std::sync::mpsc::channel;
use std::time::Duration;

use tourbillon::{BuildError, Builder, ShutdownError, Timer};

use crate::common::{HOUR, MS, PATIENCE, Runs, in_time, on_workers, threads_named};

fn refusal(builder: Builder) -> Option<BuildError> {
    builder.build().err()
}

/// Dubbo, constructorTest.
#[test]
fn wrong_arguments_build_nothing_and_a_hundred_engines_cost_no_thread() {
    assert_eq!(
        refusal(Timer::builder().tick_duration(Duration::ZERO)),
        Some(BuildError::Zero { option: "tick_duration" })
    );
    assert_eq!(refusal(Timer::builder().ticks_per_wheel(0)), Some(BuildError::Zero { option: "ticks_per_wheel" }));
    // Dubbo allows 2^30 ticks a wheel, and takes the memory for them.
    let too_large = BuildError::TooLarge { option: "ticks_per_wheel", value: (1 << 30) + 1, max: 1 << 20 };
    assert_eq!(refusal(Timer::builder().ticks_per_wheel((1 << 30) + 1)), Some(too_large));
    // The tick whose length overflows when it is multiplied by the wheel's size.
    let overflows = refusal(Timer::builder().tick_duration(Duration::MAX));
    assert!(matches!(overflows, Some(BuildError::TooLarge { option: "tick_duration", .. })), "{overflows:?}");
    // Dubbo complains about more than 64 of them.
    let engines: Vec<_> = (0..100).map(|_| Timer::builder().thread_name("dubboc").build().expect("sensible")).collect();
    assert!(engines.iter().all(|timer| timer.pending() == 0 && !timer.is_shutdown()));
    assert_eq!(threads_named("dubboc").len(), 0);
}

/// Dubbo, createTaskTest.
#[test]
fn tasks_that_fail_are_late_or_too_many_leave_the_engine_as_it_was() {
    let (timer, clock) = on_workers(Timer::builder().max_pending_timeouts(8));
    let runs = Runs::new(9);
    let failed = timer.schedule(10 * MS, || panic!("on purpose")).expect("accepted");
    clock.advance(10 * MS);
    assert!(failed.is_expired() && !failed.cancel(), "it has run, though it failed");
    assert!(format!("{failed:?}").contains("expired") && format!("{timer:?}").contains("Timer"));
    assert_eq!((timer.stats().panicked, timer.pending()), (1, 0));
    // A delay below zero is a deadline that has passed.
    for id in 0..8 {
        let past = clock.now() - MS * u32::try_from(id).expect("few");
        drop(timer.schedule_at(past, runs.task(id)).expect("there is room"));
        clock.advance(Duration::ZERO);
        assert_eq!(runs.of(id), 1, "at once");
    }
    drop(timer.schedule_many(HOUR, (0..8).map(|_| || ())).expect("there is room for eight"));
    let ninth = timer.schedule(MS, runs.task(8)).expect_err("full");
    assert!(ninth.is_full(), "{ninth:?}");
}

/// Dubbo, stopTaskTest.
#[test]
fn a_task_cannot_stop_its_own_engine_but_any_other_thread_can() {
    in_time("a shutdown that waits for its own caller", || {
        let timer = Timer::new().expect("the defaults make sense");
        let (send, receive) = channel();
        let own = timer.clone();
        let task = move || send.send((own.shutdown().err(), own.is_shutdown())).expect("the test waits");
        timer.schedule_detached(MS, task).expect("accepted");
        let answer = receive.recv_timeout(PATIENCE).expect("it runs");
        assert_eq!(answer, (Some(ShutdownError::FromTask), false));
        timer.schedule_detached(HOUR, || ()).expect("the refused shutdown has changed nothing");
        assert_eq!(timer.shutdown().expect("the first").len(), 1);
        assert!(timer.is_shutdown());
        assert!(timer.schedule(MS, || ()).is_err_and(|error| error.is_shutdown()));
    });
}
