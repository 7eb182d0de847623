//! The calls in a transaction of the crate tokio-postgres. With the feature `tokio-postgres`.
//!
//! ```no_run
//! use std::time::Duration;
//! use tourbillon_durable::transaction::tokio_postgres as timeouts;
//!
//! # async fn order(client: &mut tokio_postgres::Client) -> Result<(), tokio_postgres::Error> {
//! let transaction = client.transaction().await?;
//! transaction.execute("INSERT INTO orders (id, state) VALUES (42, 'unpaid')", &[]).await?;
//! let half_an_hour = Duration::from_secs(1800);
//! timeouts::schedule(&transaction, "order:42", half_an_hour, "close_order", b"").await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A future that is dropped before its answer may have had its effect, as all of that client's.
//! An error is the server's. After it the transaction can only be rolled back, as after any error
//! of PostgreSQL.

use std::time::{Duration, SystemTime};

use ::tokio_postgres::types::FromSqlOwned;
use ::tokio_postgres::{Error, Transaction};

use super::functions::Call;
use crate::due::Scheduled;

/// Schedules a timeout, in place of any other with this `key`: see
/// [`DurableTimer::schedule`](crate::DurableTimer::schedule).
///
/// # Errors
///
/// That of the server, with the code 22023 for a key, a name, a payload or a delay that is out of
/// bounds.
pub async fn schedule(
    transaction: &Transaction<'_>,
    key: &str,
    delay: Duration,
    handler: &str,
    payload: impl AsRef<[u8]>,
) -> Result<Scheduled, Error> {
    let generation = call(transaction, &Call::schedule(key, delay, handler, payload.as_ref())).await?;
    Ok(Scheduled { generation })
}

/// Schedules a timeout for a time of day: see [`schedule`].
///
/// # Errors
///
/// As [`schedule`].
pub async fn schedule_at(
    transaction: &Transaction<'_>,
    key: &str,
    due: SystemTime,
    handler: &str,
    payload: impl AsRef<[u8]>,
) -> Result<Scheduled, Error> {
    let generation = call(transaction, &Call::schedule_at(key, due, handler, payload.as_ref())).await?;
    Ok(Scheduled { generation })
}

/// Moves a timeout to `delay` from now. The answer is false if no timeout has this key, or if it
/// runs: see [`DurableTimer::reset`](crate::DurableTimer::reset).
///
/// # Errors
///
/// As [`schedule`].
pub async fn reset(transaction: &Transaction<'_>, key: &str, delay: Duration) -> Result<bool, Error> {
    call(transaction, &Call::reset(key, delay)).await
}

/// Moves a timeout to a time of day: see [`reset`].
///
/// # Errors
///
/// As [`schedule`].
pub async fn reset_at(transaction: &Transaction<'_>, key: &str, due: SystemTime) -> Result<bool, Error> {
    call(transaction, &Call::reset_at(key, due)).await
}

/// Cancels a timeout. After the answer true, and the commit, no process claims it. The answer is
/// false if no timeout has this key, or if it runs: see
/// [`DurableTimer::cancel`](crate::DurableTimer::cancel).
///
/// # Errors
///
/// As [`schedule`].
pub async fn cancel(transaction: &Transaction<'_>, key: &str) -> Result<bool, Error> {
    call(transaction, &Call::cancel(key)).await
}

async fn call<T: FromSqlOwned>(transaction: &Transaction<'_>, call: &Call<'_>) -> Result<T, Error> {
    transaction.query_typed(call.text, &call.params()).await?[0].try_get(0)
}
