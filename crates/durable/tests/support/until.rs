//! Waits for what must happen sometime, a handler that waits, and a file to wait in.

use std::path::PathBuf;
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tourbillon_durable::{Due, DurableTimer, Outcome};

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

/// Stops the timers, which ends in time even if the end of a run can't be written.
#[track_caller]
pub(crate) fn stop_in_time(timers: &DurableTimer) {
    let begun = Instant::now();
    timers.stop();
    assert!(begun.elapsed() < Duration::from_secs(8), "a stop took {:?}", begun.elapsed());
}

/// A handler that runs until the test lets it go on.
pub(crate) fn waits() -> (impl Fn(Due) -> Outcome + Send + Sync, mpsc::Sender<()>) {
    let (ends, end) = mpsc::channel();
    let end = Mutex::new(end);
    let handler = move |_due: Due| {
        _ = end.lock().unwrap().recv_timeout(PATIENCE);
        Outcome::Done
    };
    (handler, ends)
}

/// Returns the path of an SQLite file that is not there yet, and its directory, which goes with it.
pub(crate) fn file() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("timeouts.db");
    (directory, path)
}
