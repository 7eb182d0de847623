//! An operator beside the processes that have handlers: looks at rows, and changes some.

mod error;
mod filter;
mod rows;
mod sql;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, process};

pub use self::error::OperatorError;
pub use self::filter::Filter;
pub use self::rows::{Cancelled, DeadLetterRow, HandlerRow, ProcessRow, TimeoutRow};
use self::sql::{Rows, Table};
use crate::clock::whole_micros;
use crate::error::OpenError;
use crate::migrations::Dialect;
use crate::open;
use crate::store::desk::{Desk, Query, Row};

/// How many rows a transaction changes. It holds up a process's commit for as long as that takes.
const BATCH: usize = 200;
/// How often a cancel looks for rows that were locked before, and how long it waits in between.
const PASSES: usize = 3;
const BETWEEN_PASSES: Duration = Duration::from_millis(50);
/// Between two batches it leaves the store to the others, for as long as the last one took, within
/// these bounds.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(250));

/// A delay that is longer is as long as this: some 70,000 years.
const FOREVER: i64 = i64::MAX / 4;

/// Sees what is in a store, and changes it, beside the processes that have handlers.
///
/// It has a connection of its own and no handlers, runs nothing, and owns no timeout. So it opens
/// an SQLite file that a process owns, and holds up no process: it reads rows as of one moment, and
/// changes them in small batches. Each change compares before it swaps, as those of processes do.
/// An operator's tool and a page for administrators both use it; the tool is `tourbillon-durable`,
/// with the feature `cli`.
///
/// Each call blocks, and they wait for each other: on a thread of an async runtime, use its
/// `spawn_blocking`.
///
/// ```
/// use std::time::Duration;
/// use tourbillon_durable::{DurableTimer, Filter, Operator, Outcome};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timeouts.db");
/// # let timers = DurableTimer::open(&path)?
/// #     .handler("close_order", |_due| Outcome::Done)
/// #     .start(&tourbillon::Timer::new()?)?;
/// # timers.schedule("customer:7:order:42", Duration::from_secs(60), "close_order", b"")?.wait()?;
/// let operator = Operator::open(path)?; // or "postgres://…"
/// let theirs = Filter::new().prefix("customer:7:");
/// for row in operator.list(&theirs)? {
///     println!("{} is due at {:?}", row.key, row.due);
/// }
/// assert_eq!(operator.count(&theirs)?, 1);
/// assert_eq!(operator.cancel(&theirs)?.cancelled, 1);
/// # Ok(())
/// # }
/// ```
pub struct Operator {
    /// `None` only in a forked child, where nothing is closed.
    desk: Mutex<Option<Box<dyn Desk>>>,
    dialect: Dialect,
    process: u32,
}

impl Operator {
    /// Opens a store that is there, and changes nothing in it. `location` is what
    /// [`DurableTimer::open`](crate::DurableTimer::open) takes. Blocks.
    ///
    /// An SQLite file may be open in a process, this one or another. With PostgreSQL the right to
    /// read the tables is enough for the calls that read.
    ///
    /// # Errors
    ///
    /// [`OpenError::OlderSchema`] if its tables are not there, or are not up to date,
    /// [`OpenError::NewerSchema`] if a later version of this crate has written it, and
    /// [`OpenError::Store`] for all that the store says.
    pub fn open(location: impl AsRef<Path>) -> Result<Self, OpenError> {
        Ok(Self::new(open::desk(location.as_ref())?))
    }

    /// Opens a PostgreSQL database by a function that connects to it: with TLS, for example. It is
    /// called now, and again after a lost connection. With the feature `postgres`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[cfg(feature = "postgres")]
    pub fn connect(
        connect: impl FnMut() -> Result<postgres::Client, postgres::Error> + Send + 'static,
    ) -> Result<Self, OpenError> {
        let desk = crate::store::postgres::PostgresDesk::open("PostgreSQL", Box::new(connect))?;
        Ok(Self::new(Box::new(desk)))
    }

    fn new(desk: Box<dyn Desk>) -> Self {
        Self { dialect: desk.dialect(), desk: Mutex::new(Some(desk)), process: process::id() }
    }

    /// Returns how many timeouts there are. The filter's page does not count.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], as all calls.
    pub fn count(&self, filter: &Filter) -> Result<u64, OperatorError> {
        self.number(Table::Timeouts, filter)
    }

    /// Returns timeouts in the order of their keys, a page at a time: see [`Filter::limit`] and
    /// [`Filter::after`]. PostgreSQL orders by the collation of the database. SQLite rows with
    /// values of wrong types, which somebody has written by hand, are left out. A row that
    /// PostgreSQL can't read fails the call.
    ///
    /// ```no_run
    /// # use tourbillon_durable::{Filter, Operator};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let operator = Operator::open("timeouts.db")?;
    /// let mut filter = Filter::new().handler("close_order").limit(1_000);
    /// loop {
    ///     let page = operator.list(&filter)?;
    ///     let Some(last) = page.last() else { break };
    ///     filter = filter.after(&last.key);
    ///     // …
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`OperatorError`], as all calls.
    pub fn list(&self, filter: &Filter) -> Result<Vec<TimeoutRow>, OperatorError> {
        self.of(Table::Timeouts, filter, Rows::list, rows::timeout)
    }

    /// Returns the timeouts with the first deadlines: so many as [`Filter::limit`] says. There are
    /// no pages.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], as all calls.
    pub fn oldest(&self, filter: &Filter) -> Result<Vec<TimeoutRow>, OperatorError> {
        self.of(Table::Timeouts, filter, Rows::oldest, rows::timeout)
    }

    /// Returns one timeout, with its payload.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], as all calls.
    pub fn get(&self, key: &str) -> Result<Option<(TimeoutRow, Vec<u8>)>, OperatorError> {
        let found = self.of(Table::Timeouts, &Filter::new().key(key), Rows::with_payload, rows::with_payload)?;
        Ok(found.into_iter().next())
    }

    /// Returns for each handler what is pending, overdue and running. Handlers of live processes
    /// that have nothing are among them, unless the filter asks for something else of the rows.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], as all calls.
    pub fn handlers(&self, filter: &Filter) -> Result<Vec<HandlerRow>, OperatorError> {
        let mut processes = BTreeMap::<String, u64>::new();
        for name in self.live()?.into_iter().filter_map(|process| process.handlers).flatten() {
            *processes.entry(name).or_default() += 1;
        }
        let mut found = self.of(Table::Timeouts, filter, Rows::by_handler, rows::handler)?;
        for row in &mut found {
            row.processes = processes.remove(&row.handler).unwrap_or(0);
        }
        if *filter == Filter::new() {
            let idle = |(handler, processes)| HandlerRow {
                handler,
                pending: 0,
                overdue: 0,
                running: 0,
                oldest: None,
                processes,
            };
            found.extend(processes.into_iter().map(idle));
        }
        Ok(found)
    }

    /// Returns the processes that are live, and those that have left timeouts behind.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], as all calls.
    pub fn processes(&self) -> Result<Vec<ProcessRow>, OperatorError> {
        let mut found = self.read(sql::processes(self.dialect), rows::process)?;
        found.retain(|process| process.live || process.timeouts > 0);
        Ok(found)
    }

    /// Cancels, in batches, all timeouts that match and do not run. A timeout that is scheduled
    /// meanwhile may be cancelled as well.
    ///
    /// A filter without a condition cancels everything. The filter's page does not count.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], as all calls. It says how many were cancelled before.
    pub fn cancel(&self, filter: &Filter) -> Result<Cancelled, OperatorError> {
        let mut cancelled = 0;
        let idle = filter.clone().running(false);
        // A timeout that runs can't be cancelled.
        for pass in 0..PASSES {
            if filter.running == Some(true) {
                break;
            }
            if pass > 0 {
                thread::sleep(BETWEEN_PASSES);
            }
            let (found, changed) = self.sweep(Table::Timeouts, &idle, cancelled, Rows::cancel)?;
            cancelled += changed;
            if found == changed {
                break;
            }
        }
        let left = self.count(filter).map_err(|error| after(cancelled, error))?;
        Ok(Cancelled { cancelled, left })
    }

    /// Returns how many dead letters there are. The filter's page does not count.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], as all calls.
    pub fn count_dead(&self, filter: &Filter) -> Result<u64, OperatorError> {
        self.number(Table::DeadLetters, filter)
    }

    /// Returns dead letters in the order of their keys, a page at a time: see [`Filter::limit`] and
    /// [`Filter::after_letter`].
    ///
    /// # Errors
    ///
    /// [`OperatorError`], as all calls.
    pub fn list_dead(&self, filter: &Filter) -> Result<Vec<DeadLetterRow>, OperatorError> {
        self.of(Table::DeadLetters, filter, Rows::list, rows::dead_letter)
    }

    /// Schedules dead letters once more, with their payloads, after this delay, and returns how
    /// many. Processes find them within 250 ms.
    ///
    /// Of a key that has several, only the last one is scheduled. One whose key has been scheduled
    /// since stays where it is. The filter's page does not count.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], as all calls. It says how many were scheduled before.
    pub fn revive_dead(&self, filter: &Filter, delay: Duration) -> Result<u64, OperatorError> {
        let delay = whole_micros(delay).min(FOREVER);
        let revive = |rows: &Rows, ids: &[(String, i64)]| rows.revive(ids, delay);
        self.sweep(Table::DeadLetters, filter, 0, revive).map(|(_, revived)| revived)
    }

    /// Deletes dead letters, and returns how many. A filter without a condition deletes all of
    /// them. The filter's page does not count.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], as all calls. It says how many were deleted before.
    pub fn delete_dead(&self, filter: &Filter) -> Result<u64, OperatorError> {
        self.sweep(Table::DeadLetters, filter, 0, Rows::delete_dead).map(|(_, deleted)| deleted)
    }

    /// Changes all rows that match, in batches. Returns how many it has found, and how many it has
    /// changed. `before` were changed by the same call already.
    fn sweep(
        &self,
        table: Table,
        filter: &Filter,
        before: u64,
        change: impl Fn(&Rows, &[(String, i64)]) -> Vec<Query>,
    ) -> Result<(u64, u64), OperatorError> {
        let (mut found, mut changed) = (0, 0);
        let mut rows = self.rows(table, Filter { after: None, ..filter.clone() })?;
        loop {
            let ids = self.read(rows.ids(), rows::id).map_err(|error| after(before + changed, error))?;
            for batch in ids.chunks(BATCH) {
                let begun = Instant::now();
                // A deploy may have brought a handler.
                rows.live = self.handlers_for(&rows.filter).map_err(|error| after(before + changed, error))?;
                changed += self.change(change(&rows, batch)).map_err(|error| after(before + changed, error))?;
                found += batch.len() as u64;
                thread::sleep(begun.elapsed().clamp(PAUSE.0, PAUSE.1));
            }
            let Some(last) = ids.into_iter().next_back() else { return Ok((found, changed)) };
            rows.filter.after = Some(last);
        }
    }

    fn number(&self, table: Table, filter: &Filter) -> Result<u64, OperatorError> {
        Ok(self.of(table, filter, Rows::count, rows::number)?.pop().unwrap_or(0))
    }

    fn of<T>(
        &self,
        table: Table,
        filter: &Filter,
        query: impl Fn(&Rows) -> Query,
        row: impl Fn(Row) -> Option<T>,
    ) -> Result<Vec<T>, OperatorError> {
        self.read(query(&self.rows(table, filter.clone())?), row)
    }

    fn rows(&self, table: Table, filter: Filter) -> Result<Rows, OperatorError> {
        let live = self.handlers_for(&filter)?;
        Ok(Rows { dialect: self.dialect, table, filter, live })
    }

    /// Returns the handlers of all live processes, if the filter asks for them.
    fn handlers_for(&self, filter: &Filter) -> Result<Vec<String>, OperatorError> {
        if !filter.without_handler {
            return Ok(Vec::new());
        }
        let mut names = BTreeSet::new();
        for ProcessRow { process, handlers, .. } in self.live()? {
            names.extend(handlers.ok_or(OperatorError::UnknownHandlers { process })?);
        }
        Ok(names.into_iter().collect())
    }

    fn live(&self) -> Result<Vec<ProcessRow>, OperatorError> {
        let mut live = self.processes()?;
        live.retain(|process| process.live);
        Ok(live)
    }

    fn read<T>(&self, query: Query, row: impl Fn(Row) -> Option<T>) -> Result<Vec<T>, OperatorError> {
        let rows = self.with(|desk| desk.read(query).map_err(|failure| OperatorError::after(0, failure)))?;
        Ok(rows.into_iter().filter_map(row).collect())
    }

    fn change(&self, queries: Vec<Query>) -> Result<u64, OperatorError> {
        self.with(|desk| desk.change(queries).map_err(|failure| OperatorError::after(0, failure)))
    }

    fn with<T>(&self, work: impl FnOnce(&mut dyn Desk) -> Result<T, OperatorError>) -> Result<T, OperatorError> {
        if process::id() != self.process {
            return Err(OperatorError::Forked);
        }
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut **desk.as_mut().expect("it is there until it is dropped"))
    }
}

/// Adds what was changed before.
fn after(before: u64, error: OperatorError) -> OperatorError {
    match error {
        OperatorError::Store { changed, reason } => OperatorError::Store { changed: before + changed, reason },
        OperatorError::Unknown { changed, reason } => OperatorError::Unknown { changed: before + changed, reason },
        other => other,
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if process::id() != self.process {
            // The connection is the parent's.
            std::mem::forget(self.desk.get_mut().map(Option::take));
        }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator").field("dialect", &self.dialect).finish_non_exhaustive()
    }
}
