//! Leases, and the rows under them. Nothing of this need be on disk: after a crash of the server it
//! is done anew.

use std::ops::Range;

use postgres::types::Type;

use super::rows::{column, taken};
use super::session::{Begin, Session, Transaction, Trouble, UNSYNCED};
use super::statements::STATEMENTS;
use crate::clock::whole_micros;
use crate::store::{Failure, Owner, Taken};

/// Rows of one transaction that gives back.
const CHUNK: i64 = 10_000;

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
    let lease = whole_micros(owner.lease);
    transaction.query(&STATEMENTS.renew, &[(&owner.id, Type::INT8), (&lease, Type::INT8)]).map(drop)
}

/// Gives up rows of others whose leases have ended. Returns whether more may be left.
pub(super) fn give_up(session: &mut Session, owner: &Owner, limit: u32) -> Result<bool, Trouble> {
    let limit_of_sql = i64::from(limit);
    let rows = session.transaction(UNSYNCED, |transaction| {
        transaction.query(&STATEMENTS.give_up, &[(&owner.id, Type::INT8), (&limit_of_sql, Type::INT8)])
    })?;
    Ok(rows.len() >= limit as usize)
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
            let blocks = session
                .transaction(UNSYNCED, |transaction| column(&transaction.query(&STATEMENTS.blocks, &[])?[0], 0))?;
            let mut found = Vec::new();
            mine_in(session, owner, 0..blocks, &mut found)?;
            Ok(found)
        }
        all => Ok(all?),
    }
}

/// Those in these blocks of the table that can be read.
fn mine_in(session: &mut Session, owner: &Owner, blocks: Range<i64>, found: &mut Vec<Taken>) -> Result<(), Trouble> {
    let rows = session.transaction(UNSYNCED, |transaction| {
        let params = &[(&owner.id as _, Type::INT8), (&blocks.start as _, Type::INT8), (&blocks.end as _, Type::INT8)];
        let rows = transaction.query(&STATEMENTS.mine_in, params)?;
        rows.iter().map(taken).collect::<Result<Vec<_>, _>>()
    });
    match rows {
        Ok(mut rows) => found.append(&mut rows),
        Err(Trouble::Data(_)) if blocks.end - blocks.start > 1 => {
            let middle = blocks.start.midpoint(blocks.end);
            mine_in(session, owner, blocks.start..middle, found)?;
            mine_in(session, owner, middle..blocks.end, found)?;
        }
        // The scan that took them could read them, and the claims will say so.
        Err(Trouble::Data(_)) => {}
        Err(trouble) => return Err(trouble),
    }
    Ok(())
}
