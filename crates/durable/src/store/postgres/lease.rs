//! Leases, and the rows under them. Nothing of this need be on disk: after a crash of the server it
//! is done anew.

use std::time::{Duration, Instant};

use postgres::types::Type;

use super::rows::{column, taken};
use super::session::{Begin, Params, Session, Transaction, Trouble, UNSYNCED};
use super::statements::STATEMENTS;
use crate::clock::whole_micros;
use crate::store::{Failure, Owner, Taken};

/// Rows of one transaction that gives back.
const CHUNK: i64 = 10_000;
/// Blocks of one statement that looks through the table around damage, and how long a scan does
/// that.
const PART: i64 = 1_024;
const AROUND_TIME: Duration = Duration::from_millis(500);

pub(super) fn renew(session: &mut Session, owner: &Owner) -> Result<(), Failure> {
    session.transaction(UNSYNCED, |transaction| write_lease(transaction, owner))?;
    // It looks at rows of others. One that can't be read is no reason to lose the lease.
    let forget = session.transaction(UNSYNCED, |transaction| {
        transaction.query(&STATEMENTS.forget_gone, &[(&owner.id, Type::INT8)]).map(drop)
    });
    match forget {
        Err(Trouble::Lost { reason, unknown }) => Err(Failure::Lost { reason, unknown }),
        _ => Ok(()),
    }
}

pub(super) fn write_lease(transaction: &mut Transaction<'_>, owner: &Owner) -> Result<(), Trouble> {
    let (lease, handlers) = (whole_micros(owner.lease), owner.handlers.join("\n"));
    let params: Params<'_> = &[(&owner.id, Type::INT8), (&lease, Type::INT8), (&handlers, Type::TEXT)];
    transaction.query(&STATEMENTS.renew, params).map(drop)
}

/// Gives up rows of others whose leases have ended, and notes what can't be read. Returns whether
/// more may be left.
pub(super) fn give_up(
    session: &mut Session,
    owner: &Owner,
    limit: u32,
    unreadable: &mut Vec<String>,
) -> Result<bool, Failure> {
    let limit_of_sql = i64::from(limit);
    let rows = session.transaction(UNSYNCED, |transaction| {
        transaction.query(&STATEMENTS.give_up, &[(&owner.id, Type::INT8), (&limit_of_sql, Type::INT8)])
    });
    match rows {
        Ok(rows) => Ok(rows.len() >= limit as usize),
        Err(Trouble::Data(_)) if session.around.is_done() => Ok(false),
        Err(Trouble::Data(_)) => give_up_around(session, owner, unreadable),
        Err(trouble) => Err(trouble.into()),
    }
}

/// Gives up what it can around damage. It looks through the table, a part in each scan.
fn give_up_around(session: &mut Session, owner: &Owner, unreadable: &mut Vec<String>) -> Result<bool, Failure> {
    let until = Instant::now() + AROUND_TIME;
    let all = blocks(session)?;
    let mut next = session.around.next();
    while next < all && Instant::now() < until {
        let end = all.min(next + PART);
        let give_up = |transaction: &mut Transaction<'_>, blocks: Params<'_>| {
            transaction.query(&STATEMENTS.give_up_in, blocks).map(|_| Vec::<()>::new())
        };
        let (_, bad) = by_blocks(session, owner, (next, end), give_up)?;
        unreadable.extend(bad.into_iter().map(|reason| format!("of a process that has gone: {reason}")));
        next = end;
    }
    let more = next < all;
    session.around.got_to(next, more);
    Ok(more)
}

pub(super) fn give_back(session: &mut Session, owner: &Owner) -> Result<(), Failure> {
    loop {
        let rows = session.transaction(UNSYNCED, |transaction| {
            transaction.query(&STATEMENTS.give_back, &[(&owner.id, Type::INT8), (&CHUNK, Type::INT8)])
        })?;
        if rows.len() < usize::try_from(CHUNK).expect("a small number") {
            return Ok(());
        }
    }
}

pub(super) fn release(session: &mut Session, owner: &Owner) -> Result<(), Failure> {
    let begin = Begin { synced: true, ..UNSYNCED };
    session.transaction(begin, |transaction| transaction.query(&STATEMENTS.release, &[(&owner.id, Type::INT8)]))?;
    Ok(())
}

pub(super) fn mine(session: &mut Session, owner: &Owner) -> Result<Vec<Taken>, Failure> {
    let all = session.transaction(UNSYNCED, |transaction| {
        let rows = transaction.query(&STATEMENTS.mine, &[(&owner.id, Type::INT8)])?;
        rows.iter().map(taken).collect::<Result<_, _>>()
    });
    match all {
        Err(Trouble::Data(_)) => {
            let mine_in = |transaction: &mut Transaction<'_>, blocks: Params<'_>| {
                transaction.query(&STATEMENTS.mine_in, blocks)?.iter().map(taken).collect()
            };
            // The scan that took the others could read them, and the claims will say so.
            let all = blocks(session)?;
            Ok(by_blocks(session, owner, (0, all), mine_in)?.0)
        }
        all => Ok(all?),
    }
}

/// How many blocks the table has.
fn blocks(session: &mut Session) -> Result<i64, Trouble> {
    session.transaction(UNSYNCED, |transaction| column(&transaction.query(&STATEMENTS.blocks, &[])?[0], 0))
}

/// Does `work` for these blocks of the table, by halves, until what can't be read is alone. Returns
/// what it has found, and why the rest can't be read.
fn by_blocks<T>(
    session: &mut Session,
    owner: &Owner,
    blocks: (i64, i64),
    work: impl Fn(&mut Transaction<'_>, Params<'_>) -> Result<Vec<T>, Trouble>,
) -> Result<(Vec<T>, Vec<String>), Trouble> {
    let (mut found, mut bad, mut left) = (Vec::new(), Vec::new(), vec![blocks]);
    while let Some((start, end)) = left.pop() {
        let params: Params<'_> = &[(&owner.id, Type::INT8), (&start, Type::INT8), (&end, Type::INT8)];
        match session.transaction(UNSYNCED, |transaction| work(transaction, params)) {
            Ok(mut some) => found.append(&mut some),
            Err(Trouble::Data(_)) if end - start > 1 => {
                let middle = start.midpoint(end);
                left.extend([(middle, end), (start, middle)]);
            }
            Err(Trouble::Data(reason)) => bad.push(reason),
            Err(trouble) => return Err(trouble),
        }
    }
    Ok((found, bad))
}
