//! SQLite: the file of one process.
//!
//! The file is in WAL mode. Writes that must be on disk are committed with `synchronous=FULL`,
//! which syncs the log. A claim is committed with `NORMAL`, which does not: the next commit's sync
//! takes it along.

mod batch;
mod checkpoint;
mod database;
mod desk;
mod index;
mod left_alone;
#[cfg(unix)]
mod lock;
#[cfg(not(unix))]
#[path = "lock_file.rs"]
mod lock;
mod refusal;
mod rows;
mod scan;
mod setup;
mod statements;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rusqlite::{Connection, OptionalExtension, params};

use self::batch::Batch;
use self::checkpoint::{BYTES_OF_ONE, Checkpointer};
use self::database::{Database, Halt, concerns_one, unavailable};
pub(crate) use self::desk::SqliteDesk;
use self::left_alone::LeftAlone;
use self::lock::FileLock;
use self::refusal::Refusal;
use self::scan::Search;
pub(crate) use self::statements::Statements;
use super::{Answer, Claim, Claimed, Failure, Op, Owner, Rejected, Scan, Scanned, Store, Taken, schema};
use crate::clock::{WallClock, whole_micros};
use crate::error::OpenError;

pub(crate) struct SqliteStore {
    database: Database,
    sql: Arc<Statements>,
    left_alone: LeftAlone,
}

impl SqliteStore {
    /// Opens the file, or makes it.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let location = path.display().to_string();
        Self::try_open(path).map_err(|refusal| match refusal {
            Refusal::InUse => OpenError::InUse { path: location },
            Refusal::NewerSchema { found } => OpenError::NewerSchema { found, known: schema::current() },
            Refusal::Other(reason) => OpenError::Store { location, reason },
        })
    }

    fn try_open(path: &Path) -> Result<Self, Refusal> {
        let mut lock = FileLock::take(path)?;
        // SQLite opens the file that the lock is on, even if links on the way to it change.
        let path = path.canonicalize()?;
        lock.watch(path.clone())?;
        let connection = setup::connect(&path)?;
        // A commit goes to this log first.
        let mut log = path.clone().into_os_string();
        log.push("-wal");
        lock.watch(log.into())?;
        let checkpointer = Checkpointer::start(&path).map_err(Refusal::Other)?;
        let database = Database::new(lock, connection, checkpointer)?;
        Ok(Self { database, sql: Arc::new(Statements::new(schema::SQLITE.now)), left_alone: LeftAlone::default() })
    }

    /// Looks for rows.
    fn search(
        &mut self,
        owner: &Owner,
        look: impl FnOnce(&mut Search<'_>) -> rusqlite::Result<Vec<i64>>,
    ) -> Result<Vec<i64>, Failure> {
        let connection = self.database.reader();
        let mut search = Search { connection, owner, left_alone: &self.left_alone, damages: Vec::new() };
        let rowids = look(&mut search).map_err(unavailable)?;
        let damages = search.damages;
        self.left_alone.add_damages(damages);
        Ok(rowids)
    }

    /// Changes rows, after a statement that comes first. Returns what became of those that could be
    /// changed. The others are left alone from now on.
    fn change<T>(
        &mut self,
        rowids: &[i64],
        first: impl Fn(&Connection) -> rusqlite::Result<()>,
        change: impl Fn(&Connection, i64) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Failure> {
        let results = self.database.each(false, rowids, |connection, rowids| {
            first(connection)?;
            in_order(rowids, |&rowid| change(connection, rowid))
        })?;
        self.database.committed(rowids.len());
        Ok(self.readable(rowids, results))
    }

    /// Notes which rows could be read, and returns those.
    fn readable<T>(&mut self, rowids: &[i64], results: Vec<Result<T, Rejected>>) -> Vec<T> {
        let mut readable = Vec::with_capacity(results.len());
        for (&rowid, result) in rowids.iter().zip(results) {
            match result {
                Ok(row) => {
                    self.left_alone.remove(rowid);
                    readable.push(row);
                }
                Err(Rejected::Bad(reason)) => {
                    let name = scan::name(self.database.reader(), rowid);
                    self.left_alone.add(rowid, format!("{name}: {reason}"));
                }
                // The next scan finds it again.
                Err(Rejected::Busy(_)) => {}
            }
        }
        readable
    }
}

/// Does it for each. Stops at the first that fails, and says which one that is.
fn in_order<I, T>(items: &[I], mut work: impl FnMut(&I) -> rusqlite::Result<T>) -> Result<Vec<T>, Halt> {
    items.iter().enumerate().map(|(index, item)| work(item).map_err(|error| Halt::at(index, error))).collect()
}

impl Store for SqliteStore {
    fn commit(&mut self, owner: &Owner, ops: &[Op], _careful: bool) -> Result<Vec<Result<Answer, Rejected>>, Failure> {
        let (sql, watch, mut written) = (&self.sql, !self.left_alone.is_empty(), Vec::new());
        let answers = self.database.each(true, ops, |connection, ops| {
            let mut batch = Batch::begin(connection, owner, sql)?;
            let answers = in_order(ops, |op| batch.carry_out(op))?;
            batch.keep_generation()?;
            if watch {
                written.extend(batch.rowids(ops)?);
            }
            Ok(answers)
        })?;
        written.into_iter().for_each(|rowid| self.left_alone.remove(rowid));
        let payloads: usize = ops.iter().map(Op::payload_len).sum();
        self.database.committed(ops.len() + payloads / BYTES_OF_ONE);
        Ok(answers)
    }

    fn claim(&mut self, owner: &Owner, claims: &[Claim]) -> Result<Vec<Result<Option<Claimed>, Rejected>>, Failure> {
        let claimed = self.database.each(false, claims, |connection, claims| {
            let mut statement = connection.prepare_cached(
                "UPDATE tourbillon_timeouts SET running = 1, attempts = ?3 + 1
                 WHERE key = ?1 AND generation = ?2 AND owner = ?4
                     AND (attempts = ?3 AND NOT running OR attempts = ?3 + 1 AND running)
                 RETURNING due, handler, payload, failures, tourbillon_now()",
            )?;
            in_order(claims, |claim| {
                let parameters = params![claim.key, claim.generation, claim.attempts, owner.id];
                statement.query_row(parameters, |row| rows::claimed(claim, row)).optional()
            })
        })?;
        self.database.committed(claims.len());
        Ok(claimed)
    }

    fn scan(&mut self, owner: &Owner, scan: &Scan) -> Result<Scanned, Failure> {
        let sql = Arc::clone(&self.sql);
        let limit = if scan.peek { 0 } else { scan.limit };
        let left_behind = self.search(owner, |search| search.left_behind(&sql, limit))?;
        self.change(
            &left_behind,
            |_| Ok(()),
            |connection, rowid| connection.prepare_cached(&sql.give_up)?.execute([rowid]),
        )?;
        let coming_up = self.search(owner, |search| search.coming_up(scan))?;
        let lease = |connection: &Connection| renew(connection, owner);
        let taken = self.change(&coming_up, lease, |connection, rowid| scan::take(connection, rowid, owner.id))?;
        Ok(Scanned {
            taken: taken.into_iter().flatten().collect(),
            unreadable: self.left_alone.news(),
            more: !scan.peek && left_behind.len() >= scan.limit as usize,
        })
    }

    fn mine(&mut self, owner: &Owner) -> Result<Vec<Taken>, Failure> {
        self.database.check()?;
        let own = self.search(owner, |search| search.own())?;
        let connection = self.database.reader();
        let read = |&rowid: &i64| match scan::read(connection, rowid) {
            Err(error) if concerns_one(&error) => Ok(Err(Rejected::Bad(error.to_string()))),
            row => row.map(Ok).map_err(unavailable),
        };
        let rows = own.iter().map(read).collect::<Result<_, _>>()?;
        Ok(self.readable(&own, rows).into_iter().flatten().collect())
    }

    fn renew(&mut self, owner: &Owner) -> Result<(), Failure> {
        self.database.once(false, |connection| renew(connection, owner))?;
        // It looks at rows of others. One that can't be read is no reason to lose the lease.
        _ = self.database.once(false, forget_gone);
        Ok(())
    }

    fn give_back(&mut self, owner: &Owner) -> Result<(), Failure> {
        let own = self.search(owner, |search| search.own())?;
        let sql = "UPDATE tourbillon_timeouts SET owner = NULL WHERE rowid = ?1 AND NOT running";
        self.change(&own, |_| Ok(()), |connection, rowid| connection.prepare_cached(sql)?.execute([rowid])).map(drop)
    }

    fn release(&mut self, owner: &Owner) -> Result<(), Failure> {
        let sql = "UPDATE tourbillon_owners SET lease_until = 0 WHERE owner = ?1";
        self.database.once(true, |connection| connection.execute(sql, [owner.id]).map(drop))
    }

    fn reconnect(&mut self) -> Result<(), Failure> {
        self.database.resume()
    }

    fn begin(&mut self, clock: Arc<dyn WallClock>, _stopping: Arc<AtomicBool>) -> Result<(), Failure> {
        self.database.go_by(clock)
    }

    fn batch(&self) -> usize {
        4_096
    }
}

fn renew(connection: &Connection, owner: &Owner) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO tourbillon_owners (owner, lease_until, handlers) VALUES (?1, tourbillon_now() + ?2, ?3)
             ON CONFLICT (owner) DO UPDATE SET lease_until = excluded.lease_until, handlers = excluded.handlers",
        )?
        .execute(params![owner.id, whole_micros(owner.lease), owner.handlers.join("\n")])
        .map(drop)
}

/// Deletes the leases that ended a day ago. Who had them has no rows any more.
fn forget_gone(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM tourbillon_owners WHERE lease_until < tourbillon_now() - 86400000000
             AND NOT EXISTS (SELECT 1 FROM tourbillon_timeouts t WHERE t.owner = tourbillon_owners.owner)",
        )?
        .execute([])
        .map(drop)
}
