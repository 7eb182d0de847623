//! The connection of an operator: on a thread of its own, as that of a process.

use std::time::Duration;

use postgres::Row as PostgresRow;
use postgres::types::{ToSql, Type};

use super::line::{Connect, LIMIT, Lines};
use super::migrate;
use super::session::{Begin, Session, Transaction, Trouble, UNSYNCED};
use crate::error::OpenError;
use crate::migrations::Dialect;
use crate::store::desk::{Desk, Query, Row, Value};
use crate::store::{Failure, schema};

/// A list may have to look at all rows. It leaves the other processors to the server, and the plan
/// to the planner: the statistics of what it looks for are those of a large table.
const READ: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
    SET LOCAL statement_timeout = '60s'; SET LOCAL lock_timeout = '2s';
    SET LOCAL idle_in_transaction_session_timeout = '10s'; SET LOCAL max_parallel_workers_per_gather = 0;
    SET LOCAL jit = off; SET LOCAL plan_cache_mode = force_custom_plan;";
const READ_LIMIT: Duration = Duration::from_secs(70);

pub(crate) struct PostgresDesk {
    lines: Lines,
}

impl PostgresDesk {
    pub(crate) fn open(location: &str, connect: Connect) -> Result<Self, OpenError> {
        let mut desk = Self { lines: Lines::new(connect) };
        let found = desk
            .lines
            .connect()
            .and_then(|()| desk.call(LIMIT, |session| Ok(session.transaction_from(READ, migrate::version)?)))
            .map_err(|failure| {
                let (Failure::Unavailable(reason) | Failure::Locked(reason) | Failure::Lost { reason, .. }) = failure;
                OpenError::Store { location: location.to_owned(), reason }
            })?;
        schema::check(found)?;
        Ok(desk)
    }

    /// The connection may have ended since the last call. Then it connects, and asks once more.
    fn call<T: Send + 'static>(
        &mut self,
        limit: Duration,
        work: impl FnOnce(&mut Session) -> Result<T, Failure> + Clone + Send + 'static,
    ) -> Result<T, Failure> {
        match self.lines.call(limit, work.clone()) {
            Err(Failure::Lost { unknown: false, .. }) => {
                self.lines.connect()?;
                self.lines.call(limit, work)
            }
            answer => answer,
        }
    }
}

impl Desk for PostgresDesk {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn read(&mut self, query: Query) -> Result<Vec<Row>, Failure> {
        self.call(READ_LIMIT, move |session| {
            Ok(session.transaction_from(READ, |transaction| Ok(run(transaction, &query)?.iter().map(row).collect()))?)
        })
    }

    fn change(&mut self, queries: Vec<Query>) -> Result<u64, Failure> {
        self.call(LIMIT, move |session| {
            let begin = Begin { synced: true, ..UNSYNCED };
            let changed = session.transaction(begin, |transaction| {
                queries.iter().try_fold(0, |changed, query| Ok(changed + run(transaction, query)?.len() as u64))
            });
            Ok(changed?)
        })
    }
}

fn run(transaction: &mut Transaction<'_>, query: &Query) -> Result<Vec<PostgresRow>, Trouble> {
    let params: Vec<(&(dyn ToSql + Sync), Type)> = query
        .values
        .iter()
        .map(|value| match value {
            Value::Int(int) => (int as &(dyn ToSql + Sync), Type::INT8),
            Value::Text(text) => (text as _, Type::TEXT),
            Value::Bytes(bytes) => (bytes as _, Type::BYTEA),
            Value::Null => (&None::<i64> as _, Type::INT8),
        })
        .collect();
    transaction.query(&query.text, &params)
}

fn row(row: &PostgresRow) -> Row {
    let value = |(index, column): (usize, &postgres::Column)| match *column.type_() {
        Type::INT8 => row.try_get(index).map(|int: Option<i64>| int.map(Value::Int)),
        Type::INT4 => row.try_get(index).map(|int: Option<i32>| int.map(|int| Value::Int(int.into()))),
        Type::TEXT => row.try_get(index).map(|text: Option<String>| text.map(Value::Text)),
        Type::BYTEA => row.try_get(index).map(|bytes: Option<Vec<u8>>| bytes.map(Value::Bytes)),
        _ => Ok(None),
    };
    row.columns().iter().enumerate().map(|column| value(column).ok().flatten().unwrap_or(Value::Null)).collect()
}
