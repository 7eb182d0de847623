//! One part of a batch, in one statement for each kind of operation.

use std::collections::{HashMap, HashSet};

use postgres::{GenericClient, Row, Statement};

use super::segments::{Kind, Segment, key};
use super::statements::Statements;
use crate::clock::Micros;
use crate::due::{DeadLetter, Pending};
use crate::store::{Answer, Moved, Op, Owner, Token};

/// By their places in the batch.
pub(super) type Answers = Vec<Option<Answer>>;

/// Carries out one segment, and puts in the answers to its operations.
pub(super) fn carry_out(
    client: &mut impl GenericClient,
    statements: &Statements,
    owner: &Owner,
    ops: &[Op],
    segment: &Segment,
    answers: &mut Answers,
) -> Result<(), postgres::Error> {
    let mut run = Run { client, statements, owner, ops, answers };
    for (kind, indexes) in segment.kinds() {
        match kind {
            Kind::Schedule => run.schedules(indexes)?,
            Kind::Reset => run.resets(indexes)?,
            Kind::Cancel => run.cancels(indexes)?,
            Kind::Get => run.gets(indexes)?,
            Kind::Complete => run.tokens(indexes, &statements.complete)?,
            Kind::Retry => run.retries(indexes)?,
            Kind::Bury => run.tokens(indexes, &statements.bury)?,
            Kind::Unclaim => run.tokens(indexes, &statements.unclaim)?,
        }
    }
    segment.others.iter().try_for_each(|&index| run.other(index))
}

/// A segment under way.
struct Run<'a, C> {
    client: &'a mut C,
    statements: &'a Statements,
    owner: &'a Owner,
    ops: &'a [Op],
    answers: &'a mut Answers,
}

impl<C: GenericClient> Run<'_, C> {
    fn schedules(&mut self, indexes: &[usize]) -> Result<(), postgres::Error> {
        let (mut keys, mut dues, mut handlers, mut payloads, mut mine) = (vec![], vec![], vec![], vec![], vec![]);
        for &index in indexes {
            let Op::Schedule { key, due, handler, payload, owned } = &self.ops[index] else { continue };
            keys.push(&**key);
            dues.push(due.0);
            handlers.push(&**handler);
            payloads.push(&**payload);
            mine.push(*owned);
        }
        let rows = self
            .client
            .query(&self.statements.schedule, &[&keys, &dues, &handlers, &payloads, &mine, &self.owner.id])?;
        let generations: HashMap<&str, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        for &index in indexes {
            let generation = generations[key(&self.ops[index])];
            self.answers[index] = Some(Answer::Scheduled { generation });
        }
        Ok(())
    }

    fn resets(&mut self, indexes: &[usize]) -> Result<(), postgres::Error> {
        let (mut keys, mut dues, mut mine) = (vec![], vec![], vec![]);
        for &index in indexes {
            let Op::Reset { key, due, owned } = &self.ops[index] else { continue };
            keys.push(&**key);
            dues.push(due.0);
            mine.push(*owned);
        }
        let rows =
            self.client.query(&self.statements.reset, &[&keys, &dues, &mine, &self.owner.id, &self.owner.handlers])?;
        let moved: HashMap<&str, (i64, bool)> = rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect();
        for &index in indexes {
            let moved = moved.get(key(&self.ops[index]));
            self.answers[index] = Some(Answer::Moved(moved.map(|&(generation, owned)| Moved { generation, owned })));
        }
        Ok(())
    }

    fn cancels(&mut self, indexes: &[usize]) -> Result<(), postgres::Error> {
        let keys: Vec<&str> = indexes.iter().map(|&index| key(&self.ops[index])).collect();
        let rows = self.client.query(&self.statements.cancel, &[&keys])?;
        self.done(indexes, &rows);
        Ok(())
    }

    fn gets(&mut self, indexes: &[usize]) -> Result<(), postgres::Error> {
        let keys: Vec<&str> = indexes.iter().map(|&index| key(&self.ops[index])).collect();
        let rows = self.client.query(&self.statements.get, &[&keys])?;
        let mut found: HashMap<&str, Pending> = rows
            .iter()
            .map(|row| {
                let pending = Pending {
                    due: Micros(row.get(1)).to_system_time(),
                    handler: row.get(2),
                    payload: row.get(3),
                    generation: row.get(4),
                    attempts: attempts_of_sql(row.get(5)),
                    running: row.get(6),
                };
                (row.get(0), pending)
            })
            .collect();
        for &index in indexes {
            self.answers[index] = Some(Answer::Row(found.remove(key(&self.ops[index]))));
        }
        Ok(())
    }

    fn tokens(&mut self, indexes: &[usize], statement: &Statement) -> Result<(), postgres::Error> {
        let (keys, generations, attempts) = token_arrays(self.ops, indexes);
        let rows = self.client.query(statement, &[&keys, &generations, &attempts, &self.owner.id])?;
        self.done(indexes, &rows);
        Ok(())
    }

    fn retries(&mut self, indexes: &[usize]) -> Result<(), postgres::Error> {
        let (keys, generations, attempts) = token_arrays(self.ops, indexes);
        let (mut dues, mut mine) = (vec![], vec![]);
        for &index in indexes {
            let Op::Retry { due, owned, .. } = &self.ops[index] else { continue };
            dues.push(due.0);
            mine.push(*owned);
        }
        let rows = self
            .client
            .query(&self.statements.retry, &[&keys, &generations, &attempts, &self.owner.id, &dues, &mine])?;
        self.done(indexes, &rows);
        Ok(())
    }

    /// Answers whether the row of each operation was among the `rows`, which begin with their keys.
    fn done(&mut self, indexes: &[usize], rows: &[Row]) {
        let changed: HashSet<&str> = rows.iter().map(|row| row.get(0)).collect();
        for &index in indexes {
            self.answers[index] = Some(Answer::Done(changed.contains(key(&self.ops[index]))));
        }
    }

    /// Dead letters, which operators handle one at a time.
    fn other(&mut self, index: usize) -> Result<(), postgres::Error> {
        let answer = match &self.ops[index] {
            Op::DeadLetters { limit } => {
                let rows = self.client.query(
                    "SELECT key, generation, due, handler, payload, attempts, died_at
                     FROM tourbillon_dead_letters ORDER BY died_at LIMIT $1",
                    &[&i64::from(*limit)],
                )?;
                Answer::DeadLetters(rows.iter().map(dead_letter).collect())
            }
            Op::Revive { key, generation, due, owned } => {
                let row = self.client.query_opt(
                    "WITH revived AS (
                         INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation, owner)
                         SELECT key, $3, handler, payload, nextval('tourbillon_generations'),
                             CASE WHEN $4 AND handler = ANY($6::text[]) THEN $5::bigint END
                         FROM tourbillon_dead_letters WHERE key = $1 AND generation = $2
                         ON CONFLICT (key) DO NOTHING RETURNING generation, owner),
                     gone AS (
                         DELETE FROM tourbillon_dead_letters
                         WHERE key = $1 AND generation = $2 AND EXISTS (SELECT 1 FROM revived))
                     SELECT generation, owner IS NOT NULL FROM revived",
                    &[&&**key, generation, &due.0, owned, &self.owner.id, &self.owner.handlers],
                )?;
                Answer::Moved(row.map(|row| Moved { generation: row.get(0), owned: row.get(1) }))
            }
            Op::DeleteDead { key, generation } => {
                let deleted = self.client.execute(
                    "DELETE FROM tourbillon_dead_letters WHERE key = $1 AND generation = $2",
                    &[&&**key, generation],
                )?;
                Answer::Done(deleted == 1)
            }
            _ => unreachable!("it has a kind"),
        };
        self.answers[index] = Some(answer);
        Ok(())
    }
}

fn token(op: &Op) -> Option<&Token> {
    match op {
        Op::Complete(token) | Op::Retry { token, .. } | Op::Bury(token) | Op::Unclaim(token) => Some(token),
        _ => None,
    }
}

/// The tokens of these operations, as arrays.
fn token_arrays<'a>(ops: &'a [Op], indexes: &[usize]) -> (Vec<&'a str>, Vec<i64>, Vec<i32>) {
    let tokens: Vec<&Token> = indexes.iter().filter_map(|&index| token(&ops[index])).collect();
    (
        tokens.iter().map(|token| &*token.key).collect(),
        tokens.iter().map(|token| token.generation).collect(),
        tokens.iter().map(|token| attempts_to_sql(token.attempt)).collect(),
    )
}

fn dead_letter(row: &Row) -> DeadLetter {
    DeadLetter {
        key: row.get(0),
        generation: row.get(1),
        due: Micros(row.get(2)).to_system_time(),
        handler: row.get(3),
        payload: row.get(4),
        attempts: attempts_of_sql(row.get(5)),
        died_at: Micros(row.get(6)).to_system_time(),
    }
}

pub(super) fn attempts_to_sql(attempts: u32) -> i32 {
    i32::try_from(attempts).unwrap_or(i32::MAX)
}

pub(super) fn attempts_of_sql(attempts: i32) -> u32 {
    u32::try_from(attempts).unwrap_or(0)
}
