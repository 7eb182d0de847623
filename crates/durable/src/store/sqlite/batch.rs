//! A commit carries out its operations, one after the other.

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::rows;
use super::statements::Statements;
use crate::store::{Answer, Moved, Op, Owner, Token};

/// Key, generation, attempts, owner.
const GIVE_BACK: &str = "UPDATE tourbillon_timeouts SET owner = NULL
    WHERE key = ?1 AND generation = ?2 AND attempts = ?3 AND owner = ?4 AND NOT running";

/// A commit under way.
pub(super) struct Batch<'a> {
    connection: &'a Connection,
    owner: &'a Owner,
    sql: &'a Statements,
    /// The last generation that was handed out, and what it was before this commit.
    generation: i64,
    before: i64,
}

impl<'a> Batch<'a> {
    pub(super) fn begin(connection: &'a Connection, owner: &'a Owner, sql: &'a Statements) -> Result<Self> {
        // It is not kept in memory: the file says what was committed, also after a failure.
        let before =
            connection.prepare_cached("SELECT last FROM tourbillon_generations")?.query_row([], |row| row.get(0))?;
        Ok(Self { connection, owner, sql, generation: before, before })
    }

    /// Writes down what was handed out.
    pub(super) fn keep_generation(&self) -> Result<()> {
        if self.generation != self.before {
            self.connection
                .prepare_cached("UPDATE tourbillon_generations SET last = ?1")?
                .execute([self.generation])?;
        }
        Ok(())
    }

    /// Returns the rows that the operations may have written.
    pub(super) fn rowids(&self, ops: &[Op]) -> Result<Vec<i64>> {
        let mut select = self.connection.prepare_cached("SELECT rowid FROM tourbillon_timeouts WHERE key = ?1")?;
        let written = ops.iter().filter_map(|op| match op {
            Op::Schedule { key, .. } | Op::Reset { key, .. } | Op::Revive { key, .. } => Some(key),
            _ => None,
        });
        written.filter_map(|key| select.query_row([key], |row| row.get(0)).optional().transpose()).collect()
    }

    pub(super) fn carry_out(&mut self, op: &Op) -> Result<Answer> {
        let connection = self.connection;
        match op {
            Op::Schedule { key, due, handler, payload, owned, if_absent } => {
                let (generation, owner) = (self.next_generation(), self.mine(*owned));
                let schedule = if *if_absent { &self.sql.schedule_if_absent } else { &self.sql.schedule };
                let written = connection.prepare_cached(schedule)?.execute(params![
                    key,
                    due.0,
                    handler,
                    &payload[..],
                    generation,
                    owner
                ])?;
                // A schedule that replaces a row writes it. A trigger of the user's may swallow it.
                Ok(if *if_absent && written == 0 { Answer::Present } else { Answer::Scheduled { generation } })
            }
            Op::Reset { key, due, owned } => {
                let (generation, owner) = (self.next_generation(), self.mine(*owned));
                let moved = connection
                    .prepare_cached(&self.sql.reset)?
                    .query_row(params![key, due.0, generation, owner], |row| rows::moved(generation, row))
                    .optional()?;
                self.moved(key, moved, *owned)
            }
            Op::Cancel { key } => Ok(Answer::Done(connection.prepare_cached(&self.sql.cancel)?.execute([key])? == 1)),
            Op::Get { key } => self.get(key),
            Op::Complete(token) => self.end(token, &self.sql.complete),
            Op::Retry { token: Token { key, generation, attempt }, due, owned } => {
                let mut retry = connection.prepare_cached(&self.sql.retry)?;
                let owner = self.mine(*owned);
                Ok(Answer::Done(retry.execute(params![key, generation, attempt, self.owner.id, due.0, owner])? == 1))
            }
            Op::Bury(token) => {
                self.end(token, &self.sql.copy_to_dead)?;
                self.end(token, &self.sql.complete)
            }
            Op::Unclaim(token) => self.end(token, &self.sql.unclaim),
            Op::GiveBack(token) => self.end(token, GIVE_BACK),
            Op::DeadLetters { limit } => self.dead_letters(*limit),
            Op::Revive { key, generation, due, owned } => {
                let (new, owner) = (self.next_generation(), self.mine(*owned));
                let moved = connection
                    .prepare_cached(
                        "INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation, owner)
                         SELECT key, ?3, handler, payload, ?4, ?5 FROM tourbillon_dead_letters
                         WHERE key = ?1 AND generation = ?2
                         ON CONFLICT (key) DO NOTHING RETURNING handler, octet_length(payload)",
                    )?
                    .query_row(params![key, generation, due.0, new, owner], |row| rows::moved(new, row))
                    .optional()?;
                if moved.is_some() {
                    self.delete_dead(key, *generation)?;
                }
                self.moved(key, moved, *owned)
            }
            Op::DeleteDead { key, generation } => self.delete_dead(key, *generation),
        }
    }

    fn next_generation(&mut self) -> i64 {
        self.generation += 1;
        self.generation
    }

    fn mine(&self, owned: bool) -> Option<i64> {
        owned.then_some(self.owner.id)
    }

    /// Changes the row of a token.
    fn end(&self, Token { key, generation, attempt }: &Token, sql: &str) -> Result<Answer> {
        let mut change = self.connection.prepare_cached(sql)?;
        Ok(Answer::Done(change.execute(params![key, generation, attempt, self.owner.id])? == 1))
    }

    fn get(&self, key: &str) -> Result<Answer> {
        let mut get = self.connection.prepare_cached(
            "SELECT due, handler, payload, generation, attempts, running FROM tourbillon_timeouts WHERE key = ?1",
        )?;
        Ok(Answer::Row(get.query_row([key], rows::pending).optional()?))
    }

    /// Leaves out what it can't read.
    fn dead_letters(&self, limit: u32) -> Result<Answer> {
        let mut list = self.connection.prepare_cached(
            "SELECT key, generation, due, handler, payload, attempts, died_at
             FROM tourbillon_dead_letters ORDER BY died_at",
        )?;
        let letters = list.query_map([], |row| Ok(rows::dead_letter(row).ok()))?;
        let readable = letters.filter_map(Result::transpose).take(limit as usize);
        Ok(Answer::DeadLetters(readable.collect::<Result<_>>()?))
    }

    fn delete_dead(&self, key: &str, generation: i64) -> Result<Answer> {
        let mut delete =
            self.connection.prepare_cached("DELETE FROM tourbillon_dead_letters WHERE key = ?1 AND generation = ?2")?;
        Ok(Answer::Done(delete.execute(params![key, generation])? == 1))
    }

    /// The answer about a row that has moved. A row without a handler here stays without an owner.
    fn moved(&self, key: &str, moved: Option<Moved>, owned: bool) -> Result<Answer> {
        let Some(moved) = moved else { return Ok(Answer::Moved(None)) };
        let known = self.owner.handlers.contains(&moved.handler);
        if owned && !known {
            self.connection
                .prepare_cached("UPDATE tourbillon_timeouts SET owner = NULL WHERE key = ?1")?
                .execute([key])?;
        }
        Ok(Answer::Moved(Some(Moved { owned: owned && known, ..moved })))
    }
}
