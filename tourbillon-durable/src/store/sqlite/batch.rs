//! What a commit carries out, one operation after the other.

use rusqlite::{OptionalExtension, Transaction, params};

use crate::clock::Micros;
use crate::due::{DeadLetter, Pending};
use crate::store::{Answer, Moved, Op, Owner};

/// A transaction under way.
pub(super) struct Batch<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    pub(super) owner: &'a Owner,
    pub(super) generation: &'a mut i64,
    pub(super) cancel: &'a str,
    pub(super) reset: &'a str,
}

impl Batch<'_> {
    pub(super) fn carry_out(&mut self, op: &Op) -> rusqlite::Result<Answer> {
        let transaction = self.transaction;
        let mine = |owned: bool| owned.then_some(self.owner.id);
        Ok(match op {
            Op::Schedule { key, due, handler, payload, owned } => {
                let owner = mine(*owned);
                let generation = self.next_generation();
                transaction
                    .prepare_cached(
                        "INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation, owner)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                         ON CONFLICT (key) DO UPDATE SET due = excluded.due, handler = excluded.handler,
                             payload = excluded.payload, generation = excluded.generation, attempts = 0,
                             owner = excluded.owner, running = 0",
                    )?
                    .execute(params![key, due.0, handler, &payload[..], generation, owner])?;
                Answer::Scheduled { generation }
            }
            Op::Reset { key, due, owned } => {
                let owner = mine(*owned);
                let generation = self.next_generation();
                let handler: Option<String> = transaction
                    .prepare_cached(self.reset)?
                    .query_row(params![key, due.0, generation, owner], |row| row.get(0))
                    .optional()?;
                self.moved(key, handler, generation, *owned)?
            }
            Op::Cancel { key } => Answer::Done(transaction.prepare_cached(self.cancel)?.execute([key])? == 1),
            Op::Get { key } => Answer::Row(
                transaction
                    .prepare_cached(
                        "SELECT due, handler, payload, generation, attempts, running
                         FROM tourbillon_timeouts WHERE key = ?1",
                    )?
                    .query_row([key], |row| {
                        Ok(Pending {
                            due: Micros(row.get(0)?).to_system_time(),
                            handler: row.get(1)?,
                            payload: row.get(2)?,
                            generation: row.get(3)?,
                            attempts: row.get(4)?,
                            running: row.get(5)?,
                        })
                    })
                    .optional()?,
            ),
            Op::Complete(token) => Answer::Done(
                transaction
                    .prepare_cached(
                        "DELETE FROM tourbillon_timeouts
                         WHERE key = ?1 AND generation = ?2 AND attempts = ?3 AND owner = ?4 AND running",
                    )?
                    .execute(params![token.key, token.generation, token.attempt, self.owner.id])?
                    == 1,
            ),
            Op::Retry { token, due, owned } => Answer::Done(
                transaction
                    .prepare_cached(
                        "UPDATE tourbillon_timeouts SET due = ?5, owner = ?6, running = 0
                         WHERE key = ?1 AND generation = ?2 AND attempts = ?3 AND owner = ?4 AND running",
                    )?
                    .execute(params![token.key, token.generation, token.attempt, self.owner.id, due.0, mine(*owned)])?
                    == 1,
            ),
            Op::Bury(token) => {
                let row = params![token.key, token.generation, token.attempt, self.owner.id];
                transaction
                    .prepare_cached(
                        "INSERT INTO tourbillon_dead_letters
                         SELECT key, generation, due, handler, payload, attempts, tourbillon_now()
                         FROM tourbillon_timeouts
                         WHERE key = ?1 AND generation = ?2 AND attempts = ?3 AND owner = ?4 AND running",
                    )?
                    .execute(row)?;
                Answer::Done(
                    transaction
                        .prepare_cached(
                            "DELETE FROM tourbillon_timeouts
                             WHERE key = ?1 AND generation = ?2 AND attempts = ?3 AND owner = ?4 AND running",
                        )?
                        .execute(row)?
                        == 1,
                )
            }
            Op::Unclaim(token) => Answer::Done(
                transaction
                    .prepare_cached(
                        "UPDATE tourbillon_timeouts SET attempts = attempts - 1, owner = NULL, running = 0
                         WHERE key = ?1 AND generation = ?2 AND attempts = ?3 AND owner = ?4 AND running",
                    )?
                    .execute(params![token.key, token.generation, token.attempt, self.owner.id])?
                    == 1,
            ),
            Op::DeadLetters { limit } => Answer::DeadLetters(
                transaction
                    .prepare_cached(
                        "SELECT key, generation, due, handler, payload, attempts, died_at
                         FROM tourbillon_dead_letters ORDER BY died_at LIMIT ?1",
                    )?
                    .query_map([limit], |row| {
                        Ok(DeadLetter {
                            key: row.get(0)?,
                            generation: row.get(1)?,
                            due: Micros(row.get(2)?).to_system_time(),
                            handler: row.get(3)?,
                            payload: row.get(4)?,
                            attempts: row.get(5)?,
                            died_at: Micros(row.get(6)?).to_system_time(),
                        })
                    })?
                    .collect::<Result<_, _>>()?,
            ),
            Op::Revive { key, generation, due, owned } => {
                let owner = mine(*owned);
                let new = self.next_generation();
                let handler: Option<String> = transaction
                    .prepare_cached(
                        "INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation, owner)
                         SELECT key, ?3, handler, payload, ?4, ?5 FROM tourbillon_dead_letters
                         WHERE key = ?1 AND generation = ?2
                         ON CONFLICT (key) DO NOTHING RETURNING handler",
                    )?
                    .query_row(params![key, generation, due.0, new, owner], |row| row.get(0))
                    .optional()?;
                if handler.is_some() {
                    transaction
                        .prepare_cached("DELETE FROM tourbillon_dead_letters WHERE key = ?1 AND generation = ?2")?
                        .execute(params![key, generation])?;
                }
                self.moved(key, handler, new, *owned)?
            }
            Op::DeleteDead { key, generation } => Answer::Done(
                transaction
                    .prepare_cached("DELETE FROM tourbillon_dead_letters WHERE key = ?1 AND generation = ?2")?
                    .execute(params![key, generation])?
                    == 1,
            ),
        })
    }

    fn next_generation(&mut self) -> i64 {
        *self.generation += 1;
        *self.generation
    }

    /// The answer about a row that has moved. A row without a handler here stays without an owner.
    fn moved(&self, key: &str, handler: Option<String>, generation: i64, owned: bool) -> rusqlite::Result<Answer> {
        let Some(handler) = handler else { return Ok(Answer::Moved(None)) };
        let known = self.owner.handlers.contains(&handler);
        if owned && !known {
            self.transaction
                .prepare_cached("UPDATE tourbillon_timeouts SET owner = NULL WHERE key = ?1")?
                .execute([key])?;
        }
        Ok(Answer::Moved(Some(Moved { generation, owned: owned && known })))
    }
}
