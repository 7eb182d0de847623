//! The calls in a transaction of the crate postgres. They block until the server has answered.
//!
//! ```no_run
//! use std::time::Duration;
//! use tourbillon_durable::transaction::postgres as timeouts;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut client = postgres::Client::connect("postgres://localhost/shop", postgres::NoTls)?;
//! let mut transaction = client.transaction()?;
//! transaction.execute("INSERT INTO orders (id, state) VALUES (42, 'unpaid')", &[])?;
//! let half_an_hour = Duration::from_secs(1800);
//! timeouts::schedule(&mut transaction, "order:42", half_an_hour, "close_order", b"")?;
//! transaction.commit()?;
//! # Ok(())
//! # }
//! ```
//!
//! An error is the server's. After it the transaction can only be rolled back, as after any error
//! of PostgreSQL.

use std::time::{Duration, SystemTime};

use ::postgres::types::FromSqlOwned;
use ::postgres::{Error, Transaction};

use super::functions::Call;
use crate::due::Scheduled;

/// Schedules a timeout, in place of any other with this `key`: see
/// [`DurableTimer::schedule`](crate::DurableTimer::schedule).
///
/// # Errors
///
/// That of the server, with the code 22023 for a key, a name, a payload or a delay that is out of
/// bounds.
pub fn schedule(
    transaction: &mut Transaction<'_>,
    key: &str,
    delay: Duration,
    handler: &str,
    payload: impl AsRef<[u8]>,
) -> Result<Scheduled, Error> {
    let generation = call(transaction, &Call::schedule(key, delay, handler, payload.as_ref()))?;
    Ok(Scheduled { generation })
}

/// Schedules a timeout for a time of day: see [`schedule`].
///
/// # Errors
///
/// As [`schedule`].
pub fn schedule_at(
    transaction: &mut Transaction<'_>,
    key: &str,
    due: SystemTime,
    handler: &str,
    payload: impl AsRef<[u8]>,
) -> Result<Scheduled, Error> {
    let generation = call(transaction, &Call::schedule_at(key, due, handler, payload.as_ref()))?;
    Ok(Scheduled { generation })
}

/// Moves a timeout to `delay` from now. The answer is false if no timeout has this key, or if it
/// runs: see [`DurableTimer::reset`](crate::DurableTimer::reset).
///
/// # Errors
///
/// As [`schedule`].
pub fn reset(transaction: &mut Transaction<'_>, key: &str, delay: Duration) -> Result<bool, Error> {
    call(transaction, &Call::reset(key, delay))
}

/// Moves a timeout to a time of day: see [`reset`].
///
/// # Errors
///
/// As [`schedule`].
pub fn reset_at(transaction: &mut Transaction<'_>, key: &str, due: SystemTime) -> Result<bool, Error> {
    call(transaction, &Call::reset_at(key, due))
}

/// Cancels a timeout. After the answer true, and the commit, no process claims it. The answer is
/// false if no timeout has this key, or if it runs: see
/// [`DurableTimer::cancel`](crate::DurableTimer::cancel).
///
/// # Errors
///
/// As [`schedule`].
pub fn cancel(transaction: &mut Transaction<'_>, key: &str) -> Result<bool, Error> {
    call(transaction, &Call::cancel(key))
}

fn call<T: FromSqlOwned>(transaction: &mut Transaction<'_>, call: &Call<'_>) -> Result<T, Error> {
    transaction.query_typed(call.text, &call.params())?[0].try_get(0)
}
