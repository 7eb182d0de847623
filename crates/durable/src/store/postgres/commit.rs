//! A commit: one transaction, with one statement for each kind of operation, by arrays.
//!
//! Processes must wait for each other's locks in one order, also for rows that are not there yet.
//! So the first statement inserts the scheduled rows in the order of their keys, while the
//! transaction has no other lock. Only this statement waits. The others skip locked rows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use postgres::Row;
use postgres::types::Type;

use super::rows::{Tokens, column, dead_letter, done, moved, pending, place};
use super::session::{Begin, LOCKED, Params, Session, Transaction, Trouble, all_busy, apart, or_later};
use super::statements::STATEMENTS;
use crate::store::{Answer, Failure, Op, Owner, Rejected, Token};

/// How long a careful commit may wait for locks in all. Then it leaves the rest for later.
const PATIENCE: Duration = Duration::from_millis(500);
/// How many blocked keys are remembered.
const BLOCKED: usize = 10_000;
/// After a key that was there already, so many commits expect more of them. Each time that one is
/// met, the server writes an error to its log.
const UPSERTS: u32 = 512;

/// An answer to each operation.
type Answers = Vec<Result<Answer, Rejected>>;

/// How a transaction gets its locks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It schedules keys that are not there. It waits for them, and for nothing else.
    New,
    /// The same, but the keys may be there.
    First,
    /// It schedules nothing, and waits for all its rows, in the order of their keys.
    InOrder,
    /// It waits for no row that is there, and next to no time for one that is not.
    Careful,
}

/// Carries out a commit. If it meets locks or bad data, it finds out whose.
pub(super) fn commit(session: &mut Session, owner: &Owner, ops: &[Op], careful: bool) -> Result<Answers, Failure> {
    let all: Vec<&Op> = ops.iter().collect();
    if careful {
        return carefully(session, owner, &all);
    }
    match first(session, owner, &all) {
        Ok(mut answers) => {
            wait_for_busy(session, owner, ops, &mut answers)?;
            Ok(answers)
        }
        Err(Trouble::Locked(_) | Trouble::Data(_)) => carefully(session, owner, &all),
        Err(trouble) => Err(trouble.into()),
    }
}

/// A key is mostly new, and an insert that need not look for it takes two thirds of the time.
fn first(session: &mut Session, owner: &Owner, ops: &[&Op]) -> Result<Answers, Trouble> {
    session.upserts = session.upserts.saturating_sub(1);
    let may_be_there = ops.iter().any(|op| matches!(op, Op::Schedule { if_absent: true, .. }));
    if session.upserts == 0 && !may_be_there {
        match once(session, owner, ops, Way::New) {
            Err(Trouble::Data(_)) => session.upserts = UPSERTS,
            answers => return answers,
        }
    }
    once(session, owner, ops, Way::First)
}

/// Tries the busy ones again. Another process's commit holds a row for a moment only.
fn wait_for_busy(session: &mut Session, owner: &Owner, ops: &[Op], answers: &mut Answers) -> Result<(), Trouble> {
    let busy: Vec<usize> = (0..ops.len()).filter(|&place| matches!(answers[place], Err(Rejected::Busy(_)))).collect();
    if busy.is_empty() {
        return Ok(());
    }
    let them: Vec<&Op> = busy.iter().map(|&place| &ops[place]).collect();
    match once(session, owner, &them, Way::InOrder) {
        Ok(waited) => busy.into_iter().zip(waited).for_each(|(place, answer)| answers[place] = answer),
        Err(trouble @ Trouble::Lost { unknown: true, .. }) => return Err(trouble),
        Err(_) => {}
    }
    Ok(())
}

/// Carries it out without the operations that can't be. Those that were blocked the last time come
/// last, each by itself.
fn carefully(session: &mut Session, owner: &Owner, ops: &[&Op]) -> Result<Answers, Failure> {
    let until = Instant::now() + PATIENCE;
    let is_blocked = |op: &Op| op.key().is_some_and(|key| session.blocked.contains(key));
    let (blocked, free): (Vec<usize>, Vec<usize>) = (0..ops.len()).partition(|&place| is_blocked(ops[place]));
    let parts = std::iter::once(&free[..]).chain(blocked.chunks(1)).filter(|part| !part.is_empty());
    let mut answers: Vec<Option<Result<Answer, Rejected>>> = ops.iter().map(|_| None).collect();
    let mut begun = false;
    for part in parts {
        let them: Vec<&Op> = part.iter().map(|&place| ops[place]).collect();
        let answered = apart(&them, &mut |some| {
            if Instant::now() > until {
                return Ok(all_busy(some.len(), "others have locked too much"));
            }
            let answers = once(session, owner, some, Way::Careful);
            begun |= answers.is_ok();
            remember(&mut session.blocked, some, &answers);
            answers
        });
        let answered = if begun { or_later(answered, part.len())? } else { answered? };
        for (&place, answer) in part.iter().zip(answered) {
            answers[place] = Some(answer);
        }
    }
    Ok(answers.into_iter().map(|answer| answer.expect("each is in a part")).collect())
}

/// Remembers an operation that could not be carried out by itself, until it can.
fn remember(blocked: &mut HashSet<Arc<str>>, ops: &[&Op], answers: &Result<Answers, Trouble>) {
    match (ops, answers) {
        ([op], Err(Trouble::Locked(_))) if blocked.len() < BLOCKED => blocked.extend(op.key().cloned()),
        (_, Ok(_)) if !blocked.is_empty() => ops.iter().filter_map(|op| op.key()).for_each(|key| {
            blocked.remove(key);
        }),
        _ => {}
    }
}

/// Carries it out in one transaction.
fn once(session: &mut Session, owner: &Owner, ops: &[&Op], way: Way) -> Result<Answers, Trouble> {
    let bytes = ops.iter().map(|op| op.payload_len()).sum();
    let begin = Begin { synced: true, careful: way == Way::Careful, bytes };
    session.transaction(begin, |transaction| {
        let answers = ops.iter().map(|_| None).collect();
        Batch { transaction, owner, ops, answers }.carry_out(way)
    })
}

/// A commit under way.
struct Batch<'a, 'b> {
    transaction: &'a mut Transaction<'b>,
    owner: &'a Owner,
    ops: &'a [&'a Op],
    answers: Vec<Option<Result<Answer, Rejected>>>,
}

impl<'a> Batch<'a, '_> {
    fn carry_out(mut self, way: Way) -> Result<Answers, Trouble> {
        let statements = &*STATEMENTS;
        self.present()?;
        if way == Way::Careful {
            self.lock(&statements.lock, |op| locked_key(op).or(scheduled_key(op)))?;
        }
        self.schedules(way)?;
        self.dead()?;
        match way {
            Way::New | Way::First => self.lock(&statements.lock, locked_key)?,
            Way::InOrder => self.lock(&statements.lock_in_order, locked_key)?,
            Way::Careful => {}
        }
        self.resets()?;
        self.cancels()?;
        self.tokens(&statements.complete, |op| if let Op::Complete(token) = op { Some(token) } else { None })?;
        self.tokens(&statements.bury, |op| if let Op::Bury(token) = op { Some(token) } else { None })?;
        self.tokens(&statements.unclaim, |op| if let Op::Unclaim(token) = op { Some(token) } else { None })?;
        self.tokens(&statements.give_back_some, |op| if let Op::GiveBack(token) = op { Some(token) } else { None })?;
        self.retries()?;
        self.gets()?;
        self.dead_letters()?;
        Ok(self.answers.into_iter().map(|answer| answer.expect("each has a kind")).collect())
    }

    /// The operations of a kind that have no answer yet: their places, and what is picked of each.
    fn open<T>(&self, pick: impl Fn(&'a Op) -> Option<T>) -> (Vec<usize>, Vec<T>) {
        let open = self.ops.iter().enumerate().filter(|&(index, _)| self.answers[index].is_none());
        open.filter_map(|(index, op)| Some((index, pick(op)?))).unzip()
    }

    /// Carries out a statement for the operations in these places. Its rows begin with the number
    /// of the operation that they answer, from 1. Those without a row are answered by `missing`.
    fn settle(
        &mut self,
        places: &[usize],
        statement: &str,
        params: Params<'_>,
        answer: impl Fn(&Row) -> Result<Answer, Trouble>,
        missing: impl Fn() -> Answer,
    ) -> Result<(), Trouble> {
        if places.is_empty() {
            return Ok(());
        }
        for row in self.transaction.query(statement, params)? {
            // One that can't be read fails all, so that nothing stays of what is answered with an
            // error.
            self.answers[places[place(&row)?]] = Some(Ok(answer(&row)?));
        }
        for &place in places {
            self.answers[place].get_or_insert_with(|| Ok(missing()));
        }
        Ok(())
    }

    /// Locks the rows that are to be changed. Answers the operations on those that somebody else
    /// has locked, and on those that are not there.
    fn lock(&mut self, statement: &str, pick: impl Fn(&'a Op) -> Option<&'a Arc<str>>) -> Result<(), Trouble> {
        let (mut places, mut keys) = self.open(|op| pick(op).map(|key| &**key));
        places.sort_unstable_by_key(|&place| self.ops[place].key());
        keys.sort_unstable();
        if places.is_empty() {
            return Ok(());
        }
        let mut rows_of = |statement: &str, keys: &[&str]| -> Result<Vec<usize>, Trouble> {
            self.transaction.query(statement, &[(&keys, Type::TEXT_ARRAY)])?.iter().map(place).collect()
        };
        let locked = rows_of(statement, &keys)?;
        if locked.len() == keys.len() {
            return Ok(());
        }
        let left = without(keys.len(), &locked);
        let left_keys: Vec<&str> = left.iter().map(|&index| keys[index]).collect();
        let present = rows_of(&STATEMENTS.present, &left_keys)?;
        for &index in &present {
            self.answers[places[left[index]]] = Some(Err(Rejected::Busy(LOCKED.to_owned())));
        }
        for index in without(left.len(), &present) {
            let place = places[left[index]];
            self.answers[place] = match self.ops[place] {
                Op::Schedule { .. } => None,
                Op::Reset { .. } => Some(Ok(Answer::Moved(None))),
                _ => Some(Ok(Answer::Done(false))),
            };
        }
        Ok(())
    }

    /// Answers what is not scheduled, as its key has a row. An upsert would lock that row, and so
    /// hold up its claim.
    fn present(&mut self) -> Result<(), Trouble> {
        let (places, keys) = self.open(|op| match op {
            Op::Schedule { key, if_absent: true, .. } => Some(&**key),
            _ => None,
        });
        if places.is_empty() {
            return Ok(());
        }
        for row in self.transaction.query(&STATEMENTS.present, &[(&keys, Type::TEXT_ARRAY)])? {
            self.answers[places[place(&row)?]] = Some(Ok(Answer::Present));
        }
        Ok(())
    }

    fn schedules(&mut self, way: Way) -> Result<(), Trouble> {
        let (places, mut rows) = self.open(|op| match op {
            Op::Schedule { key, due, handler, payload, owned, .. } => {
                Some((&**key, due.0, &**handler, &**payload, *owned))
            }
            _ => None,
        });
        if places.is_empty() {
            return Ok(());
        }
        let (_, if_absent) = self.open(|op| match op {
            Op::Schedule { key, if_absent: true, .. } => Some(&**key),
            _ => None,
        });
        rows.sort_unstable_by_key(|&(key, ..)| key);
        let keys: Vec<&str> = rows.iter().map(|row| row.0).collect();
        let dues: Vec<i64> = rows.iter().map(|row| row.1).collect();
        let handlers: Vec<&str> = rows.iter().map(|row| row.2).collect();
        let payloads: Vec<&[u8]> = rows.iter().map(|row| row.3).collect();
        let owned: Vec<bool> = rows.iter().map(|row| row.4).collect();
        let params: Params<'_> = &[
            (&self.owner.id, Type::INT8),
            (&keys, Type::TEXT_ARRAY),
            (&dues, Type::INT8_ARRAY),
            (&handlers, Type::TEXT_ARRAY),
            (&payloads, Type::BYTEA_ARRAY),
            (&owned, Type::BOOL_ARRAY),
            (&if_absent, Type::TEXT_ARRAY),
        ];
        let (statement, params) = match way {
            Way::New => (&STATEMENTS.insert, &params[..6]),
            _ if if_absent.is_empty() => (&STATEMENTS.schedule, &params[..6]),
            _ => (&STATEMENTS.schedule_if_absent, params),
        };
        let rows = self.transaction.query(statement, params)?;
        let generations: HashMap<&str, i64> =
            rows.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?))).collect::<Result<_, Trouble>>()?;
        for place in places {
            let Op::Schedule { key, if_absent, .. } = self.ops[place] else { unreachable!("it was picked") };
            // A trigger of the user's may have swallowed it.
            let generation = generations.get(&**key).copied();
            self.answers[place] = Some(match generation {
                Some(generation) => Ok(Answer::Scheduled { generation }),
                None if *if_absent => Ok(Answer::Present),
                None => Err(Rejected::Bad("the row was not written".to_owned())),
            });
        }
        Ok(())
    }

    fn resets(&mut self) -> Result<(), Trouble> {
        let (places, rows) = self.open(|op| match op {
            Op::Reset { key, due, owned } => Some((&**key, due.0, *owned)),
            _ => None,
        });
        let keys: Vec<&str> = rows.iter().map(|row| row.0).collect();
        let dues: Vec<i64> = rows.iter().map(|row| row.1).collect();
        let owned: Vec<bool> = rows.iter().map(|row| row.2).collect();
        let params: Params<'_> = &[
            (&self.owner.id, Type::INT8),
            (&self.owner.handlers, Type::TEXT_ARRAY),
            (&keys, Type::TEXT_ARRAY),
            (&dues, Type::INT8_ARRAY),
            (&owned, Type::BOOL_ARRAY),
        ];
        self.settle(&places, &STATEMENTS.reset, params, moved, || Answer::Moved(None))
    }

    fn cancels(&mut self) -> Result<(), Trouble> {
        let (places, keys) = self.open(|op| if let Op::Cancel { key } = op { Some(&**key) } else { None });
        self.settle(&places, &STATEMENTS.cancel, &[(&keys, Type::TEXT_ARRAY)], done, || Answer::Done(false))
    }

    fn tokens(&mut self, statement: &str, pick: impl Fn(&'a Op) -> Option<&'a Token>) -> Result<(), Trouble> {
        let (places, tokens) = self.open(pick);
        let tokens = Tokens::of(tokens.into_iter().map(parts));
        self.settle(&places, statement, &tokens.params(self.owner), done, || Answer::Done(false))
    }

    fn retries(&mut self) -> Result<(), Trouble> {
        let (places, rows) = self.open(|op| match op {
            Op::Retry { token, due, owned } => Some((token, due.0, *owned)),
            _ => None,
        });
        let tokens = Tokens::of(rows.iter().map(|row| parts(row.0)));
        let dues: Vec<i64> = rows.iter().map(|row| row.1).collect();
        let owned: Vec<bool> = rows.iter().map(|row| row.2).collect();
        let [owner, keys, generations, attempts] = tokens.params(self.owner);
        let params: Params<'_> =
            &[owner, keys, generations, attempts, (&dues, Type::INT8_ARRAY), (&owned, Type::BOOL_ARRAY)];
        self.settle(&places, &STATEMENTS.retry, params, done, || Answer::Done(false))
    }

    fn gets(&mut self) -> Result<(), Trouble> {
        let (places, keys) = self.open(|op| if let Op::Get { key } = op { Some(&**key) } else { None });
        self.settle(&places, &STATEMENTS.get, &[(&keys, Type::TEXT_ARRAY)], pending, || Answer::Row(None))
    }

    /// Carries out the operators' changes of dead letters, one at a time.
    fn dead(&mut self) -> Result<(), Trouble> {
        let (places, _) = self.open(|op| matches!(op, Op::Revive { .. } | Op::DeleteDead { .. }).then_some(()));
        for place in places {
            self.answers[place] = Some(Ok(match self.ops[place] {
                Op::Revive { key, generation, due, owned } => {
                    let params: Params<'_> = &[
                        (&self.owner.id, Type::INT8),
                        (&self.owner.handlers, Type::TEXT_ARRAY),
                        (&&**key, Type::TEXT),
                        (generation, Type::INT8),
                        (&due.0, Type::INT8),
                        (owned, Type::BOOL),
                    ];
                    let rows = self.transaction.query(&STATEMENTS.revive, params)?;
                    rows.first().map_or(Ok(Answer::Moved(None)), moved)?
                }
                Op::DeleteDead { key, generation } => {
                    let params: Params<'_> = &[(&&**key, Type::TEXT), (generation, Type::INT8)];
                    Answer::Done(!self.transaction.query(&STATEMENTS.delete_dead, params)?.is_empty())
                }
                _ => unreachable!("it was picked"),
            }));
        }
        Ok(())
    }

    /// The lists come last, and show what the commit has done.
    fn dead_letters(&mut self) -> Result<(), Trouble> {
        let (places, limits) =
            self.open(|op| if let Op::DeadLetters { limit } = op { Some(i64::from(*limit)) } else { None });
        for (place, limit) in places.into_iter().zip(limits) {
            let rows = self.transaction.query(&STATEMENTS.dead_letters, &[(&limit, Type::INT8)])?;
            let letters = rows.iter().map(dead_letter).collect::<Result<_, _>>()?;
            self.answers[place] = Some(Ok(Answer::DeadLetters(letters)));
        }
        Ok(())
    }
}

/// The key of a row that is changed if it is there.
fn locked_key(op: &Op) -> Option<&Arc<str>> {
    match op {
        Op::Reset { key, .. } | Op::Cancel { key } => Some(key),
        op => op.token().map(|token| &token.key),
    }
}

fn scheduled_key(op: &Op) -> Option<&Arc<str>> {
    if let Op::Schedule { key, .. } = op { Some(key) } else { None }
}

fn parts(token: &Token) -> (&str, i64, u32) {
    (&token.key, token.generation, token.attempt)
}

/// The numbers below `count` that are not among these.
fn without(count: usize, these: &[usize]) -> Vec<usize> {
    let mut left = vec![true; count];
    these.iter().for_each(|&index| left[index] = false);
    (0..count).filter(|&index| left[index]).collect()
}
