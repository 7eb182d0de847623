//! The connection of an operator, beside the process that owns the file. It takes SQLite's own
//! locks, and not the owner's. It never opens the file by itself: to close it would end the locks
//! of an owner in this process. SQLite knows that, and keeps it open as long as it has locks.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, Value as SqliteValue, ValueRef};
use rusqlite::{Connection, OpenFlags, OptionalExtension, ToSql, TransactionBehavior, params_from_iter};

use super::database::{go_by, unavailable};
use super::lock::Places;
use super::refusal::Refusal;
use crate::clock::SystemClock;
use crate::error::OpenError;
use crate::migrations::Dialect;
use crate::store::desk::{Desk, Query, Row, Value};
use crate::store::{Failure, schema};

/// How often, and how many times, it tries to get a lock: for 10 s. An owner that writes all the
/// time leaves it only short gaps.
const TRY_EACH: Duration = Duration::from_micros(500);
const TRIES: i32 = 20_000;

pub(crate) struct SqliteDesk {
    connection: Connection,
    places: Places,
}

impl SqliteDesk {
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let location = path.display().to_string();
        let (desk, found) = Self::try_open(path).map_err(|refusal| match refusal {
            Refusal::Other(reason) => OpenError::Store { location, reason },
            Refusal::InUse => OpenError::InUse { path: location },
            Refusal::NewerSchema { found } => OpenError::NewerSchema { found, known: schema::current() },
        })?;
        schema::check(found)?;
        Ok(desk)
    }

    /// Returns the number of the schema as well.
    fn try_open(path: &Path) -> Result<(Self, i64), Refusal> {
        // SQLite opens what the name leads to, and keeps its log beside that.
        let path = path.canonicalize()?;
        if !fs::metadata(&path)?.is_file() {
            return Err(Refusal::Other("it is there, and is no file".to_owned()));
        }
        let mut places = Places::default();
        places.watch_database(path.clone())?;
        #[allow(unused_mut, reason = "rusqlite asks for it since 0.41")]
        let mut connection =
            Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_handler(Some(|tries| {
            thread::sleep(TRY_EACH);
            tries < TRIES
        }))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // The log is the owner's: to move, and to delete in the end. Something in the owner's
        // process may have ended SQLite's locks there, so an operator can't know that it has gone.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        go_by(&connection, Arc::new(SystemClock))?;
        let found = connection
            .query_row("SELECT 1 FROM sqlite_schema WHERE name = 'tourbillon_schema'", [], |_| Ok(()))
            .optional()?
            .map(|()| connection.query_row("SELECT version FROM tourbillon_schema", [], |row| row.get(0)).optional())
            .transpose()?
            .flatten()
            .unwrap_or(0);
        // Without an owner yet it may have none.
        let mut log = path.into_os_string();
        log.push("-wal");
        if fs::exists(&log)? {
            places.watch(log.into())?;
        }
        Ok((Self { connection, places }, found))
    }

    /// Whether the file is the one that others open by its name.
    fn in_place(&self) -> Result<(), Failure> {
        self.places.are_there().map_err(Failure::Unavailable)
    }
}

impl Desk for SqliteDesk {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn read(&mut self, query: Query) -> Result<Vec<Row>, Failure> {
        self.in_place()?;
        run(&self.connection, &query).map_err(unavailable)
    }

    fn change(&mut self, queries: Vec<Query>) -> Result<u64, Failure> {
        self.in_place()?;
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(unavailable)?;
        let mut changed = 0;
        for query in &queries {
            changed += run(&transaction, query).map_err(unavailable)?.len() as u64;
        }
        transaction.commit().map_err(|error| Failure::Lost { reason: error.to_string(), unknown: true })?;
        let lost = |reason| Failure::Lost { reason, unknown: true };
        self.places.are_there().map_err(lost)?;
        Ok(changed)
    }
}

fn run(connection: &Connection, query: &Query) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection.prepare(&query.text)?;
    let columns = statement.column_count();
    let rows = statement.query_map(params_from_iter(&query.values), |row| {
        (0..columns).map(|index| row.get_ref(index).map(value)).collect()
    })?;
    rows.collect()
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Integer(int) => Value::Int(int),
        ValueRef::Text(text) => std::str::from_utf8(text).map_or(Value::Null, |text| Value::Text(text.to_owned())),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
        ValueRef::Null | ValueRef::Real(_) => Value::Null,
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Int(int) => ToSqlOutput::Owned(SqliteValue::Integer(*int)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Self::Null => ToSqlOutput::Owned(SqliteValue::Null),
        })
    }
}
