//! How rows are read.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Error, Result, Row};

use crate::clock::Micros;
use crate::due::{DeadLetter, Pending};
use crate::store::{Claim, Claimed, Moved, Taken};

/// The columns of [`taken`].
pub(super) const TAKEN: &str = "key, due, generation, attempts, handler, octet_length(payload), suspect, running";

pub(super) fn taken(row: &Row<'_>) -> Result<Taken> {
    Ok(Taken {
        key: row.get::<_, String>(0)?.into(),
        due: Micros(row.get(1)?),
        generation: row.get(2)?,
        attempts: row.get(3)?,
        handler: row.get(4)?,
        bytes: length(row, 5)?,
        suspect: row.get(6)?,
        running: row.get(7)?,
    })
}

/// From due, handler, payload, failures and the time.
pub(super) fn claimed(claim: &Claim, row: &Row<'_>) -> Result<Claimed> {
    Ok(Claimed {
        key: Arc::clone(&claim.key),
        generation: claim.generation,
        attempt: claim.attempts + 1,
        due: Micros(row.get(0)?),
        handler: row.get(1)?,
        payload: payload(row, 2)?.into(),
        failures: row.get(3)?,
        claimed_at: Micros(row.get(4)?),
    })
}

/// From handler and the length of the payload. The owner is not known yet.
pub(super) fn moved(generation: i64, row: &Row<'_>) -> Result<Moved> {
    Ok(Moved { generation, owned: false, handler: row.get(0)?, bytes: length(row, 1)? })
}

/// From due, handler, payload, generation, attempts and running.
pub(super) fn pending(row: &Row<'_>) -> Result<Pending> {
    Ok(Pending {
        due: Micros(row.get(0)?).to_system_time(),
        handler: row.get(1)?,
        payload: payload(row, 2)?,
        generation: row.get(3)?,
        attempts: row.get(4)?,
        running: row.get(5)?,
    })
}

/// From key, generation, due, handler, payload, attempts and the time of its death.
pub(super) fn dead_letter(row: &Row<'_>) -> Result<DeadLetter> {
    Ok(DeadLetter {
        key: row.get(0)?,
        generation: row.get(1)?,
        due: Micros(row.get(2)?).to_system_time(),
        handler: row.get(3)?,
        payload: payload(row, 4)?,
        attempts: row.get(5)?,
        died_at: Micros(row.get(6)?).to_system_time(),
    })
}

/// Reads a payload. A user who inserts a row by hand may write text.
fn payload(row: &Row<'_>, index: usize) -> Result<Vec<u8>> {
    match row.get_ref(index)? {
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(bytes.to_vec()),
        other => Err(Error::InvalidColumnType(index, "payload".to_owned(), other.data_type())),
    }
}

fn length(row: &Row<'_>, index: usize) -> Result<usize> {
    let length: i64 = row.get(index)?;
    usize::try_from(length).map_err(|_| Error::IntegralValueOutOfRange(index, length))
}
