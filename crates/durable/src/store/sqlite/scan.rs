//! Which rows come up soon, and which ones nobody has any more.
//!
//! Their rowids are read from the indexes, and then the rows are changed one by one: so it is known
//! which one has failed.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Result, ToSql, params};

use super::index::{BY_DUE, Part};
use super::left_alone::LeftAlone;
use super::rows::{self, TAKEN};
use super::statements::Statements;
use crate::store::{Owner, Scan, Taken};

/// How many rows with values of wrong types a scan looks at.
const MISFITS: usize = 100;

/// A search for rows, but for those that are left alone.
pub(super) struct Search<'a> {
    pub(super) connection: &'a Connection,
    pub(super) owner: &'a Owner,
    pub(super) left_alone: &'a LeftAlone,
    /// Parts of the indexes that can't be read.
    pub(super) damages: Vec<String>,
}

impl Search<'_> {
    /// Returns rows of others whose leases have ended.
    pub(super) fn left_behind(&mut self, sql: &Statements, limit: u32) -> Result<Vec<i64>> {
        let mut owners = self.connection.prepare_cached(&sql.gone)?;
        let owners: Vec<Value> = owners.query_map([self.owner.id], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let mut rowids = Vec::new();
        for owner in owners {
            self.visit(&Part::of_owner(&owner), limit as usize - rowids.len(), |_, rowid| rowids.push(rowid))?;
        }
        Ok(rowids)
    }

    /// Returns the rows of this process.
    pub(super) fn own(&mut self) -> Result<Vec<i64>> {
        let (owner, mut rowids) = (self.owner.id, Vec::new());
        self.visit(&Part::of_owner(&owner), usize::MAX, |_, rowid| rowids.push(rowid))?;
        Ok(rowids)
    }

    /// Returns what is to be taken.
    pub(super) fn coming_up(&mut self, scan: &Scan) -> Result<Vec<i64>> {
        let overdue = self.between(i64::MIN, scan.overdue_before.0, scan.overdue_limit)?;
        let soon = self.between(scan.overdue_before.0, scan.horizon.0, scan.limit)?;
        Ok([overdue, soon, self.misfits()].concat())
    }

    /// Returns the first rows between two deadlines that have a handler here.
    fn between(&mut self, from: i64, mut until: i64, limit: u32) -> Result<Vec<i64>> {
        let limit = limit as usize;
        let mut first: Vec<(i64, i64)> = Vec::new();
        for handler in &self.owner.handlers {
            let part = Part { sql: BY_DUE, key: handler, from, until };
            self.visit(&part, limit, |due, rowid| first.push((due, rowid)))?;
            first.sort_unstable();
            first.truncate(limit);
            // Of the other handlers only what is due before that.
            if first.len() == limit {
                until = first.last().map_or(from, |(due, _)| *due);
            }
        }
        Ok(first.into_iter().map(|(_, rowid)| rowid).collect())
    }

    /// Returns rows whose handler or deadline is of another type. No range of deadlines has them,
    /// so they would never come up, without a word.
    fn misfits(&self) -> Vec<i64> {
        // A text is greater than any number, and a blob is greater than any text.
        const HANDLERS: &str = "SELECT rowid FROM tourbillon_timeouts WHERE owner IS NULL AND handler >= x''";
        const DUES: &str = "SELECT rowid FROM tourbillon_timeouts WHERE owner IS NULL AND handler = ?1 AND due >= ''";
        let select = |sql, parameters: &[&dyn ToSql]| -> Result<Vec<i64>> {
            let mut select = self.connection.prepare_cached(sql)?;
            let rowids = select.query_map(parameters, |row| row.get(0))?;
            let new = |rowid: &Result<i64>| !rowid.as_ref().is_ok_and(|rowid| self.left_alone.contains(*rowid));
            rowids.filter(new).take(MISFITS).collect()
        };
        let of_handlers = self.owner.handlers.iter().map(|handler| select(DUES, &[handler]));
        // A part that is damaged has been found by now.
        of_handlers.chain([select(HANDLERS, &[])]).flat_map(Result::unwrap_or_default).collect()
    }

    /// Visits so many entries at most, each with its position and rowid.
    fn visit(&mut self, part: &Part<'_>, limit: usize, mut visit: impl FnMut(i64, i64)) -> Result<()> {
        let (left_alone, mut left) = (self.left_alone, limit);
        if left == 0 {
            return Ok(());
        }
        let damages = part.visit(self.connection, |position, rowid| {
            if !left_alone.contains(rowid) {
                visit(position, rowid);
                left -= 1;
            }
            left > 0
        })?;
        self.damages.extend(damages);
        Ok(())
    }
}

/// Takes a row for this process.
pub(super) fn take(connection: &Connection, rowid: i64, owner: i64) -> Result<Option<Taken>> {
    connection
        .prepare_cached(&format!(
            "UPDATE tourbillon_timeouts SET owner = ?2, running = 0 WHERE rowid = ?1 AND owner IS NULL RETURNING {TAKEN}"
        ))?
        .query_row(params![rowid, owner], rows::taken)
        .optional()
}

/// Reads a row.
pub(super) fn read(connection: &Connection, rowid: i64) -> Result<Option<Taken>> {
    connection
        .prepare_cached(&format!("SELECT {TAKEN} FROM tourbillon_timeouts WHERE rowid = ?1"))?
        .query_row([rowid], rows::taken)
        .optional()
}

/// Returns the name of a row, for somebody who looks for it.
pub(super) fn name(connection: &Connection, rowid: i64) -> String {
    let key = connection.query_row("SELECT quote(key) FROM tourbillon_timeouts WHERE rowid = ?1", [rowid], |row| {
        row.get::<_, String>(0)
    });
    key.map_or_else(|_| format!("rowid {rowid}"), |key| format!("key {key} (rowid {rowid})"))
}
