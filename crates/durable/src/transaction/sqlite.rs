//! The calls in a transaction of rusqlite, on a connection of your own to the file.
//!
//! ```
//! use std::time::Duration;
//! use rusqlite::{Connection, TransactionBehavior};
//! use tourbillon_durable::transaction::sqlite as timeouts;
//! # use tourbillon_durable::{DurableTimer, Outcome};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("shop.db");
//! # let timers = DurableTimer::open(&path)?.handler("close_order", |_due| Outcome::Done);
//! let mut connection = Connection::open(path)?; // the file of the `DurableTimer`
//! # connection.execute_batch("CREATE TABLE orders (id INTEGER, state TEXT)")?;
//! let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
//! transaction.execute("INSERT INTO orders (id, state) VALUES (42, 'unpaid')", [])?;
//! timeouts::schedule(&transaction, "order:42", Duration::from_secs(1800), "close_order", b"")?;
//! transaction.commit()?;
//! # Ok(())
//! # }
//! ```
//!
//! The connection may be of this process or of another one. `DurableTimer::open` has made the
//! tables. Whether the commit is on disk is up to the connection: with `PRAGMA synchronous = FULL`,
//! SQLite's default, it is. The clock is the system's, whatever
//! [`Builder::clock`](crate::Builder::clock) says.
//!
//! # Begin it as `IMMEDIATE`
//!
//! SQLite has one writer at a time, and the timers write all the time. A transaction that begins by
//! reading (`DEFERRED`, the default) fails with `SQLITE_BUSY` at its first write, at once, if
//! anything was committed since. One that begins as `IMMEDIATE` waits for its turn, for as long as
//! the connection's `busy_timeout` says, which is 5 s in rusqlite.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, params};

use crate::clock::{Micros, SystemClock, WallClock};
use crate::due::Scheduled;
use crate::error::Refused;
use crate::store::sqlite::Statements;
use crate::timers::{check_key, check_payload, is_name};

/// Why a call in a transaction has failed. Nothing of it was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection is in no transaction.
    #[error("the connection is in no transaction: begin one, with TransactionBehavior::Immediate")]
    NoTransaction,
    /// The name can't be that of a handler.
    #[error("a handler called {name:?}: a name has 1 to 255 bytes, and no control characters")]
    Handler {
        /// The name.
        name: String,
    },
    /// A value is out of bounds.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// SQLite has refused.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// The clock is a parameter: the connection has no function for it.
static SQL: LazyLock<Statements> = LazyLock::new(|| Statements::new(":now"));

/// Schedules a timeout, in place of any other with this `key`: see
/// [`DurableTimer::schedule`](crate::DurableTimer::schedule).
///
/// # Errors
///
/// [`Error`], with nothing written.
pub fn schedule(
    transaction: &Connection,
    key: &str,
    delay: Duration,
    handler: &str,
    payload: impl AsRef<[u8]>,
) -> Result<Scheduled, Error> {
    schedule_at(transaction, key, after(delay)?, handler, payload)
}

/// Schedules a timeout for a time of day: see [`schedule`].
///
/// # Errors
///
/// [`Error`], with nothing written.
pub fn schedule_at(
    transaction: &Connection,
    key: &str,
    due: SystemTime,
    handler: &str,
    payload: impl AsRef<[u8]>,
) -> Result<Scheduled, Error> {
    let (key, payload, due) = (check_key(key)?, payload.as_ref(), micros(due)?);
    if !is_name(handler) {
        return Err(Error::Handler { name: handler.to_owned() });
    }
    check_payload(payload)?;
    let generation = next_generation(transaction)?;
    let owner = None::<i64>;
    let mut schedule = transaction.prepare_cached(&SQL.schedule)?;
    schedule.execute(params![key, due.0, handler, payload, generation, owner])?;
    Ok(Scheduled { generation })
}

/// Moves a timeout to `delay` from now. The answer is false if no timeout has this key, or if it
/// runs: see [`DurableTimer::reset`](crate::DurableTimer::reset).
///
/// # Errors
///
/// [`Error`], with nothing written.
pub fn reset(transaction: &Connection, key: &str, delay: Duration) -> Result<bool, Error> {
    reset_at(transaction, key, after(delay)?)
}

/// Moves a timeout to a time of day: see [`reset`].
///
/// # Errors
///
/// [`Error`], with nothing written.
pub fn reset_at(transaction: &Connection, key: &str, due: SystemTime) -> Result<bool, Error> {
    reset_by(SystemClock.now(), transaction, key, due)
}

/// Cancels a timeout. After the answer true, and the commit, no process claims it. The answer is
/// false if no timeout has this key, or if it runs: see
/// [`DurableTimer::cancel`](crate::DurableTimer::cancel).
///
/// # Errors
///
/// [`Error`], with nothing written.
pub fn cancel(transaction: &Connection, key: &str) -> Result<bool, Error> {
    cancel_by(SystemClock.now(), transaction, key)
}

/// Moves a timeout, if at `now` no run under a lease has it.
pub(crate) fn reset_by(now: SystemTime, transaction: &Connection, key: &str, due: SystemTime) -> Result<bool, Error> {
    let (key, due) = (check_key(key)?, micros(due)?);
    let generation = next_generation(transaction)?;
    let (owner, now) = (None::<i64>, Micros::round_down(now));
    let mut reset = transaction.prepare_cached(&SQL.reset)?;
    let moved = reset.query_row(params![key, due.0, generation, owner, now.0], |_| Ok(())).optional()?;
    Ok(moved.is_some())
}

/// Cancels a timeout, if at `now` no run under a lease has it.
pub(crate) fn cancel_by(now: SystemTime, transaction: &Connection, key: &str) -> Result<bool, Error> {
    let key = check_key(key)?;
    in_transaction(transaction)?;
    let mut cancel = transaction.prepare_cached(&SQL.cancel)?;
    Ok(cancel.execute(params![key, Micros::round_down(now).0])? == 1)
}

/// Draws a generation. From now on the transaction is the one that writes, so a key's generations
/// grow in the order of the commits.
fn next_generation(transaction: &Connection) -> Result<i64, Error> {
    in_transaction(transaction)?;
    let mut next = transaction.prepare_cached("UPDATE tourbillon_generations SET last = last + 1 RETURNING last")?;
    Ok(next.query_row([], |row| row.get(0))?)
}

fn in_transaction(transaction: &Connection) -> Result<(), Error> {
    if transaction.is_autocommit() { Err(Error::NoTransaction) } else { Ok(()) }
}

fn after(delay: Duration) -> Result<SystemTime, Refused> {
    SystemClock.now().checked_add(delay).ok_or(Refused::TooFar { delay })
}

fn micros(due: SystemTime) -> Result<Micros, Refused> {
    let delay = || due.duration_since(SystemClock.now()).unwrap_or_default();
    Micros::round_up(due).ok_or_else(|| Refused::TooFar { delay: delay() })
}
