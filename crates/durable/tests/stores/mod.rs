//! The stores that the tests run on.

#[cfg(feature = "postgres")]
#[path = "../support/postgres.rs"]
#[allow(dead_code, reason = "the tests of several processes use the rest")]
mod postgres;
#[path = "../support/started.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod started;
#[path = "../support/until.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod until;

use tempfile::TempDir;

#[allow(unused_imports, reason = "each test binary uses a part of it")]
pub(crate) use self::started::{Start, Started};
#[cfg(feature = "postgres")]
use self::until::PATIENCE;
#[allow(unused_imports, reason = "each test binary uses a part of it")]
pub(crate) use self::until::{file, stop_in_time, until, waits};

/// A store of a test's own.
pub(crate) enum Place {
    /// A file in a directory that goes with it.
    Sqlite(TempDir),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Server),
}

impl Place {
    /// Returns the location for `DurableTimer::open`.
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
