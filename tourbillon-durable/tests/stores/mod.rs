//! The stores that the tests run on.

use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A store of a test's own.
pub(crate) enum Place {
    /// A file in a directory that goes with it.
    Sqlite(TempDir),
}

impl Place {
    /// What `DurableTimer::open` takes.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite(directory) => directory.path().join("timeouts.db").to_str().unwrap().to_owned(),
        }
    }
}

/// Runs a test on each store, which is new.
pub(crate) fn each_store(test: impl Fn(&Place)) {
    test(&Place::Sqlite(tempfile::tempdir().unwrap()));
}

/// Waits until it holds, and fails if it does not.
pub(crate) fn until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "it has not come about in 30 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}
