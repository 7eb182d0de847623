//! The stores that the tests run on.

#[cfg(feature = "postgres")]
#[path = "../support/postgres.rs"]
#[allow(dead_code, reason = "the tests of several processes use the rest")]
mod postgres;

use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a test waits for what must happen sometime, even on a heavily loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store of a test's own.
pub(crate) enum Place {
    /// A file in a directory that goes with it.
    Sqlite(TempDir),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Server),
}

impl Place {
    /// What `DurableTimer::open` takes.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite(directory) => directory.path().join("timeouts.db").to_str().unwrap().to_owned(),
            #[cfg(feature = "postgres")]
            Self::Postgres(server) => server.url(),
        }
    }
}

/// Runs a test on each store, which is new.
pub(crate) fn each_store(test: impl Fn(&Place)) {
    test(&Place::Sqlite(tempfile::tempdir().unwrap()));
    #[cfg(feature = "postgres")]
    if let Some(server) = postgres::Server::start() {
        test(&Place::Postgres(server));
    }
}

/// Waits until it holds, and fails if it does not.
pub(crate) fn until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "it has not come about in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
