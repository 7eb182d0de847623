//! Claims wait for the disk, because their process may outlive a crash of the server. If the crash
//! lost a claim, another process would get the same token while the first one's run goes on.

use std::sync::Arc;

use postgres::Row;

use super::rows::{Tokens, column, count, place};
use super::session::{Begin, LOCKED, Session, Trouble, UNSYNCED, apart};
use super::statements::STATEMENTS;
use crate::clock::Micros;
use crate::store::{Claim, Claimed, Failure, Owner, Rejected};

type Answers = Vec<Result<Option<Claimed>, Rejected>>;

/// Claims all, but for what is locked or can't be read.
pub(super) fn claim(session: &mut Session, owner: &Owner, claims: &[Claim]) -> Result<Answers, Failure> {
    // A claim waits for no row. If it waits, somebody has locked the table.
    Ok(apart(claims, &mut |some| {
        once(session, owner, some).map_err(|trouble| match trouble {
            Trouble::Locked(reason) => Trouble::Unavailable(reason),
            other => other,
        })
    })?)
}

fn once(session: &mut Session, owner: &Owner, claims: &[Claim]) -> Result<Answers, Trouble> {
    let tokens = Tokens::of(claims.iter().map(|claim| (&*claim.key, claim.generation, claim.attempts)));
    session.transaction(Begin { synced: true, ..UNSYNCED }, |transaction| {
        let params = tokens.params(owner);
        let mut answers: Answers = claims.iter().map(|_| Ok(None)).collect();
        let rows = transaction.query(&STATEMENTS.claim, &params)?;
        for row in &rows {
            let place = place(row)?;
            answers[place] = Ok(Some(claimed(row, &claims[place])?));
        }
        if rows.len() < claims.len() {
            for row in transaction.query(&STATEMENTS.claimable, &params)? {
                let answer = &mut answers[place(&row)?];
                if matches!(answer, Ok(None)) {
                    *answer = Err(Rejected::Busy(LOCKED.to_owned()));
                }
            }
        }
        Ok(answers)
    })
}

fn claimed(row: &Row, claim: &Claim) -> Result<Claimed, Trouble> {
    Ok(Claimed {
        key: Arc::clone(&claim.key),
        generation: claim.generation,
        attempt: count(row, 1)?,
        failures: count(row, 2)?,
        due: Micros(column(row, 3)?),
        handler: column(row, 4)?,
        payload: column::<&[u8]>(row, 5)?.into(),
        claimed_at: Micros(column(row, 6)?),
    })
}
