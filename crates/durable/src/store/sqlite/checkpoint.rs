//! Moves what was committed from the log into the database, beside the writer.
//!
//! SQLite would do it in a commit, and timeouts that come up meanwhile would be late by as much.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Sender, TrySendError};
use rusqlite::Connection;

/// Operations between two checkpoints. Each changes two or three pages, and those of its payload.
const OPERATIONS: usize = 4_096;
/// So many bytes of payloads count as an operation.
pub(super) const BYTES_OF_ONE: usize = 10_000;
/// A log of more pages is to begin at its start again: 32 MiB.
const LONG_LOG: i64 = 8_192;
/// A log that begins at its start again is cut to so many bytes. So the disk has its space back
/// some commits after a reader has gone that made the log grow. It is seldom longer without one, so
/// it does not shrink and grow by turns.
pub(super) const LOG_LIMIT: i64 = 64 << 20;

/// The thread that does so.
pub(super) struct Checkpointer {
    sender: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    since: usize,
    /// The pages in the log after a checkpoint, until the writer has looked.
    pages: Arc<AtomicI64>,
}

impl Checkpointer {
    pub(super) fn start(path: &Path) -> Result<Self, String> {
        let connection = Connection::open(path).map_err(|error| error.to_string())?;
        let (sender, receiver) = crossbeam_channel::bounded(1);
        let pages = Arc::<AtomicI64>::default();
        let report = Arc::clone(&pages);
        let thread = thread::Builder::new()
            .name("tb-durable-wal".to_owned())
            .spawn(move || {
                for () in receiver {
                    // A failure is the writer's to find: its own commits fail as well.
                    // Relaxed: the writer looks at it again after the next commit.
                    report.store(checkpoint(&connection).unwrap_or(0), Ordering::Relaxed);
                }
            })
            .map_err(|error: io::Error| error.to_string())?;
        Ok(Self { sender: Some(sender), thread: Some(thread), since: 0, pages })
    }

    /// Takes note of operations that the writer has committed.
    pub(super) fn committed(&mut self, operations: usize, writer: &Connection) {
        self.since += operations;
        if self.pages.swap(0, Ordering::Relaxed) > LONG_LOG {
            // While the writer writes, the other thread never reaches the end of the log, and only
            // at its end it begins anew. There is little left of it.
            _ = checkpoint(writer);
        }
        let Some(sender) = self.sender.as_ref().filter(|_| self.since >= OPERATIONS) else { return };
        match sender.try_send(()) {
            Ok(()) => self.since = 0,
            Err(TrySendError::Full(())) => {}
            Err(TrySendError::Disconnected(())) => unreachable!("the thread ends after its channel"),
        }
    }
}

/// Moves what it can without waiting for anybody. Returns the pages in the log.
fn checkpoint(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it does not panic");
        }
    }
}
