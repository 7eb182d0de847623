//! PostgreSQL: the rows of a fleet.
//!
//! Two connections: one whose commits wait for the disk, and one whose commits do not, for scans
//! and leases. Each kind of operation is one statement for all rows of a commit, by arrays.
//!
//! A claim waits for the disk, because its process may outlive a crash of the server. If the crash
//! lost the claim, another process would get the same token while the first one's run goes on.

mod part;
mod segments;
mod statements;

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{Client, Row, Statement};

use self::part::{Answers, attempts_of_sql, attempts_to_sql, carry_out};
use self::segments::{Segment, locked_keys, segments};
use self::statements::Statements;
use super::schema::{self, Dialect};
use super::{Answer, Claim, Claimed, Failure, Op, Owner, Scan, Store, Taken};
use crate::clock::{Micros, whole_micros};
use crate::error::OpenError;

/// The number of this crate's advisory lock: "tourbill" in ASCII.
const MIGRATION_LOCK: i64 = 0x746f_7572_6269_6c6c;
/// How often a commit is tried that lost a deadlock to another process.
const TRIES: u32 = 10;
/// A process that stands still within a transaction would hold its locks for as long, and the
/// others up until their leases end. So the server ends its session before the shortest lease is
/// over.
const LET_GO: &str = "SET idle_in_transaction_session_timeout = '1s'";
/// Each statement has one good plan, which goes by an index. A planner with the statistics of an
/// empty table reads and sorts all of it, which for a million rows takes a second. And it would
/// keep a plan that was right for one page, so it plans anew.
const BY_INDEX: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off;
    SET plan_cache_mode = force_custom_plan; SET jit = off";
const DIALECT: Dialect = Dialect {
    bytes: "BYTEA",
    bool: "BOOLEAN",
    r#false: "false",
    // Rows live for a short time: vacuum them before they are a tenth of the table.
    generations: "CREATE SEQUENCE tourbillon_generations;
        ALTER TABLE tourbillon_timeouts
            SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);",
};

/// Makes a connection. It is called again whenever one was lost.
pub(crate) type Connect = Box<dyn FnMut() -> Result<Client, postgres::Error> + Send>;

pub(crate) struct PostgresStore {
    connect: Connect,
    synced: Connection,
    unsynced: Connection,
}

struct Connection {
    client: Client,
    statements: Statements,
}

impl PostgresStore {
    /// Connects on a thread of its own: a client waits by a runtime, which an async caller's thread
    /// would refuse with a panic.
    pub(crate) fn open(location: &str, connect: Connect) -> Result<Self, OpenError> {
        let opened = thread::scope(|scope| scope.spawn(|| Self::open_here(location, connect)).join());
        opened.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn open_here(location: &str, mut connect: Connect) -> Result<Self, OpenError> {
        let refused = |error: &postgres::Error| OpenError::Store { location: location.to_owned(), reason: text(error) };
        let mut client = connect().map_err(|error| refused(&error))?;
        migrate(&mut client).map_err(|error| refused(&error))??;
        let synced = Connection::prepare(client, true).map_err(|error| refused(&error))?;
        let unsynced =
            connect().and_then(|client| Connection::prepare(client, false)).map_err(|error| refused(&error))?;
        Ok(Self { connect, synced, unsynced })
    }
}

fn migrate(client: &mut Client) -> Result<Result<(), OpenError>, postgres::Error> {
    client.batch_execute(LET_GO)?;
    // Two processes may start at once.
    let mut transaction = client.transaction()?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK])?;
    transaction.batch_execute(
        "SET LOCAL client_min_messages = warning;
         CREATE TABLE IF NOT EXISTS tourbillon_schema (version BIGINT NOT NULL)",
    )?;
    let found: i64 = transaction.query_opt("SELECT version FROM tourbillon_schema", &[])?.map_or(0, |row| row.get(0));
    if found > schema::current() {
        return Ok(Err(OpenError::NewerSchema { found, known: schema::current() }));
    }
    for (number, statements) in schema::migrations(found, &DIALECT) {
        transaction.batch_execute(&statements)?;
        transaction.batch_execute(&format!(
            "DELETE FROM tourbillon_schema; INSERT INTO tourbillon_schema VALUES ({number})"
        ))?;
    }
    transaction.commit()?;
    Ok(Ok(()))
}

impl Connection {
    fn prepare(mut client: Client, synced: bool) -> Result<Self, postgres::Error> {
        client.batch_execute(LET_GO)?;
        client.batch_execute(BY_INDEX)?;
        // A server may have it off; what it has beyond on, for its replicas, stays.
        client.batch_execute(if synced {
            "SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') IN ('off', 'local')"
        } else {
            "SET synchronous_commit = off"
        })?;
        let statements = Statements::prepare(&mut client)?;
        Ok(Self { client, statements })
    }
}

impl Store for PostgresStore {
    fn commit(&mut self, owner: &Owner, ops: &[Op], lease: bool) -> Result<Vec<Answer>, Failure> {
        let segments = segments(ops);
        let Connection { client, statements } = &mut self.synced;
        let answers = until_out_of_the_way(client, |client| {
            let mut answers: Answers = ops.iter().map(|_| None).collect();
            if let [segment] = &segments[..]
                && !lease
                && segment.is_one_statement()
            {
                // It is a transaction by itself.
                carry_out(client, statements, owner, ops, segment, &mut answers)?;
            } else {
                commit_together(client, statements, owner, ops, &segments, lease, &mut answers)?;
            }
            Ok(answers)
        })?;
        Ok(answers.into_iter().map(|answer| answer.expect("each is answered")).collect())
    }

    fn claim(&mut self, owner: &Owner, claims: &[Claim]) -> Result<Vec<Claimed>, Failure> {
        let mut claims: Vec<&Claim> = claims.iter().collect();
        claims.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let keys: Vec<&str> = claims.iter().map(|claim| &*claim.key).collect();
        let generations: Vec<i64> = claims.iter().map(|claim| claim.generation).collect();
        let attempts: Vec<i32> = claims.iter().map(|claim| attempts_to_sql(claim.attempts)).collect();
        let rows = self.synced.query(|statements| &statements.claim, &[&keys, &generations, &attempts, &owner.id])?;
        let by_key: HashMap<&str, &Arc<str>> = claims.iter().map(|claim| (&*claim.key, &claim.key)).collect();
        Ok(rows
            .iter()
            .map(|row| Claimed {
                key: Arc::clone(by_key[row.get::<_, &str>(0)]),
                generation: row.get(1),
                attempt: attempts_of_sql(row.get(2)),
                due: Micros(row.get(3)),
                handler: row.get(4),
                payload: row.get::<_, &[u8]>(5).into(),
                claimed_at: Micros(row.get(6)),
            })
            .collect())
    }

    fn scan(&mut self, owner: &Owner, scan: &Scan) -> Result<Vec<Taken>, Failure> {
        let rows = self.unsynced.query(
            |statements| &statements.scan,
            &[
                &owner.id,
                &owner.handlers,
                &scan.overdue_before.0,
                &i64::from(scan.overdue_limit),
                &scan.horizon.0,
                &i64::from(scan.limit),
                &whole_micros(owner.lease),
            ],
        )?;
        Ok(rows.iter().map(taken_row).collect())
    }

    fn mine(&mut self, owner: &Owner) -> Result<Vec<Taken>, Failure> {
        let client = &mut self.unsynced.client;
        client
            .query(
                "SELECT key, due, generation, attempts, running FROM tourbillon_timeouts WHERE owner = $1",
                &[&owner.id],
            )
            .map(|rows| rows.iter().map(taken_row).collect())
            .map_err(|error| failure(client, &error))
    }

    fn renew(&mut self, owner: &Owner) -> Result<(), Failure> {
        self.unsynced.query(|statements| &statements.renew, &[&owner.id, &whole_micros(owner.lease)]).map(drop)
    }

    fn give_back(&mut self, owner: &Owner) -> Result<(), Failure> {
        let client = &mut self.unsynced.client;
        client
            .execute("UPDATE tourbillon_timeouts SET owner = NULL WHERE owner = $1 AND NOT running", &[&owner.id])
            .map(drop)
            .map_err(|error| failure(client, &error))
    }

    fn release(&mut self, owner: &Owner) -> Result<(), Failure> {
        let client = &mut self.synced.client;
        client
            .execute("UPDATE tourbillon_owners SET lease_until = 0 WHERE owner = $1", &[&owner.id])
            .map(drop)
            .map_err(|error| failure(client, &error))
    }

    fn reconnect(&mut self) -> Result<(), Failure> {
        let mut connect = |synced| {
            (self.connect)()
                .and_then(|client| Connection::prepare(client, synced))
                .map_err(|error| Failure::Lost(text(&error)))
        };
        self.synced = connect(true)?;
        self.unsynced = connect(false)?;
        Ok(())
    }

    fn batch(&self) -> usize {
        1_024
    }
}

impl Connection {
    /// Runs a statement that is a transaction by itself, again if another process was in its way.
    fn query(
        &mut self,
        statement: impl Fn(&Statements) -> &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let statement = statement(&self.statements);
        until_out_of_the_way(&mut self.client, |client| client.query(statement, params))
    }
}

/// Does `work`, which is one transaction, again if another process was in its way.
fn until_out_of_the_way<T>(
    client: &mut Client,
    mut work: impl FnMut(&mut Client) -> Result<T, postgres::Error>,
) -> Result<T, Failure> {
    let mut tries = 1;
    loop {
        match work(client) {
            Ok(done) => return Ok(done),
            Err(error) if tries < TRIES && was_in_the_way(&error) => tries += 1,
            Err(error) => return Err(failure(client, &error)),
        }
    }
}

fn commit_together(
    client: &mut Client,
    statements: &Statements,
    owner: &Owner,
    ops: &[Op],
    segments: &[Segment],
    lease: bool,
    answers: &mut Answers,
) -> Result<(), postgres::Error> {
    let mut transaction = client.transaction()?;
    if lease {
        transaction.execute(&statements.renew, &[&owner.id, &whole_micros(owner.lease)])?;
    }
    // Processes that lock rows in one order do not lock each other out. The server takes a second
    // to notice that they did.
    transaction.execute(&statements.lock, &[&locked_keys(ops)])?;
    for segment in segments {
        carry_out(&mut transaction, statements, owner, ops, segment, answers)?;
    }
    transaction.commit()
}

fn taken_row(row: &Row) -> Taken {
    Taken {
        key: row.get::<_, &str>(0).into(),
        due: Micros(row.get(1)),
        generation: row.get(2),
        attempts: attempts_of_sql(row.get(3)),
        running: row.get(4),
    }
}

/// Whether the statement was rolled back for another process's sake, and is worth another try.
fn was_in_the_way(error: &postgres::Error) -> bool {
    matches!(error.code(), Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE))
}

/// An error that the server has sent about a statement rolled it back. After any other, and after
/// one that says that the server goes, nobody knows. A session that has come to a replica, or to
/// one that has not prepared its statements, is of no use: only a new one helps.
fn failure(client: &Client, error: &postgres::Error) -> Failure {
    let elsewhere =
        matches!(error.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION | &SqlState::INVALID_SQL_STATEMENT_NAME));
    let refused = !elsewhere && error.as_db_error().is_some_and(|db| !matches!(db.severity(), "FATAL" | "PANIC"));
    if refused && !client.is_closed() { Failure::Refused(text(error)) } else { Failure::Lost(text(error)) }
}

/// The whole chain of an error: its first line alone says "db error".
fn text(error: &postgres::Error) -> String {
    use std::error::Error;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
