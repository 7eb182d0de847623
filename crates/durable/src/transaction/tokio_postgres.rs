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

use super::functions::{Call, calls};
use crate::due::Scheduled;

calls!(&Transaction<'_>, async, await);
