//! PostgreSQL: the rows of a fleet.
//!
//! One connection, on a thread of its own ([`line`]). Each call is a transaction ([`session`]) or
//! some, whose settings end with it, and no statement has a name: so there may be a pool between.
//! Each kind of operation is one statement for all rows of a commit, by arrays ([`commit`]).

mod claim;
mod commit;
mod desk;
mod gate;
mod holes;
mod lease;
mod line;
mod migrate;
mod rows;
mod session;
mod statements;
mod take;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub(crate) use self::desk::PostgresDesk;
pub(crate) use self::line::Connect;
use self::line::{LIMIT, Lines};
use self::session::Session;
use super::{Answer, Claim, Claimed, Failure, Op, Owner, Rejected, Scan, Scanned, Store, Taken};
use crate::clock::WallClock;
use crate::error::OpenError;

/// A large table takes its time.
const MIGRATION_LIMIT: Duration = Duration::from_secs(1_800);

pub(crate) struct PostgresStore {
    lines: Lines,
}

impl PostgresStore {
    pub(crate) fn open(location: &str, connect: Connect) -> Result<Self, OpenError> {
        let mut lines = Lines::new(connect);
        let migrated = lines.connect().and_then(|()| lines.call(MIGRATION_LIMIT, migrate::migrate));
        migrated.map_err(|failure| {
            let (Failure::Unavailable(reason) | Failure::Locked(reason) | Failure::Lost { reason, .. }) = failure;
            OpenError::Store { location: location.to_owned(), reason }
        })??;
        Ok(Self { lines })
    }

    fn call<T: Send + 'static>(
        &mut self,
        owner: &Owner,
        work: impl FnOnce(&mut Session, &Owner) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let owner = owner.clone();
        self.lines.call(LIMIT, move |session| work(session, &owner))
    }
}

/// A scan.
fn look(session: &mut Session, owner: &Owner, scan: Scan) -> Result<Scanned, Failure> {
    let mut scanned = Scanned::default();
    if !scan.peek {
        scanned.more = lease::give_up(session, owner, scan.limit, &mut scanned.unreadable)?;
    }
    take::take(session, owner, scan, &mut scanned)?;
    Ok(scanned)
}

impl Store for PostgresStore {
    fn commit(&mut self, owner: &Owner, ops: &[Op], careful: bool) -> Result<Vec<Result<Answer, Rejected>>, Failure> {
        let ops = ops.to_vec();
        self.call(owner, move |session, owner| commit::commit(session, owner, &ops, careful))
    }

    fn claim(&mut self, owner: &Owner, claims: &[Claim]) -> Result<Vec<Result<Option<Claimed>, Rejected>>, Failure> {
        let claims = claims.to_vec();
        self.call(owner, move |session, owner| claim::claim(session, owner, &claims))
    }

    fn scan(&mut self, owner: &Owner, scan: &Scan) -> Result<Scanned, Failure> {
        let scan = *scan;
        self.call(owner, move |session, owner| look(session, owner, scan))
    }

    fn mine(&mut self, owner: &Owner) -> Result<Vec<Taken>, Failure> {
        self.call(owner, lease::mine)
    }

    fn renew(&mut self, owner: &Owner) -> Result<(), Failure> {
        self.call(owner, lease::renew)
    }

    fn give_back(&mut self, owner: &Owner) -> Result<(), Failure> {
        self.call(owner, lease::give_back)
    }

    fn release(&mut self, owner: &Owner) -> Result<(), Failure> {
        self.call(owner, lease::release)
    }

    fn reconnect(&mut self) -> Result<(), Failure> {
        self.lines.connect()
    }

    fn may_still_write(&mut self) -> bool {
        self.lines.has_left_behind()
    }

    /// The clock is the server's.
    fn begin(&mut self, _: Arc<dyn WallClock>, stopping: Arc<AtomicBool>) -> Result<(), Failure> {
        self.lines.stop_when(stopping);
        Ok(())
    }

    fn batch(&self) -> usize {
        1_024
    }
}
