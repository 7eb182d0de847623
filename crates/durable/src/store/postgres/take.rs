//! A scan takes rows by the index of what is due, and around rows that can't be read.
//!
//! One that can't be read fails the statement that meets it. So the time between two deadlines is
//! halved until that one is alone. From then on the statement has a hole there.

use std::time::{Duration, Instant};

use postgres::types::Type;

use super::holes::{Part, split};
use super::lease::write_lease;
use super::rows::taken;
use super::session::{Session, Transaction, Trouble, UNSYNCED};
use super::statements::STATEMENTS;
use crate::store::{Failure, Owner, Scan, Scanned, Taken};

/// How long one scan looks for rows that can't be read. It finds one at least, and the next scan
/// goes on.
const PATIENCE: Duration = Duration::from_millis(100);
/// Takes what is overdue, and what comes up until the horizon.
pub(super) fn take(session: &mut Session, owner: &Owner, scan: Scan, scanned: &mut Scanned) -> Result<(), Failure> {
    session.holes.forget();
    let overdue = session.holes.around(&owner.handlers, i64::MIN, scan.overdue_before.0);
    let soon = session.holes.around(&owner.handlers, scan.overdue_before.0, scan.horizon.0);
    let classes = [(overdue, scan.overdue_limit as usize), (soon, scan.limit as usize)];
    match once(session, owner, &STATEMENTS.take, &classes) {
        Ok(rows) => scanned.taken = rows,
        Err(Trouble::Data(_)) => {
            let until = Instant::now() + PATIENCE;
            let mut search = Search { session, owner, until, holes: 0, scanned };
            let searched = classes.into_iter().try_for_each(|(parts, limit)| {
                let limit = search.scanned.taken.len() + limit;
                search.take(&parts, limit)
            });
            match searched {
                // The rows that were taken before are this process's.
                Err(Failure::Unavailable(_)) if !scanned.taken.is_empty() => scanned.more = true,
                searched => searched?,
            }
        }
        Err(trouble) => return Err(trouble.into()),
    }
    Ok(())
}

/// Takes the first rows of each class, so many at most, in one transaction.
fn once(
    session: &mut Session,
    owner: &Owner,
    statement: &str,
    classes: &[(Vec<Part>, usize)],
) -> Result<Vec<Taken>, Trouble> {
    session.transaction(UNSYNCED, |transaction| {
        let mut rows = Vec::new();
        for (parts, limit) in classes {
            rows.append(&mut first_of(transaction, owner, statement, parts, *limit)?);
        }
        if !rows.is_empty() {
            write_lease(transaction, owner)?;
        }
        Ok(rows)
    })
}

fn first_of(
    transaction: &mut Transaction<'_>,
    owner: &Owner,
    statement: &str,
    parts: &[Part],
    limit: usize,
) -> Result<Vec<Taken>, Trouble> {
    if limit == 0 || parts.is_empty() {
        return Ok(Vec::new());
    }
    let handlers: Vec<&str> = parts.iter().map(|part| &*part.handler).collect();
    let firsts: Vec<i64> = parts.iter().map(|part| part.first).collect();
    let untils: Vec<i64> = parts.iter().map(|part| part.until).collect();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = transaction.query(
        statement,
        &[
            (&owner.id, Type::INT8),
            (&handlers, Type::TEXT_ARRAY),
            (&firsts, Type::INT8_ARRAY),
            (&untils, Type::INT8_ARRAY),
            (&limit, Type::INT8),
        ],
    )?;
    rows.iter().map(taken).collect()
}

/// A scan that has met a row that can't be read.
struct Search<'a> {
    session: &'a mut Session,
    owner: &'a Owner,
    until: Instant,
    /// How many holes it has found.
    holes: usize,
    scanned: &'a mut Scanned,
}

impl Search<'_> {
    /// Takes rows up to `limit` in all, and notes what can't be read.
    fn take(&mut self, parts: &[Part], limit: usize) -> Result<(), Failure> {
        match self.take_some(&STATEMENTS.take, parts, limit, usize::MAX)? {
            Some(reason) => self.take_halves(parts, limit, reason),
            None => Ok(()),
        }
    }

    /// The same, if something in there can't be read.
    fn take_halves(&mut self, parts: &[Part], limit: usize, reason: String) -> Result<(), Failure> {
        let Some((first, second)) = split(parts) else { return self.leave_alone(&parts[0], &reason, limit) };
        match self.take_some(&STATEMENTS.take, &first, limit, usize::MAX)? {
            Some(reason) => {
                self.take_halves(&first, limit, reason)?;
                self.take(&second, limit)
            }
            None if self.is_over(limit) => Ok(()),
            None => self.take_halves(&second, limit, reason),
        }
    }

    /// Whether enough was taken, or enough was looked for.
    fn is_over(&mut self, limit: usize) -> bool {
        let late = self.holes > 0 && Instant::now() > self.until;
        self.scanned.more |= late;
        late || self.scanned.taken.len() >= limit
    }

    /// Takes `most` rows at most. Returns why one of them can't be read.
    fn take_some(
        &mut self,
        statement: &str,
        parts: &[Part],
        limit: usize,
        most: usize,
    ) -> Result<Option<String>, Failure> {
        if parts.is_empty() || self.is_over(limit) {
            return Ok(None);
        }
        let room = (limit - self.scanned.taken.len()).min(most);
        match once(self.session, self.owner, statement, &[(parts.to_vec(), room)]) {
            Ok(mut rows) => self.scanned.taken.append(&mut rows),
            Err(Trouble::Data(reason)) => return Ok(Some(reason)),
            Err(trouble) => return Err(trouble.into()),
        }
        Ok(None)
    }

    /// Others may be due in the same microsecond. It takes those before and behind the bad one.
    fn leave_alone(&mut self, hole: &Part, reason: &str, limit: usize) -> Result<(), Failure> {
        for statement in [&STATEMENTS.take, &STATEMENTS.take_backwards] {
            let mut most = 1;
            loop {
                let before = self.scanned.taken.len();
                let failed = self.take_some(statement, std::slice::from_ref(hole), limit, most)?.is_some();
                most = match (failed, self.scanned.taken.len() - before) {
                    (true, _) if most > 1 => 1,
                    (true, _) | (false, 0) => break,
                    (false, _) => 2 * most,
                };
            }
        }
        let Part { handler, first, .. } = hole;
        self.scanned.unreadable.push(format!("of the handler {handler:?}, due at {first} us: {reason}"));
        self.session.holes.push(hole.clone());
        self.holes += 1;
        Ok(())
    }
}
