//! Moves what was committed from the log into the database, beside the writer.
//!
//! SQLite would do it in a commit, and what comes up meanwhile would be late by as much.

use std::io;
use std::path::Path;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use rusqlite::Connection;

/// Operations between two checkpoints. Each changes two or three pages, and those of its payload.
const OPERATIONS: usize = 4_096;
/// The same while somebody reads an old state, and the log is long.
const OPERATIONS_WHILE_LONG: usize = 64;
/// What is written as much as an operation: of payloads.
pub(super) const BYTES_OF_ONE: usize = 10_000;
/// A log of more pages is to begin at its start again: 32 MiB.
const LONG_LOG: i64 = 8_192;
/// A log that begins at its start again is cut to so many bytes. It is seldom longer: so the file
/// does not shrink and grow by turns.
pub(super) const LOG_LIMIT: i64 = 128 << 20;
/// The same after somebody has read for long, whatever the log has grown to meanwhile.
const LOG_LIMIT_AFTER_READERS: i64 = 48 << 20;

/// The thread that does so.
pub(super) struct Checkpointer {
    /// Asks for a checkpoint. One at a time, so that the writer's own never meets one.
    ask: Option<Sender<()>>,
    answers: Receiver<Log>,
    thread: Option<JoinHandle<()>>,
    under_way: bool,
    since: usize,
    /// Somebody reads an old state, and the log goes on behind it.
    blocked: bool,
    limit: i64,
}

/// The log after a checkpoint.
#[derive(Clone, Copy, Default)]
struct Log {
    pages: i64,
    /// Those that are in the database. If all are, the log begins at its start again.
    done: i64,
}

impl Log {
    fn is_long(self) -> bool {
        self.pages > LONG_LOG
    }
}

impl Checkpointer {
    pub(super) fn start(path: &Path) -> Result<Self, String> {
        let connection = Connection::open(path).map_err(|error| error.to_string())?;
        let ((ask, asked), (answer, answers)) = (bounded(1), bounded(1));
        let thread = thread::Builder::new()
            .name("tb-durable-wal".to_owned())
            .spawn(move || {
                for () in asked {
                    let log = checkpoint(&connection);
                    // If the log is long, the writer does the rest. The second checkpoint is short,
                    // so that little is left.
                    let log = if log.is_long() { checkpoint(&connection) } else { log };
                    _ = answer.send(log);
                }
            })
            .map_err(|error: io::Error| error.to_string())?;
        Ok(Self {
            ask: Some(ask),
            answers,
            thread: Some(thread),
            under_way: false,
            since: 0,
            blocked: false,
            limit: LOG_LIMIT,
        })
    }

    /// Takes note of operations that the writer has committed.
    pub(super) fn committed(&mut self, operations: usize, writer: &Connection) {
        self.since += operations;
        if let Ok(log) = self.answers.try_recv() {
            self.under_way = false;
            let was_blocked = self.blocked;
            self.blocked = log.is_long() && !finish(writer);
            self.limit(writer, if self.blocked || was_blocked { LOG_LIMIT_AFTER_READERS } else { LOG_LIMIT });
        }
        let enough = if self.blocked { OPERATIONS_WHILE_LONG } else { OPERATIONS };
        if self.since >= enough && !self.under_way {
            self.under_way = self.ask.as_ref().is_some_and(|ask| ask.try_send(()).is_ok());
            self.since = 0;
        }
    }

    /// Sets to what the log is cut when it begins at its start again.
    fn limit(&mut self, writer: &Connection, limit: i64) {
        if limit != self.limit && writer.pragma_update(None, "journal_size_limit", limit).is_ok() {
            self.limit = limit;
        }
    }
}

/// Moves what is left. While the writer writes, the other thread never reaches the end of the log,
/// and only at its end it begins anew. Returns whether it will.
fn finish(writer: &Connection) -> bool {
    let log = checkpoint(writer);
    log.pages == log.done
}

/// Moves what it can without waiting for anybody. A failure is the writer's to find: its own
/// commits fail as well.
fn checkpoint(connection: &Connection) -> Log {
    let log = |row: &rusqlite::Row<'_>| Ok(Log { pages: row.get(1)?, done: row.get(2)? });
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], log).unwrap_or_default()
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it does not panic");
        }
    }
}
