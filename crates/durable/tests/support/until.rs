//! Waits for what must happen sometime.

use std::time::{Duration, Instant};

/// How long a test waits for what must happen sometime, even on a heavily loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until it holds, and fails if it does not.
#[track_caller]
pub(crate) fn until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "it has not come about in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
