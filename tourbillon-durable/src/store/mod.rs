//! Where the rows are: what the writer asks of a store, the same of SQLite and PostgreSQL.
//!
//! # The rows
//!
//! A row belongs to nobody (`owner` is null), or to the process that has it in its wheel. `running`
//! says that its owner has claimed it for a run. A process gives a sign of life for all that it
//! owns, in one row of `tourbillon_owners`: its lease. So a lease is renewed by one write, however
//! many rows it covers.
//!
//! Each change of a row compares before it swaps. So two processes may both believe that a row is
//! theirs, and the store decides:
//!
//! | change | what must hold |
//! |---|---|
//! | take (a scan) | the owner is null, or its lease has ended |
//! | claim | the owner is this process, the generation and the attempts are those that it took |
//! | complete, retry, bury, unclaim | the owner, the generation and the attempt are those of the claim, and it is running |
//! | reset, cancel | it is not running, or its owner's lease has ended |
//! | schedule | nothing: the last one wins |
//!
//! A schedule and a reset give a row a new generation. The generations of a store grow, and no two
//! are the same, whatever is deleted in between.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod schema;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Micros, WallClock};
use crate::due::{DeadLetter, Pending};

/// The name of a claim: what a run must show to change its row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token {
    pub(crate) key: Arc<str>,
    pub(crate) generation: i64,
    /// The number of the claim; 1 for the first of a generation.
    pub(crate) attempt: u32,
}

/// What is written, or read, in a commit.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Schedule {
        key: Arc<str>,
        due: Micros,
        handler: Arc<str>,
        payload: Arc<[u8]>,
        owned: bool,
    },
    Reset {
        key: Arc<str>,
        due: Micros,
        owned: bool,
    },
    Cancel {
        key: Arc<str>,
    },
    Get {
        key: Arc<str>,
    },
    Complete(Token),
    Retry {
        token: Token,
        due: Micros,
        owned: bool,
    },
    Bury(Token),
    Unclaim(Token),
    DeadLetters {
        limit: u32,
    },
    /// Moves a dead letter back among the rows.
    Revive {
        key: Arc<str>,
        generation: i64,
        due: Micros,
        owned: bool,
    },
    DeleteDead {
        key: Arc<str>,
        generation: i64,
    },
}

impl Op {
    pub(crate) fn payload_len(&self) -> usize {
        if let Self::Schedule { payload, .. } = self { payload.len() } else { 0 }
    }
}

/// The answers to an [`Op`], in the order of those.
#[derive(Debug)]
pub(crate) enum Answer {
    Scheduled {
        generation: i64,
    },
    /// `None` if there was no such row, or if it was running.
    Moved(Option<Moved>),
    /// Whether a row was found that could be changed.
    Done(bool),
    Row(Option<Pending>),
    DeadLetters(Vec<DeadLetter>),
}

/// A row after a reset, or after a dead letter came back.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(crate) generation: i64,
    /// Whether it is this process's. It is not if this process has no handler for it.
    pub(crate) owned: bool,
}

/// What a claim compares.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) key: Arc<str>,
    pub(crate) generation: i64,
    /// The attempts before the claim.
    pub(crate) attempts: u32,
}

/// A row that was claimed.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) key: Arc<str>,
    pub(crate) generation: i64,
    /// The attempts, this claim included.
    pub(crate) attempt: u32,
    pub(crate) due: Micros,
    pub(crate) claimed_at: Micros,
    pub(crate) handler: String,
    pub(crate) payload: Box<[u8]>,
}

/// Which rows a process takes for its wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan {
    /// What was due before this is overdue, and is limited by itself, so that what comes up now
    /// does not wait behind it.
    pub(crate) overdue_before: Micros,
    pub(crate) overdue_limit: u32,
    /// What is due before this is taken.
    pub(crate) horizon: Micros,
    pub(crate) limit: u32,
}

/// A row that this process owns from now on.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) key: Arc<str>,
    pub(crate) due: Micros,
    pub(crate) generation: i64,
    pub(crate) attempts: u32,
    /// Whether it is claimed. Only [`Store::mine`] returns such rows.
    pub(crate) running: bool,
}

/// The process to the store.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) id: i64,
    pub(crate) lease: Duration,
    /// The handlers that this process has.
    pub(crate) handlers: Vec<String>,
}

/// Why a call to the store has failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// It was rolled back.
    Refused(String),
    /// Whether it was written is not known. The store needs [`Store::reconnect`].
    Lost(String),
}

/// A store. One thread calls it.
pub(crate) trait Store: Send {
    /// Carries out all operations in one transaction, in their order as far as they have a key in
    /// common, and returns when they are on disk. With `lease`, it renews the owner's as well.
    fn commit(&mut self, owner: &Owner, ops: &[Op], lease: bool) -> Result<Vec<Answer>, Failure>;

    /// Claims what can be claimed, and returns that. It is on disk if this process may outlive a
    /// crash of the store. If not, it need not be: the run ends with the store, and is repeated.
    /// Each claim has a key of its own. To repeat a claim whose answer was lost returns it again.
    fn claim(&mut self, owner: &Owner, claims: &[Claim]) -> Result<Vec<Claimed>, Failure>;

    /// Takes rows, and renews the lease if there are any. It need not be on disk.
    fn scan(&mut self, owner: &Owner, scan: &Scan) -> Result<Vec<Taken>, Failure>;

    /// Returns all rows that the store says are this process's. After a lost connection.
    fn mine(&mut self, owner: &Owner) -> Result<Vec<Taken>, Failure>;

    /// Renews the lease. It need not be on disk.
    fn renew(&mut self, owner: &Owner) -> Result<(), Failure>;

    /// Gives up all rows of this process that are not claimed. It need not be on disk.
    fn give_back(&mut self, owner: &Owner) -> Result<(), Failure>;

    /// Gives up the lease, and with it all rows of this process.
    fn release(&mut self, owner: &Owner) -> Result<(), Failure>;

    /// Connects anew after a lost connection.
    fn reconnect(&mut self) -> Result<(), Failure>;

    /// Goes by this clock, if the store has none of its own.
    fn set_clock(&mut self, clock: Arc<dyn WallClock>) -> Result<(), Failure> {
        drop(clock);
        Ok(())
    }

    /// How many operations a commit takes at most. More would make the claims behind it late.
    fn batch(&self) -> usize;
}
