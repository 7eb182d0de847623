//! The connection: how it commits, and what becomes of a transaction in which something fails.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, Error, ErrorCode, Transaction, TransactionBehavior};

use super::checkpoint::Checkpointer;
use super::lock::FileLock;
use crate::clock::{Micros, WallClock};
use crate::store::{Failure, Rejected};

/// How long it waits for a lock. The writer tries again, and has other work meanwhile.
const BUSY: Duration = Duration::from_millis(250);
/// It looks so often whether the lock is free. SQLite would look each 100 ms in the end, and all
/// that comes up would be late by as much after a transaction of the user's.
const BUSY_LOOK: Duration = Duration::from_millis(1);

/// A call that takes longer leaves the rest for the next one.
const LONG: Duration = Duration::from_secs(1);

/// The fields are dropped in this order: the lock goes last, after both connections.
pub(super) struct Database {
    connection: Connection,
    checkpointer: Checkpointer,
    synced: bool,
    lock: FileLock,
}

/// Why a transaction has stopped. It is rolled back.
pub(super) enum Halt {
    /// The item with this index has failed, and the others need not.
    At(usize, Error),
    Failure(Failure),
}

impl Halt {
    /// The item with this index has failed.
    pub(super) fn at(index: usize, error: Error) -> Self {
        if concerns_one(&error) { Self::At(index, error) } else { error.into() }
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failure(unavailable(error))
    }
}

/// Whether an error is that of a row, a page or a value, and not that of the whole store.
pub(super) fn concerns_one(error: &Error) -> bool {
    match error {
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..)
        | Error::ToSqlConversionFailure(_) => true,
        Error::SqliteFailure(failure, message) => match failure.code {
            ErrorCode::DatabaseCorrupt
            | ErrorCode::TypeMismatch
            | ErrorCode::ConstraintViolation
            | ErrorCode::TooBig => true,
            // A table or a column that is gone is gone for all.
            ErrorCode::Unknown => !message.as_ref().is_some_and(|message| message.starts_with("no such")),
            _ => false,
        },
        _ => false,
    }
}

impl Database {
    /// From now on it waits for locks only for a moment.
    pub(super) fn new(
        lock: FileLock,
        #[allow(unused_mut, reason = "rusqlite asks for it since 0.41")] mut connection: Connection,
        checkpointer: Checkpointer,
    ) -> rusqlite::Result<Self> {
        connection.busy_handler(Some(wait))?;
        Ok(Self { connection, checkpointer, synced: true, lock })
    }

    /// The connection, for reading.
    ///
    /// Rows that may be damaged are read outside of transactions: SQLite writes nothing more in a
    /// transaction that has met a damaged page.
    pub(super) fn reader(&self) -> &Connection {
        &self.connection
    }

    /// Carries out all items, with a result for each. If one fails, those before it have a
    /// transaction of their own, and so do those behind it: a savepoint would not do, as SQLite
    /// writes nothing more in a transaction that has met a damaged page.
    ///
    /// `part` carries out some of the items, in their order, in a transaction.
    pub(super) fn each<I, T>(
        &mut self,
        synced: bool,
        items: &[I],
        mut part: impl FnMut(&Connection, &[I]) -> Result<Vec<T>, Halt>,
    ) -> Result<Vec<Result<T, Rejected>>, Failure> {
        let begun = Instant::now();
        let mut results = Vec::with_capacity(items.len());
        let mut bad: Option<(usize, Error)> = None;
        while results.len() < items.len() {
            let start = results.len();
            let end = bad.as_ref().map_or(items.len(), |(index, _)| *index);
            match self.transact(synced, |connection| part(connection, &items[start..end])) {
                Ok(values) => results.extend(values.into_iter().map(Ok)),
                Err(Halt::At(index, error)) => {
                    bad = Some((start + index, error));
                    if index > 0 {
                        continue;
                    }
                }
                // The items before `start` have their results already.
                Err(Halt::Failure(Failure::Unavailable(reason) | Failure::Locked(reason))) if start > 0 => {
                    results.resize_with(items.len(), || Err(Rejected::Busy(reason.clone())));
                    break;
                }
                Err(Halt::Failure(failure)) => return Err(failure),
            }
            results.extend(bad.take().map(|(_, error)| Err(Rejected::Bad(error.to_string()))));
            if begun.elapsed() > LONG {
                results.resize_with(items.len(), || Err(Rejected::Busy("many others fail".to_owned())));
            }
        }
        Ok(results)
    }

    /// Makes one change.
    pub(super) fn once(
        &mut self,
        synced: bool,
        change: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), Failure> {
        self.transact(synced, |connection| Ok(change(connection)?)).map_err(|halt| match halt {
            Halt::At(_, error) => unavailable(error),
            Halt::Failure(failure) => failure,
        })
    }

    /// Runs `work` in a transaction. It is on disk when this returns, if it is `synced`.
    fn transact<T>(&mut self, synced: bool, work: impl FnOnce(&Connection) -> Result<T, Halt>) -> Result<T, Halt> {
        self.check().map_err(Halt::Failure)?;
        let transaction = self.begin(synced)?;
        let result = work(&transaction)?;
        transaction.commit().map_err(|error| Halt::Failure(not_committed(&error)))?;
        if synced {
            self.lock.in_place().map_err(|reason| Halt::Failure(Failure::Lost { reason, unknown: true }))?;
        }
        Ok(result)
    }

    /// Begins a transaction that its commit syncs, or does not.
    fn begin(&mut self, synced: bool) -> rusqlite::Result<Transaction<'_>> {
        if self.synced != synced {
            let level = if synced { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.synced = synced;
        }
        self.connection.transaction_with_behavior(TransactionBehavior::Immediate)
    }

    /// Whether this process still owns the files that it has open.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.lock.hold().and_then(|()| self.lock.in_place()).map_err(Failure::Unavailable)
    }

    /// Makes the connection usable after a commit that failed.
    pub(super) fn resume(&mut self) -> Result<(), Failure> {
        self.check()?;
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK").map_err(unavailable)?;
        }
        // The file is still open. A statement tells whether it can be read.
        self.connection.query_row("SELECT last FROM tourbillon_generations", [], |_| Ok(())).map_err(unavailable)
    }

    /// Takes note of changes that were committed: of so many operations.
    pub(super) fn committed(&mut self, operations: usize) {
        self.checkpointer.committed(operations, &self.connection);
    }

    pub(super) fn go_by(&self, clock: Arc<dyn WallClock>) -> Result<(), Failure> {
        go_by(&self.connection, clock).map_err(unavailable)
    }
}

/// Makes `tourbillon_now()` the time of this clock.
pub(super) fn go_by(connection: &Connection, clock: Arc<dyn WallClock>) -> rusqlite::Result<()> {
    // A clock does not panic.
    let clock = std::panic::AssertUnwindSafe(clock);
    connection.create_scalar_function("tourbillon_now", 0, FunctionFlags::SQLITE_UTF8, move |_| {
        Ok(Micros::round_down(clock.now()).0)
    })
}

/// Waits for a lock that it did not get so many times before. Returns false if that is enough.
fn wait(tries: i32) -> bool {
    thread::sleep(BUSY_LOOK);
    BUSY_LOOK * tries.unsigned_abs() < BUSY
}

pub(super) fn unavailable(error: Error) -> Failure {
    let reason = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => Failure::Locked(reason),
        _ => Failure::Unavailable(reason),
    }
}

/// A commit that failed may be on disk all the same: its sync has failed, say. It is not if SQLite
/// did not get as far as that.
fn not_committed(error: &Error) -> Failure {
    let reason = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => Failure::Locked(reason),
        Some(ErrorCode::DiskFull) => Failure::Unavailable(reason),
        _ => Failure::Lost { reason, unknown: true },
    }
}
