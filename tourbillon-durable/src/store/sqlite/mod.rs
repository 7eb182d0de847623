//! SQLite: the file of one process.
//!
//! The file is in WAL mode. What must be on disk is committed with `synchronous=FULL`, which syncs
//! the log. A claim is committed with `NORMAL`, which does not: the next commit's sync takes it
//! along.

mod batch;
mod checkpoint;

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use self::batch::Batch;
use self::checkpoint::{BYTES_OF_ONE, Checkpointer};
use super::schema::{self, ABANDONED, Dialect, NOT_RUNNING};
use super::{Answer, Claim, Claimed, Failure, Op, Owner, Scan, Store, Taken};
use crate::clock::{Micros, SystemClock, WallClock, whole_micros};
use crate::error::OpenError;

/// Memory for pages. A million timeouts take some 200 MB; the busy part of the indexes is less.
const CACHE_KIB: i32 = 64 * 1024;
const DIALECT: Dialect = Dialect {
    bytes: "BLOB",
    bool: "INTEGER",
    r#false: "0",
    generations: "CREATE TABLE tourbillon_generations (last BIGINT NOT NULL);
        INSERT INTO tourbillon_generations VALUES (0);",
};

pub(crate) struct SqliteStore {
    database: Database,
    /// The last generation that was handed out. Only this process hands out any.
    generation: i64,
    sql: Sql,
    checkpointer: Checkpointer,
    /// The lock on the file. It goes with the process.
    _lock: File,
}

/// The connection, and how it commits.
struct Database {
    connection: Connection,
    synced: bool,
}

/// The statements. `{now}` is a function that asks the injected clock.
struct Sql {
    reset: String,
    cancel: String,
    orphans: String,
}

impl SqliteStore {
    /// Opens the file, or makes it.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let location = path.display().to_string();
        let refused = |reason: String| OpenError::Store { location: location.clone(), reason };
        // A file has one lock, by whatever links it is reached. One that is not there has no link.
        // It is not opened for that: to close it would end SQLite's locks of this process on it.
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let lock = lock(path).map_err(|failure| match failure {
            TryLockError::WouldBlock => OpenError::InUse { path: location.clone() },
            TryLockError::Error(error) => refused(format!("{location}-lock: {error}")),
        })?;
        let connection = Connection::open(path).map_err(|error| refused(error.to_string()))?;
        prepare(&connection).map_err(|error| refused(error.to_string()))?;
        migrate(&connection).map_err(|error| refused(error.to_string()))??;
        let generation = connection
            .query_row("SELECT last FROM tourbillon_generations", [], |row| row.get(0))
            .map_err(|error| refused(error.to_string()))?;
        // Nobody else can have it open, so whoever had rows is gone.
        connection
            .execute_batch(
                "UPDATE tourbillon_owners SET lease_until = 0;
                 INSERT OR IGNORE INTO tourbillon_owners
                     SELECT DISTINCT owner, 0 FROM tourbillon_timeouts WHERE owner IS NOT NULL",
            )
            .map_err(|error| refused(error.to_string()))?;
        let fill = |text: String| text.replace("{now}", "tourbillon_now()");
        let sql = Sql {
            reset: fill(format!(
                "UPDATE tourbillon_timeouts SET due = ?2, generation = ?3, attempts = 0, owner = ?4, running = 0
                 WHERE key = ?1 AND {NOT_RUNNING} RETURNING handler"
            )),
            cancel: fill(format!("DELETE FROM tourbillon_timeouts WHERE key = ?1 AND {NOT_RUNNING}")),
            orphans: fill(format!(
                "UPDATE tourbillon_timeouts SET owner = ?1, running = 0 WHERE rowid IN (
                     SELECT rowid FROM tourbillon_timeouts
                     WHERE owner IS NOT NULL AND owner <> ?1 AND {ABANDONED}
                         AND handler IN (SELECT value FROM json_each(?2))
                     LIMIT ?3)
                 RETURNING key, due, generation, attempts, running"
            )),
        };
        let checkpointer = Checkpointer::start(path).map_err(refused)?;
        let database = Database { connection, synced: true };
        Ok(Self { database, generation, sql, checkpointer, _lock: lock })
    }
}

impl Database {
    /// Begins a transaction that its commit syncs, or does not.
    fn begin(&mut self, synced: bool) -> rusqlite::Result<Transaction<'_>> {
        if self.synced != synced {
            let level = if synced { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.synced = synced;
        }
        self.connection.transaction_with_behavior(TransactionBehavior::Immediate)
    }

    /// Runs `work` in a transaction. What `work` fails with is rolled back.
    fn transact<T>(
        &mut self,
        synced: bool,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Failure> {
        let transaction = self.begin(synced).map_err(refused)?;
        let result = work(&transaction).map_err(refused)?;
        // A commit that fails may have reached the disk.
        transaction.commit().map_err(|error| Failure::Lost(error.to_string()))?;
        Ok(result)
    }
}

/// One process owns a file, and that is told by the operating system: a lock ends with its process.
fn lock(path: &Path) -> Result<File, TryLockError> {
    let mut name = path.as_os_str().to_owned();
    name.push("-lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(name).map_err(TryLockError::Error)?;
    file.try_lock()?;
    Ok(file)
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    // Others may look at the file; they lock it for moments.
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.set_prepared_statement_cache_capacity(64);
    go_by(connection, Arc::new(SystemClock))
}

fn go_by(connection: &Connection, clock: Arc<dyn WallClock>) -> rusqlite::Result<()> {
    connection.create_scalar_function("tourbillon_now", 0, FunctionFlags::SQLITE_UTF8, move |_| {
        Ok(Micros::round_down(clock.now()).0)
    })
}

fn migrate(connection: &Connection) -> rusqlite::Result<Result<(), OpenError>> {
    connection.execute_batch("CREATE TABLE IF NOT EXISTS tourbillon_schema (version BIGINT NOT NULL)")?;
    let found: Option<i64> =
        connection.query_row("SELECT version FROM tourbillon_schema", [], |row| row.get(0)).optional()?;
    let found = found.unwrap_or(0);
    if found > schema::current() {
        return Ok(Err(OpenError::NewerSchema { found, known: schema::current() }));
    }
    for (number, statements) in schema::migrations(found, &DIALECT) {
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {statements}
             DELETE FROM tourbillon_schema; INSERT INTO tourbillon_schema VALUES ({number}); COMMIT"
        ))?;
    }
    Ok(Ok(()))
}

impl Store for SqliteStore {
    fn commit(&mut self, owner: &Owner, ops: &[Op], lease: bool) -> Result<Vec<Answer>, Failure> {
        let before = self.generation;
        let answers = self.database.transact(true, |transaction| {
            if lease {
                renew(transaction, owner)?;
            }
            // Also after a failure: a generation that may be on disk is not handed out again.
            let generation = &mut self.generation;
            let mut batch = Batch { transaction, owner, generation, cancel: &self.sql.cancel, reset: &self.sql.reset };
            let answers = ops.iter().map(|op| batch.carry_out(op)).collect::<Result<_, _>>()?;
            if self.generation != before {
                transaction
                    .prepare_cached("UPDATE tourbillon_generations SET last = ?1")?
                    .execute([self.generation])?;
            }
            Ok(answers)
        });
        let payloads: usize = ops.iter().map(Op::payload_len).sum();
        self.checkpointer.committed(ops.len() + payloads / BYTES_OF_ONE, &self.database.connection);
        answers
    }

    fn claim(&mut self, owner: &Owner, claims: &[Claim]) -> Result<Vec<Claimed>, Failure> {
        self.database
            .transact(false, |transaction| {
                let mut statement = transaction.prepare_cached(
                    "UPDATE tourbillon_timeouts SET running = 1, attempts = ?3 + 1
                 WHERE key = ?1 AND generation = ?2 AND owner = ?4
                     AND (attempts = ?3 AND NOT running OR attempts = ?3 + 1 AND running)
                 RETURNING due, handler, payload, tourbillon_now()",
                )?;
                let mut claimed = Vec::with_capacity(claims.len());
                for claim in claims {
                    let row = statement
                        .query_row(params![claim.key, claim.generation, claim.attempts, owner.id], |row| {
                            Ok(Claimed {
                                key: Arc::clone(&claim.key),
                                generation: claim.generation,
                                attempt: claim.attempts + 1,
                                due: Micros(row.get(0)?),
                                handler: row.get(1)?,
                                payload: row.get::<_, Vec<u8>>(2)?.into(),
                                claimed_at: Micros(row.get(3)?),
                            })
                        })
                        .optional()?;
                    claimed.extend(row);
                }
                Ok(claimed)
            })
            .inspect(|claimed: &Vec<Claimed>| self.checkpointer.committed(claimed.len(), &self.database.connection))
    }

    fn scan(&mut self, owner: &Owner, scan: &Scan) -> Result<Vec<Taken>, Failure> {
        let handlers = json_array(&owner.handlers);
        self.database
            .transact(false, |transaction| {
                let mut taken = Vec::new();
                let mut take = transaction.prepare_cached(
                    "UPDATE tourbillon_timeouts SET owner = ?1, running = 0 WHERE rowid IN (
                     SELECT rowid FROM tourbillon_timeouts
                     WHERE owner IS NULL AND due >= ?4 AND due < ?5
                         AND handler IN (SELECT value FROM json_each(?2))
                     ORDER BY due LIMIT ?3)
                 RETURNING key, due, generation, attempts, running",
                )?;
                let before = scan.overdue_before.0;
                for (limit, from, until) in
                    [(scan.overdue_limit, i64::MIN, before), (scan.limit, before, scan.horizon.0)]
                {
                    let rows = take.query_map(params![owner.id, handlers, limit, from, until], taken_row)?;
                    for row in rows {
                        taken.push(row?);
                    }
                }
                let mut orphans = transaction.prepare_cached(&self.sql.orphans)?;
                for row in orphans.query_map(params![owner.id, handlers, scan.limit], taken_row)? {
                    taken.push(row?);
                }
                if !taken.is_empty() {
                    renew(transaction, owner)?;
                }
                Ok(taken)
            })
            .inspect(|taken: &Vec<Taken>| self.checkpointer.committed(taken.len(), &self.database.connection))
    }

    fn mine(&mut self, owner: &Owner) -> Result<Vec<Taken>, Failure> {
        self.database.transact(false, |transaction| {
            transaction
                .prepare_cached(
                    "SELECT key, due, generation, attempts, running FROM tourbillon_timeouts WHERE owner = ?1",
                )?
                .query_map([owner.id], taken_row)?
                .collect()
        })
    }

    fn renew(&mut self, owner: &Owner) -> Result<(), Failure> {
        self.database.transact(false, |transaction| renew(transaction, owner))
    }

    fn give_back(&mut self, owner: &Owner) -> Result<(), Failure> {
        self.database.transact(false, |transaction| {
            transaction
                .prepare_cached("UPDATE tourbillon_timeouts SET owner = NULL WHERE owner = ?1 AND NOT running")?
                .execute([owner.id])?;
            Ok(())
        })
    }

    fn release(&mut self, owner: &Owner) -> Result<(), Failure> {
        self.database.transact(true, |transaction| {
            transaction
                .prepare_cached("UPDATE tourbillon_owners SET lease_until = 0 WHERE owner = ?1")?
                .execute([owner.id])?;
            Ok(())
        })
    }

    fn reconnect(&mut self) -> Result<(), Failure> {
        // The file is still open. A statement tells whether it can be read.
        self.database.connection.query_row("SELECT last FROM tourbillon_generations", [], |_| Ok(())).map_err(refused)
    }

    fn set_clock(&mut self, clock: Arc<dyn WallClock>) -> Result<(), Failure> {
        go_by(&self.database.connection, clock).map_err(refused)
    }

    fn batch(&self) -> usize {
        4_096
    }
}

fn refused(error: rusqlite::Error) -> Failure {
    Failure::Refused(error.to_string())
}

/// The builder takes no control characters in a name, so two characters need an escape.
fn json_array(names: &[String]) -> String {
    let quoted: Vec<String> =
        names.iter().map(|name| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))).collect();
    format!("[{}]", quoted.join(","))
}

fn renew(transaction: &Transaction<'_>, owner: &Owner) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO tourbillon_owners VALUES (?1, tourbillon_now() + ?2)
             ON CONFLICT (owner) DO UPDATE SET lease_until = excluded.lease_until",
        )?
        .execute(params![owner.id, whole_micros(owner.lease)])?;
    // Who has been gone for a day has no rows any more.
    transaction
        .prepare_cached(
            "DELETE FROM tourbillon_owners WHERE lease_until < tourbillon_now() - 86400000000
             AND NOT EXISTS (SELECT 1 FROM tourbillon_timeouts t WHERE t.owner = tourbillon_owners.owner)",
        )?
        .execute([])?;
    Ok(())
}

fn taken_row(row: &Row<'_>) -> rusqlite::Result<Taken> {
    Ok(Taken {
        key: row.get::<_, String>(0)?.into(),
        due: Micros(row.get(1)?),
        generation: row.get(2)?,
        attempts: row.get(3)?,
        running: row.get(4)?,
    })
}
