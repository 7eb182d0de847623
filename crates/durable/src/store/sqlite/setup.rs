//! Opens a file: its options, its tables, and the end of earlier leases.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::checkpoint::LOG_LIMIT;
use super::database::{concerns_one, go_by};
use super::refusal::Refusal;
use crate::clock::SystemClock;
use crate::store::schema::{self, SQLITE};

/// Memory for pages. A million timeouts take some 200 MB; the busy part of the indexes is less.
const CACHE_KIB: i32 = 64 * 1024;
/// Others may look at the file. An open waits so long for them.
const BUSY_AT_OPEN: Duration = Duration::from_secs(10);

/// Makes the writer's connection, and brings the tables up to date.
pub(super) fn connect(path: &Path) -> Result<Connection, Refusal> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_AT_OPEN)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Some file systems can't have a log, and the last statement says nothing of it.
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Refusal::Other(format!("it can't be in WAL mode here, and its journal mode is {mode:?}")));
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", LOG_LIMIT)?;
    connection.set_prepared_statement_cache_capacity(64);
    go_by(&connection, Arc::new(SystemClock))?;
    migrate(&connection)?;
    end_leases(&connection)?;
    Ok(connection)
}

fn migrate(connection: &Connection) -> Result<(), Refusal> {
    connection.execute_batch("CREATE TABLE IF NOT EXISTS tourbillon_schema (version BIGINT NOT NULL)")?;
    let found: Option<i64> =
        connection.query_row("SELECT version FROM tourbillon_schema", [], |row| row.get(0)).optional()?;
    let found = found.unwrap_or(0);
    if found > schema::current() {
        return Err(Refusal::NewerSchema { found });
    }
    for (_, statements) in schema::migrations(found, &SQLITE) {
        connection.execute_batch(&format!("BEGIN IMMEDIATE; {statements} COMMIT"))?;
    }
    Ok(())
}

/// Ends the leases of all. Nobody else can have the file open, so the processes that had rows are
/// gone.
fn end_leases(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("UPDATE tourbillon_owners SET lease_until = 0")?;
    let added = connection.execute_batch(
        "INSERT OR IGNORE INTO tourbillon_owners (owner, lease_until)
             SELECT DISTINCT owner, 0 FROM tourbillon_timeouts WHERE owner IS NOT NULL",
    );
    // Each owner has a lease already, unless somebody has deleted it. So a page that can't be read
    // is no reason to stop here.
    added.or_else(|error| if concerns_one(&error) { Ok(()) } else { Err(error) })
}
