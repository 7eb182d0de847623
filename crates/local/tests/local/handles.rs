//! What the handles, errors and futures of a local engine answer.

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
#[cfg_attr(miri, ignore = "a million slots")]
fn the_largest_wheel_is_allowed() {
    assert!(LocalTimer::builder().ticks_per_wheel(1 << 20).levels(1).build().is_ok());
}
