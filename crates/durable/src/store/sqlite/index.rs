//! Reads the rowids of an index, in its order, and passes over pages of it that are damaged.

use rusqlite::{Connection, Result, ToSql};

use super::database::concerns_one;

/// A part of an index: the entries of one key, between two positions.
///
/// Each statement selects position and rowid, for ?1 = key, ?2 <= position < ?3, in this order. It
/// reads nothing but the index. So a damaged page of the table does not stop it.
pub(super) struct Part<'a> {
    pub(super) sql: &'a str,
    pub(super) key: &'a dyn ToSql,
    pub(super) from: i64,
    pub(super) until: i64,
}

/// Rows of a handler without an owner, by their deadlines.
pub(super) const BY_DUE: &str = "SELECT due, rowid FROM tourbillon_timeouts
    WHERE owner IS NULL AND handler = ?1 AND due >= ?2 AND due < ?3 ORDER BY due";
/// Rows of an owner, by their rowids.
pub(super) const BY_OWNER: &str = "SELECT rowid, rowid FROM tourbillon_timeouts
    WHERE owner = ?1 AND rowid >= ?2 AND rowid < ?3 ORDER BY rowid";

impl<'a> Part<'a> {
    /// All rows of an owner.
    pub(super) fn of_owner(key: &'a dyn ToSql) -> Self {
        Self { sql: BY_OWNER, key, from: i64::MIN, until: i64::MAX }
    }

    /// Visits the entries, each with its position and rowid, until `visit` says that it is enough.
    /// Returns a reason for each stretch that can't be read.
    pub(super) fn visit(
        &self,
        connection: &Connection,
        mut visit: impl FnMut(i64, i64) -> bool,
    ) -> Result<Vec<String>> {
        let (mut from, mut damages) = (self.from, Vec::new());
        loop {
            let mut last = from.saturating_sub(1);
            let error = match self.visit_from(connection, from, &mut last, &mut visit) {
                Ok(()) => return Ok(damages),
                Err(error) if concerns_one(&error) => error,
                Err(error) => return Err(error),
            };
            let next = self.readable_after(connection, last);
            damages.push(format!("entries of an index before {}: {error}", next.unwrap_or(self.until)));
            let Some(next) = next else { return Ok(damages) };
            from = next;
        }
    }

    fn visit_from(
        &self,
        connection: &Connection,
        from: i64,
        last: &mut i64,
        visit: &mut impl FnMut(i64, i64) -> bool,
    ) -> Result<()> {
        let mut statement = connection.prepare_cached(self.sql)?;
        let mut rows = statement.query((self.key, from, self.until))?;
        while let Some(row) = rows.next()? {
            // A deadline may be a fraction, if somebody has inserted it by hand.
            let position = row.get(0).or_else(|_| row.get(0).map(round_down))?;
            *last = position;
            if !visit(position, row.get(1)?) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the first position after `bad` from which the index can be read.
    fn readable_after(&self, connection: &Connection, mut bad: i64) -> Option<i64> {
        let mut step = 1_i64;
        let mut good = loop {
            let next = bad.checked_add(step).filter(|next| *next < self.until)?;
            if self.is_readable(connection, next) {
                break next;
            }
            bad = next;
            step = step.saturating_mul(2);
        };
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            *(if self.is_readable(connection, middle) { &mut good } else { &mut bad }) = middle;
        }
        Some(good)
    }

    fn is_readable(&self, connection: &Connection, from: i64) -> bool {
        let mut last = from;
        self.visit_from(connection, from, &mut last, &mut |_, _| false).is_ok()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
fn round_down(position: f64) -> i64 {
    position.floor() as i64
}
