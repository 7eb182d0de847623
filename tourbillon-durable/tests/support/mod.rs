//! What the tests with several processes share: a PostgreSQL server of their own, processes that
//! can be stopped and killed, the history that these write, and the checker that reads it.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

pub(crate) mod checker;
pub(crate) mod history;
pub(crate) mod player;
#[cfg(feature = "postgres")]
pub(crate) mod pooler;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod runs;

use std::time::{Duration, Instant};

/// How long a test waits for what must happen sometime, even on a heavily loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the number in an environment variable, or `default` if it is not set.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    let Ok(value) = std::env::var(variable) else { return default };
    value.parse().unwrap_or_else(|_| panic!("{variable} is {value:?}: a whole number would be right"))
}

/// Waits until it holds, and fails if it does not.
#[track_caller]
pub(crate) fn until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "it has not come about in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
