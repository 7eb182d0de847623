//! The tables are made and brought up to date when a store is opened.

use super::session::{Session, Transaction, Trouble};
use crate::error::OpenError;
use crate::store::Failure;
use crate::store::schema::{self, POSTGRES};

/// The number of this crate's advisory lock: "tourbill" in ASCII.
const MIGRATION_LOCK: i64 = 0x746f_7572_6269_6c6c;
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = 0;
    SET LOCAL idle_in_transaction_session_timeout = '10s'; SET LOCAL client_min_messages = warning;";
/// Another process that migrates is waited for.
const ALONE: &str =
    "SET LOCAL lock_timeout = '5min'; SELECT pg_advisory_xact_lock({lock}); SET LOCAL lock_timeout = '10s'";
/// Asks a table for the name. `to_regclass` may answer from a cache, as it was before this
/// transaction waited for another process.
const IS_THERE: &str =
    "SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'tourbillon_schema' AND pg_table_is_visible(oid)";

/// Looks first. A process whose role may only read and write rows can use tables that are up to
/// date.
pub(super) fn migrate(session: &mut Session) -> Result<Result<(), OpenError>, Failure> {
    let mut found = session.transaction_from(BEGIN, version)?;
    if found < schema::current() {
        found = session.transaction_from(BEGIN, |transaction| {
            transaction.run(&ALONE.replace("{lock}", &MIGRATION_LOCK.to_string()))?;
            // Two processes may start at once.
            let found = version(transaction)?;
            bring_up_to_date(transaction, found)?;
            Ok(found.max(schema::current()))
        })?;
    }
    let known = schema::current();
    Ok(if found > known { Err(OpenError::NewerSchema { found, known }) } else { Ok(()) })
}

pub(super) fn version(transaction: &mut Transaction<'_>) -> Result<i64, Trouble> {
    if transaction.query(IS_THERE, &[])?.is_empty() {
        return Ok(0);
    }
    let version = transaction.query("SELECT version FROM tourbillon_schema", &[])?;
    version.first().map_or(Ok(0), |row| super::rows::column(row, 0))
}

fn bring_up_to_date(transaction: &mut Transaction<'_>, found: i64) -> Result<(), Trouble> {
    schema::migrations(found, &POSTGRES).try_for_each(|(_, statements)| transaction.run(&statements))
}
