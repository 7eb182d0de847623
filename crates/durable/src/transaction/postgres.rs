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

use super::functions::{Call, calls};
use crate::due::Scheduled;

calls!(&mut Transaction<'_>);
