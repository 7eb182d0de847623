//! The answers of the handles, errors and futures of a local engine.

use super::*;

#[test]
fn a_handle_says_how_far_its_timeout_is() {
    let mut engine = Engine::new();
    let timeout = engine.timer.schedule(SECOND, || ()).expect("room");
    let cancelled = engine.timer.schedule(SECOND, || ()).expect("room");
    assert!(timeout.is_pending() && !timeout.is_expired() && !timeout.is_cancelled());
    assert!(timeout.reset_at(engine.timer.now() + 2 * SECOND) && cancelled.cancel());
    assert_eq!(engine.pass(SECOND), 0);
    assert!(cancelled.is_cancelled() && !cancelled.is_expired() && !cancelled.reset_at(engine.timer.now()));
    assert_eq!(engine.pass(SECOND), 1);
    assert!(timeout.is_expired() && !timeout.is_cancelled() && !timeout.reset_at(engine.timer.now() + SECOND));
}

#[test]
fn a_sleep_says_whether_it_is_over() {
    let mut engine = Engine::new();
    let mut sleep = engine.timer.sleep(SECOND);
    assert!(!sleep.is_elapsed());
    assert!(poll(&mut sleep, Waker::noop()).is_pending() && !sleep.is_elapsed());
    engine.pass(SECOND);
    assert!(sleep.is_elapsed());
    assert!(poll(&mut sleep, Waker::noop()).is_ready() && sleep.is_elapsed() && !sleep.ended_by_shutdown());
}

#[test]
fn a_limit_whose_time_is_up_was_not_ended_by_its_driver() {
    let mut engine = Engine::new();
    let mut limit = pin!(engine.timer.timeout(SECOND, pending::<()>()));
    assert!(poll(&mut limit, Waker::noop()).is_pending());
    engine.pass(SECOND);
    let Poll::Ready(Err(elapsed)) = poll(&mut limit, Waker::noop()) else { panic!("the time is up") };
    assert!(!elapsed.is_shutdown());
}

#[test]
fn a_refused_task_comes_back_with_the_reason() {
    let Engine { timer, driver, .. } = Engine::new();
    let log = Log::default();
    drop(driver);
    let refused = timer.schedule(SECOND, log.task(7)).map(drop).expect_err("the driver is gone");
    assert!(refused.kind() == Refusal::Shutdown && refused.is_shutdown() && !refused.is_full());
    assert_eq!(refused.to_string(), Refusal::Shutdown.to_string());
    refused.into_inner()();
    assert_eq!(log.take(), [7]);
    let without = timer.schedule_detached(SECOND, || ()).expect_err("the driver is gone").without_task();
    assert!(without.kind() == Refusal::Shutdown && without.is_shutdown());
}

#[test]
fn a_time_that_has_passed_is_now_or_at_the_end_of_this_part_of_a_tick() {
    let clock = ManualClock::new();
    let builder = LocalTimer::builder().clock(clock.clone()).tick_duration(1_600 * SECOND);
    let (timer, mut driver) = builder.build().expect("an engine");
    clock.advance(110 * SECOND);
    let ready = |ago| poll(&mut timer.sleep_until(timer.now() - ago), Waker::noop()).is_ready();
    assert_eq!([200, 100, 10, 9, 0].map(|ago| ready(ago * SECOND)), [true, true, true, false, false]);
    let timeouts = [10, 9].map(|ago| timer.schedule_at(timer.now() - ago * SECOND, || ()).expect("room"));
    assert_eq!((driver.turn(), timeouts.each_ref().map(LocalTimeout::is_expired)), (1, [true, false]));
    clock.advance(90 * SECOND);
    assert_eq!((driver.turn(), timeouts[1].is_expired()), (1, true));
}

#[test]
fn a_time_to_come_that_is_not_counted_is_never() {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
    struct Far(Instant, Arc<AtomicUsize>);
    impl tourbillon::Clock for Far {
        fn now(&self) -> Instant {
            self.0 + YEAR * u32::try_from(self.1.load(Ordering::Relaxed)).expect("a few years")
        }
    }
    let years = Arc::new(AtomicUsize::new(0));
    let (timer, mut driver) =
        LocalTimer::builder().clock(Far(Instant::now(), Arc::clone(&years))).build().expect("an engine");
    for passed in [293, 300, 600] {
        years.store(passed, Ordering::Relaxed);
        let later = timer.schedule_at(timer.now() + YEAR, || ()).expect("room");
        let now = timer.schedule(Duration::ZERO, || ()).expect("room");
        assert!(driver.turn() == 1 && now.is_expired() && later.is_pending(), "{passed} years");
        assert_eq!(driver.next_wakeup(), None);
    }
}

#[test]
fn a_long_tick_makes_no_delay_never_that_it_can_count() {
    let clock = ManualClock::new();
    let century = Duration::from_secs(3_155_760_000);
    let builder = LocalTimer::builder().clock(clock.clone()).tick_duration(2 * century);
    let (timer, mut driver) = builder.build().expect("an engine");
    // 23 parts of a tick are 287.5 years.
    let timeout = timer.schedule(century / 20 * 57, || ()).expect("room");
    clock.advance(century / 8 * 23 - Duration::from_nanos(1));
    assert_eq!(driver.turn(), 0);
    clock.advance(Duration::from_nanos(1));
    assert!(driver.turn() == 1 && timeout.is_expired());
}

#[test]
#[cfg_attr(miri, ignore = "a million slots")]
fn the_largest_wheel_is_allowed() {
    assert!(LocalTimer::builder().ticks_per_wheel(1 << 20).levels(1).build().is_ok());
}
