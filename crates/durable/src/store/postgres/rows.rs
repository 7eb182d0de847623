//! Tokens as they are sent, and rows as they come back.

use postgres::Row;
use postgres::types::{FromSql, ToSql, Type};

use super::session::{Trouble, text};
use crate::clock::Micros;
use crate::due::{DeadLetter, Pending};
use crate::store::{Answer, Moved, Owner, Taken};

/// Keys, generations and attempts: the tokens of runs, or what claims compare.
pub(super) struct Tokens<'a> {
    keys: Vec<&'a str>,
    generations: Vec<i64>,
    attempts: Vec<i32>,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(tokens: impl Iterator<Item = (&'a str, i64, u32)>) -> Self {
        let mut arrays = Self { keys: Vec::new(), generations: Vec::new(), attempts: Vec::new() };
        for (key, generation, attempts) in tokens {
            arrays.keys.push(key);
            arrays.generations.push(generation);
            arrays.attempts.push(i32::try_from(attempts).unwrap_or(i32::MAX));
        }
        arrays
    }

    /// The first four parameters of a statement: the owner, and the arrays.
    pub(super) fn params<'b>(&'b self, owner: &'b Owner) -> [(&'b (dyn ToSql + Sync), Type); 4] {
        [
            (&owner.id, Type::INT8),
            (&self.keys, Type::TEXT_ARRAY),
            (&self.generations, Type::INT8_ARRAY),
            (&self.attempts, Type::INT4_ARRAY),
        ]
    }
}

/// Reads a column. One that can't be read is its row's fault.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, Trouble> {
    row.try_get(index).map_err(|error| Trouble::Data(text(&error)))
}

/// A number that is never negative.
pub(super) fn count(row: &Row, index: usize) -> Result<u32, Trouble> {
    column::<i32>(row, index).map(|count| u32::try_from(count).unwrap_or(0))
}

/// Which item of a statement's arrays its row answers, from 0. The server counts from 1.
pub(super) fn place(row: &Row) -> Result<usize, Trouble> {
    let number: i64 = column(row, 0)?;
    usize::try_from(number - 1).map_err(|_| Trouble::Data(format!("no item has the number {number}")))
}

pub(super) fn done(_: &Row) -> Result<Answer, Trouble> {
    Ok(Answer::Done(true))
}

pub(super) fn moved(row: &Row) -> Result<Answer, Trouble> {
    Ok(Answer::Moved(Some(Moved {
        generation: column(row, 1)?,
        owned: column(row, 2)?,
        handler: column(row, 3)?,
        bytes: count(row, 4)? as usize,
    })))
}

pub(super) fn pending(row: &Row) -> Result<Answer, Trouble> {
    Ok(Answer::Row(Some(Pending {
        due: Micros(column(row, 1)?).to_system_time(),
        handler: column(row, 2)?,
        payload: column(row, 3)?,
        generation: column(row, 4)?,
        attempts: count(row, 5)?,
        running: column(row, 6)?,
    })))
}

pub(super) fn dead_letter(row: &Row) -> Result<DeadLetter, Trouble> {
    Ok(DeadLetter {
        key: column(row, 0)?,
        generation: column(row, 1)?,
        due: Micros(column(row, 2)?).to_system_time(),
        handler: column(row, 3)?,
        payload: column(row, 4)?,
        attempts: count(row, 5)?,
        died_at: Micros(column(row, 6)?).to_system_time(),
    })
}

pub(super) fn taken(row: &Row) -> Result<Taken, Trouble> {
    Ok(Taken {
        key: column::<&str>(row, 0)?.into(),
        due: Micros(column(row, 1)?),
        generation: column(row, 2)?,
        attempts: count(row, 3)?,
        handler: column(row, 4)?,
        bytes: count(row, 5)? as usize,
        suspect: column(row, 6)?,
        running: column(row, 7)?,
    })
}
