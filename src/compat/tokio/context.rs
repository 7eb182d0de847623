//! The engine and the time of the calling task.

#[cfg(feature = "test-util")]
pub(super) use super::test_clock::Leaves;
#[cfg(feature = "test-util")]
use super::test_clock::RuntimeEngine;
use super::{Duration, Instant};
use crate::Timer;

/// What a future drops after what it was made of. Only the engine of a test has to know.
#[cfg(not(feature = "test-util"))]
#[derive(Debug, Default)]
pub(super) struct Leaves {}

/// Calls `make` with the engine that the calling task's futures belong to.
#[track_caller]
pub(super) fn with_timer<R>(make: impl FnOnce(&Timer) -> R) -> (R, Leaves) {
    #[cfg(feature = "test-util")]
    if let Some(engine) = RuntimeEngine::of_this_runtime() {
        return (make(&engine.timer), engine.leaves());
    }
    #[cfg(all(debug_assertions, not(feature = "test-util")))]
    assert_real_clock();
    (make(Timer::global()), Leaves::default())
}

/// Panics if Tokio's clock shows another time than the real one, by which the global engine goes.
///
/// A clock that was never paused shows a time between two readings of the real one. So the call
/// never panics without a cause. Release builds do not pay for its three readings.
#[cfg(all(debug_assertions, not(feature = "test-util")))]
#[track_caller]
fn assert_real_clock() {
    let before = std::time::Instant::now();
    let theirs = Instant::now().into_std();
    let is_real = (before..=std::time::Instant::now()).contains(&theirs);
    assert!(
        is_real,
        "this runtime's clock is or was paused, and tourbillon goes by the real one: \
         give it the feature `test-util` in dev-dependencies"
    );
}

/// Returns a sleep that begins now. Like Tokio's, one of no duration is not ready at its first
/// poll.
pub(super) fn begin(timer: &Timer, duration: Duration) -> crate::Sleep {
    if duration.is_zero() { timer.sleep_until(Instant::now().into_std()) } else { timer.sleep(duration) }
}

/// Returns the time `duration` from now. What is too far to be counted is 30 years from now, as it
/// is for Tokio.
pub(in crate::compat) fn after(duration: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR)
}
