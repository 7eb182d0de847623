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
        return (make(engine.timer()), engine.leaves());
    }
    (make(Timer::global()), Leaves::default())
}

/// Returns the time `duration` from now. What is too far to be counted is 30 years from now, as it
/// is for Tokio.
pub(in crate::compat) fn after(duration: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR)
}
