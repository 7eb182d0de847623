//! The calls in a transaction of your own: an order and its timeout are committed together, or
//! neither is.
//!
//! | your client | the calls |
//! |---|---|
//! | rusqlite | [`sqlite`] |
//! | postgres | [`postgres`] |
//! | tokio-postgres, deadpool, bb8 | [`tokio_postgres`], with the feature `tokio-postgres` |
//! | sqlx, diesel, psql, other languages | the SQL functions below |
//!
//! They mean what those of [`DurableTimer`](crate::DurableTimer) mean: the last schedule of a key
//! wins, and a reset and a cancel answer false if there is no such timeout, or if it runs. A
//! rollback leaves nothing. The handlers run in the processes that have a `DurableTimer`, which
//! need not be this one. The name of a handler is not compared with theirs: a timeout waits for a
//! process that has it.
//!
//! # When it runs
//!
//! Each process looks every 250 ms for timeouts that others have committed. A timeout that is due a
//! second after its commit, or later, is as late as any other. One that is due sooner, or is
//! overdue when it is committed, runs 250 ms later at most, and 125 ms on average.
//!
//! A look is one query by an index. With PostgreSQL it is three round trips, so an idle process
//! makes four short transactions a second. If a look takes more than 62 ms, the next one comes
//! after four times as long, and after 750 ms at most.
//!
//! # What an open transaction holds up
//!
//! In PostgreSQL the rows that it has written, and nothing else. A timeout that it has reset,
//! cancelled or scheduled anew waits for its end, if it comes up meanwhile. A call for the same key
//! waits as well, and fails after its [`commit_timeout`](crate::Builder::commit_timeout). Two
//! transactions that write the same keys in different orders may deadlock, as with all rows. With
//! `REPEATABLE READ` or `SERIALIZABLE`, a row that was written meanwhile is a serialization
//! failure: repeat the transaction, as with all rows. There a run counts as under way until its row
//! says otherwise, also if its process has lost its lease.
//!
//! SQLite has one writer at a time. While you have written and not committed, nothing is claimed,
//! and all that comes up is late by the rest of your transaction. No lease is renewed either. So
//! one that lasts for longer than a lease ends it, and then a cancel of what runs answers true. So
//! write last, and commit at once.
//!
//! # The SQL functions of PostgreSQL
//!
//! ```sql
//! tourbillon_schedule(key text, delay interval, handler text, payload bytea DEFAULT '')
//!     RETURNS bigint
//! tourbillon_schedule_at(key text, due timestamptz, handler text, payload bytea DEFAULT '')
//!     RETURNS bigint
//! tourbillon_reset(key text, delay interval) RETURNS boolean
//! tourbillon_reset_at(key text, due timestamptz) RETURNS boolean
//! tourbillon_cancel(key text) RETURNS boolean
//! ```
//!
//! `DurableTimer::open` makes them beside the tables. A schedule returns its generation. A delay
//! counts from the call, by the server's clock. A value that is out of bounds is an error with the
//! code 22023, whose text says what is right, or 22008 if it is no time at all. In psql:
//!
//! ```sql
//! BEGIN;
//! INSERT INTO orders (id, state) VALUES (42, 'unpaid');
//! SELECT tourbillon_schedule('order:42', '30 minutes', 'close_order');
//! COMMIT;
//! ```
//!
//! With sqlx:
//!
//! ```ignore
//! let mut transaction = pool.begin().await?;
//! sqlx::query("INSERT INTO orders (id, state) VALUES ($1, 'unpaid')")
//!     .bind(id)
//!     .execute(&mut *transaction)
//!     .await?;
//! sqlx::query("SELECT tourbillon_schedule($1, make_interval(secs => $2), 'close_order', $3)")
//!     .bind(format!("order:{id}"))
//!     .bind(1_800.0)
//!     .bind(b"payload".as_slice())
//!     .execute(&mut *transaction)
//!     .await?;
//! transaction.commit().await?;
//! ```
//!
//! A role needs what a process needs: `SELECT`, `INSERT`, `UPDATE` and `DELETE` on the tables,
//! `USAGE` on the sequence, and `EXECUTE` on the functions if that was taken from `PUBLIC`. The
//! functions find the tables by themselves. The schema that they are in is in the `search_path`, or
//! before their names: `shop.tourbillon_cancel('order:42')`.

#[cfg(feature = "postgres")]
mod functions;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "tokio-postgres")]
pub mod tokio_postgres;
