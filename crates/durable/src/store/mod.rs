//! The stores of the rows. The writer asks the same of SQLite and of PostgreSQL.
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
//! | give up (part of a scan) | its owner's lease has ended |
//! | take (a scan) | it has no owner |
//! | claim | the owner is this process, the generation and the attempts are those that it took |
//! | complete, retry, bury, unclaim | the owner, the generation and the attempt are those of the claim, and it is running |
//! | give back | the owner, the generation and the attempts are those that it took, and it is not running |
//! | reset, cancel | it is not running, or its owner's lease has ended |
//! | schedule | nothing: the last one wins |
//! | schedule if absent | the key has no row |
//!
//! A schedule and a reset give a row a new generation. The generations of a store grow, and no two
//! are the same, whatever is deleted in between.
//!
//! # Crashes
//!
//! A run that ends its process leaves its row running, and with it those of all other claims of the
//! process. Nobody knows which one it was. So a process that gives up a row that is running makes
//! it a suspect, and each process runs its suspects one at a time. A suspect that is found running
//! again was alone: this is counted as a failure, and it waits as after a panic. `attempts` counts
//! claims, which gives each run a number of its own; `failures` counts the runs that are known to
//! have begun and failed.

pub(crate) mod desk;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod schema;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::clock::{Micros, WallClock};
use crate::due::{DeadLetter, Due, Pending};

/// The name of a claim, which a run must show to change its row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token {
    pub(crate) key: Arc<str>,
    pub(crate) generation: i64,
    /// The number of the claim; 1 for the first of a generation.
    pub(crate) attempt: u32,
}

impl Token {
    pub(crate) fn of(due: &Due) -> Self {
        Self { key: Arc::clone(&due.key), generation: due.generation, attempt: due.attempt }
    }
}

/// An operation of a commit: a write, or a read.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Schedule {
        key: Arc<str>,
        due: Micros,
        handler: Arc<str>,
        payload: Arc<[u8]>,
        owned: bool,
        /// Whether a row that is there stays as it is.
        if_absent: bool,
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
    /// Has a row that is not claimed belong to nobody. The token has the number of the last claim.
    GiveBack(Token),
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
    /// The key of the row that it may change or read. `None` for a list of dead letters.
    pub(crate) fn key(&self) -> Option<&Arc<str>> {
        match self {
            Self::Schedule { key, .. } | Self::Reset { key, .. } | Self::Cancel { key } | Self::Get { key } => {
                Some(key)
            }
            Self::Revive { key, .. } | Self::DeleteDead { key, .. } => Some(key),
            _ => self.token().map(|token| &token.key),
        }
    }

    /// The token of the run that it ends, or of the row that it gives back.
    pub(crate) fn token(&self) -> Option<&Token> {
        match self {
            Self::Complete(token) | Self::Retry { token, .. } | Self::Bury(token) => Some(token),
            Self::Unclaim(token) | Self::GiveBack(token) => Some(token),
            _ => None,
        }
    }

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
    /// The key has a row, which was to stay as it is.
    Present,
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
    pub(crate) handler: String,
    /// The length of the payload.
    pub(crate) bytes: usize,
}

/// The values that a claim compares.
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
    pub(crate) failures: u32,
    pub(crate) due: Micros,
    pub(crate) claimed_at: Micros,
    pub(crate) handler: String,
    pub(crate) payload: Box<[u8]>,
}

/// Which rows a process takes for its wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan {
    /// Rows that were due before this are overdue. They have a limit of their own, so that rows
    /// that come up now do not wait behind them.
    pub(crate) overdue_before: Micros,
    pub(crate) overdue_limit: u32,
    /// The scan takes rows that are due before this.
    pub(crate) horizon: Micros,
    pub(crate) limit: u32,
    /// Whether it only looks for what others have written since the last scan, and gives up no rows
    /// of processes that have gone.
    pub(crate) peek: bool,
}

/// The outcome of a scan.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) taken: Vec<Taken>,
    /// Rows that can't be read, each with a reason. They are left alone for some time.
    pub(crate) unreadable: Vec<String>,
    /// Whether the scan has stopped before it had looked at all, so that claims are not late.
    pub(crate) more: bool,
}

/// A row that this process owns from now on.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) key: Arc<str>,
    pub(crate) due: Micros,
    pub(crate) generation: i64,
    pub(crate) attempts: u32,
    pub(crate) handler: String,
    /// The length of the payload.
    pub(crate) bytes: usize,
    /// Whether it may have ended a process.
    pub(crate) suspect: bool,
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

/// Why a call to the store has failed as a whole.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// It was rolled back. Later it may succeed: the disk is full, say.
    Unavailable(String),
    /// The same, and it has waited for some time already: somebody else has locked all.
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "only a file is locked as a whole"))]
    Locked(String),
    /// The store needs [`Store::reconnect`].
    Lost {
        reason: String,
        /// Whether it may have been written all the same. If not, it was rolled back.
        unknown: bool,
    },
}

/// Why one operation has failed, and others of its call have not. Nothing of it was written.
#[derive(Clone, Debug)]
pub(crate) enum Rejected {
    /// Somebody else holds the lock on its row. Later it may succeed.
    Busy(String),
    /// The store can't carry it out: the row can't be read, the key can't be stored.
    Bad(String),
}

/// A store. One thread calls it. No call takes longer than a few seconds, whatever others lock.
pub(crate) trait Store: Send {
    /// Carries out each operation, and returns when all are on disk, with an answer for each in
    /// their order. No two have a key in common. They share a transaction as far as they can.
    ///
    /// With `careful`, it waits for no locks on rows. Without, it may wait for a moment.
    fn commit(&mut self, owner: &Owner, ops: &[Op], careful: bool) -> Result<Vec<Result<Answer, Rejected>>, Failure>;

    /// Claims what can be claimed, with an answer for each in their order: `None` if the row has
    /// changed. A claim is on disk if this process may outlive a crash of the store. If not, it
    /// need not be: the run ends with the store, and is repeated. Each has a key of its own. To
    /// repeat a claim whose answer was lost returns it again. It waits for no locks on rows.
    fn claim(&mut self, owner: &Owner, claims: &[Claim]) -> Result<Vec<Result<Option<Claimed>, Rejected>>, Failure>;

    /// Gives up the rows of others whose leases have ended, takes rows, and renews the lease if it
    /// takes any. It passes over rows that are locked. It need not be on disk.
    fn scan(&mut self, owner: &Owner, scan: &Scan) -> Result<Scanned, Failure>;

    /// Returns all rows that the store says are this process's. After a lost connection.
    fn mine(&mut self, owner: &Owner) -> Result<Vec<Taken>, Failure>;

    /// Renews the lease. It need not be on disk.
    fn renew(&mut self, owner: &Owner) -> Result<(), Failure>;

    /// Gives up all rows of this process that are not claimed, but for locked ones. It need not be
    /// on disk.
    fn give_back(&mut self, owner: &Owner) -> Result<(), Failure>;

    /// Gives up the lease, and with it all rows of this process.
    fn release(&mut self, owner: &Owner) -> Result<(), Failure>;

    /// Connects anew after a lost connection.
    fn reconnect(&mut self) -> Result<(), Failure>;

    /// Whether a call that was given up may be carried out even now.
    fn may_still_write(&mut self) -> bool {
        false
    }

    /// Goes by this clock, if the store has none of its own, and gives a call up soon once
    /// `stopping` is true. Called once, before all others.
    fn begin(&mut self, clock: Arc<dyn WallClock>, stopping: Arc<AtomicBool>) -> Result<(), Failure>;

    /// How many operations a commit takes at most. More would make the claims behind it late.
    fn batch(&self) -> usize;
}
