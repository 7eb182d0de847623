//! A connection, and its transactions. A transaction leaves nothing behind in its session. So a
//! pool may give each one another session.

use std::collections::HashSet;
use std::sync::Arc;

use postgres::error::SqlState;
use postgres::types::{ToSql, Type};
use postgres::{Client, Row};

use super::gate::Gate;
use super::holes::{Around, Holes};
use crate::store::{Failure, Rejected};

/// A statement's parameters, each with its type.
pub(super) type Params<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// The settings of all transactions, whatever those of the server, the database and the role are.
///
/// Each statement has one good plan, which goes by an index. A planner with the statistics of an
/// empty table would read and sort all of it.
const SETTINGS: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL statement_timeout = '10s'; SET LOCAL lock_timeout = '250ms';
    SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off;
    SET LOCAL enable_mergejoin = off; SET LOCAL enable_nestloop = on; SET LOCAL enable_indexscan = on;
    SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL jit = off;";
/// A server may have `synchronous_commit` off. A stronger setting, for replicas, stays.
const ON: &str = "CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
    THEN 'on' ELSE current_setting('synchronous_commit') END";
const OFF: &str = "'off'";
/// Servers before PostgreSQL 17 do not know it.
const NO_LIMIT: &str = "CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
    THEN set_config('transaction_timeout', '0', true) END";
/// The time for each payload's way to the server counts as idle: this allows for 3 Mbit/s.
const BYTES_PER_MS: usize = 400;
/// A statement timeout would end the wait for a replica, and the commit would seem to have reached
/// it. So a commit has none.
const COMMIT: &str = "SET LOCAL statement_timeout = 0; COMMIT";

/// How a transaction begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    /// Whether its commit waits for the disk.
    pub(super) synced: bool,
    /// Whether it waits next to no time for locks. It finds out first whether the table as a whole
    /// is locked.
    pub(super) careful: bool,
    /// The payloads that it sends.
    pub(super) bytes: usize,
}

/// A transaction whose commit need not wait for the disk.
pub(super) const UNSYNCED: Begin = Begin { synced: false, careful: false, bytes: 0 };

impl Begin {
    /// A process that stands still within a transaction would hold its locks for as long, and the
    /// others up until their leases end. So the server ends its session before the shortest lease
    /// is over.
    fn text(self) -> String {
        let idle = 1_000 + self.bytes / BYTES_PER_MS;
        let sync = if self.synced { ON } else { OFF };
        let careful = if self.careful {
            "LOCK TABLE tourbillon_timeouts IN ROW EXCLUSIVE MODE; SET LOCAL lock_timeout = '20ms';"
        } else {
            ""
        };
        format!(
            "{SETTINGS} SET LOCAL idle_in_transaction_session_timeout = {idle};
             SELECT set_config('synchronous_commit', {sync}, true), {NO_LIMIT}; {careful}"
        )
    }
}

/// Why an operation is busy.
pub(super) const LOCKED: &str = "somebody else has locked its row";

/// Why a transaction has failed. It was rolled back, if it is not said to be unknown.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Somebody else has a lock, and did not let go in time.
    Locked(String),
    /// One of its operations can't be carried out.
    Data(String),
    /// Nothing can be carried out now.
    Unavailable(String),
    Lost {
        reason: String,
        unknown: bool,
    },
}

impl Trouble {
    fn reason(self) -> String {
        let (Self::Locked(reason) | Self::Data(reason) | Self::Unavailable(reason) | Self::Lost { reason, .. }) = self;
        reason
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Lost { reason, unknown } => Self::Lost { reason, unknown },
            refused => Self::Unavailable(refused.reason()),
        }
    }
}

pub(super) struct Session {
    client: Client,
    gate: Arc<Gate>,
    /// The keys that somebody has locked so that it shows only by waiting: what another's open
    /// transaction has inserted.
    pub(super) blocked: HashSet<Arc<str>>,
    pub(super) holes: Holes,
    /// How far it has looked through the table for what can be given up around damage.
    pub(super) around: Around,
    /// So many commits expect that keys which they schedule are there.
    pub(super) upserts: u32,
}

impl Session {
    pub(super) fn new(client: Client, gate: Arc<Gate>) -> Self {
        Self { client, gate, blocked: HashSet::new(), holes: Holes::default(), around: Around::default(), upserts: 0 }
    }

    /// Does `work` in a transaction.
    pub(super) fn transaction<T>(
        &mut self,
        begin: Begin,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        self.transaction_from(&begin.text(), work)
    }

    /// The same, with the statements that begin it.
    pub(super) fn transaction_from<T>(
        &mut self,
        begin: &str,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        if self.gate.is_abandoned() {
            return Err(abandoned());
        }
        let mut transaction = Transaction(&mut self.client);
        let begun = transaction.run(begin).map_err(|trouble| match trouble {
            Trouble::Locked(reason) => Trouble::Unavailable(reason),
            other => other,
        });
        match begun.and_then(|()| work(&mut transaction)) {
            Ok(done) => transaction.commit(&self.gate).map(|()| done),
            Err(trouble) => Err(transaction.roll_back(trouble)),
        }
    }
}

/// An open transaction.
pub(super) struct Transaction<'a>(&'a mut Client);

impl Transaction<'_> {
    pub(super) fn query(&mut self, text: &str, params: Params<'_>) -> Result<Vec<Row>, Trouble> {
        self.0.query_typed(text, params).map_err(|error| trouble(self.0, &error))
    }

    /// Runs statements without parameters.
    pub(super) fn run(&mut self, text: &str) -> Result<(), Trouble> {
        self.0.batch_execute(text).map_err(|error| trouble(self.0, &error))
    }

    fn roll_back(&mut self, trouble: Trouble) -> Trouble {
        if matches!(trouble, Trouble::Lost { .. }) {
            return trouble;
        }
        match self.run("ROLLBACK") {
            Ok(()) => trouble,
            Err(error) => Trouble::Lost { reason: error.reason(), unknown: false },
        }
    }

    /// Only here is anything unknown: a commit without an answer.
    fn commit(&mut self, gate: &Gate) -> Result<(), Trouble> {
        if !gate.pass() {
            return Err(abandoned());
        }
        self.run(COMMIT).map_err(|trouble| match trouble {
            Trouble::Lost { reason, .. } => Trouble::Lost { reason, unknown: true },
            refused => self.roll_back(refused),
        })
    }
}

fn abandoned() -> Trouble {
    Trouble::Lost { reason: "nobody waits for it any more".to_owned(), unknown: false }
}

/// Does `work` for all, or for halves if some can't be carried out, until the bad ones are alone.
pub(super) fn apart<I, A>(
    items: &[I],
    work: &mut impl FnMut(&[I]) -> Result<Vec<Result<A, Rejected>>, Trouble>,
) -> Result<Vec<Result<A, Rejected>>, Trouble> {
    let rejected = match work(items) {
        Err(Trouble::Data(reason)) => Rejected::Bad(reason),
        Err(Trouble::Locked(reason)) => Rejected::Busy(reason),
        answers => return answers,
    };
    if items.len() <= 1 {
        return Ok(items.iter().map(|_| Err(rejected.clone())).collect());
    }
    let (first, second) = items.split_at(items.len() / 2);
    let mut answers = apart(first, work)?;
    answers.extend(or_later(apart(second, work), second.len())?);
    Ok(answers)
}

/// After a part that is on disk a call can't fail as a whole. So the rest is tried again later.
pub(super) fn or_later<A>(
    answers: Result<Vec<Result<A, Rejected>>, Trouble>,
    count: usize,
) -> Result<Vec<Result<A, Rejected>>, Trouble> {
    match answers {
        Err(Trouble::Unavailable(reason) | Trouble::Lost { reason, unknown: false }) => Ok(all_busy(count, &reason)),
        answers => answers,
    }
}

pub(super) fn all_busy<A>(count: usize, reason: &str) -> Vec<Result<A, Rejected>> {
    (0..count).map(|_| Err(Rejected::Busy(reason.to_owned()))).collect()
}

/// Classifies an error before the commit.
fn trouble(client: &Client, error: &postgres::Error) -> Trouble {
    let reason = text(error);
    let lost = Trouble::Lost { reason: reason.clone(), unknown: false };
    let Some(db) = error.as_db_error() else { return lost };
    if matches!(db.severity(), "FATAL" | "PANIC") || client.is_closed() {
        return lost;
    }
    match db.code() {
        &SqlState::LOCK_NOT_AVAILABLE | &SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE => {
            Trouble::Locked(reason)
        }
        // A replica. Only a new connection may lead to the server that writes.
        &SqlState::READ_ONLY_SQL_TRANSACTION => lost,
        // A block of the table can't be read; a trigger or a policy for rows says no.
        &SqlState::IO_ERROR
        | &SqlState::UNDEFINED_FILE
        | &SqlState::FEATURE_NOT_SUPPORTED
        | &SqlState::INSUFFICIENT_PRIVILEGE => Trouble::Data(reason),
        code if is_of_data(code) => Trouble::Data(reason),
        _ => Trouble::Unavailable(reason),
    }
}

/// Whether it is the fault of what was written or read: values, constraints, triggers, limits and
/// damage.
fn is_of_data(code: &SqlState) -> bool {
    ["09", "21", "22", "23", "27", "2F", "38", "39", "44", "54", "P0", "XX"].contains(&&code.code()[..2])
}

/// The whole chain of an error: its first line alone says "db error".
pub(super) fn text(error: &postgres::Error) -> String {
    use std::error::Error;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
