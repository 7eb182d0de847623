//! Transactions of a player's own: some calls at random, which are committed together, or are
//! rolled back.

use std::error::Error;
use std::thread;
use std::time::{Duration, SystemTime};

use tourbillon_durable::transaction;

use super::history::{Answer, Call};

/// A call to be made: its key, what it is, its deadline or delay, and a schedule's payload.
pub(crate) struct Wanted {
    pub(crate) key: String,
    pub(crate) call: Call,
    pub(crate) delay: Duration,
    /// In place of the delay.
    pub(crate) at: Option<SystemTime>,
    pub(crate) payload: String,
}

/// How a transaction has ended.
pub(crate) enum Ended {
    Committed(Vec<Answer>),
    RolledBack,
    /// The answer to its commit was lost.
    Unknown,
}

/// A connection of the player's own, if there is one now.
#[derive(Default)]
pub(crate) struct Own {
    #[cfg(feature = "sqlite")]
    sqlite: Option<rusqlite::Connection>,
    #[cfg(feature = "postgres")]
    postgres: Option<postgres::Client>,
}

type Tried<T> = Result<T, Box<dyn Error>>;

impl Own {
    /// Makes the calls in one transaction, which stays open for a while.
    pub(crate) fn transact(&mut self, store: &str, wanted: &[Wanted]) -> Ended {
        let (open, commit) = (Duration::from_micros(fastrand::u64(..5_000)), fastrand::u32(..5) > 0);
        if store.starts_with("postgres") {
            self.transact_in_postgres(store, wanted, open, commit)
        } else {
            self.transact_in_sqlite(store, wanted, open, commit)
        }
    }

    #[cfg(feature = "sqlite")]
    fn transact_in_sqlite(&mut self, path: &str, wanted: &[Wanted], open: Duration, commit: bool) -> Ended {
        use rusqlite::{Connection, TransactionBehavior};
        use transaction::sqlite;

        if self.sqlite.is_none() {
            self.sqlite = Connection::open(path).ok();
        }
        let Some(connection) = &mut self.sqlite else { return Ended::RolledBack };
        let Ok(own) = connection.transaction_with_behavior(TransactionBehavior::Immediate) else {
            return Ended::RolledBack;
        };
        let make = |Wanted { key, call, delay, at, payload }: &Wanted| -> Tried<Answer> {
            Ok(match (call, at) {
                (Call::Schedule { .. }, None) => {
                    Answer::Generation(sqlite::schedule(&own, key, *delay, "work", payload)?.generation)
                }
                (Call::Schedule { .. }, Some(at)) => {
                    Answer::Generation(sqlite::schedule_at(&own, key, *at, "work", payload)?.generation)
                }
                (Call::Reset { .. }, None) => Answer::Did(sqlite::reset(&own, key, *delay)?),
                (Call::Reset { .. }, Some(at)) => Answer::Did(sqlite::reset_at(&own, key, *at)?),
                _ => Answer::Did(sqlite::cancel(&own, key)?),
            })
        };
        let Ok(answers) = wanted.iter().map(make).collect::<Tried<Vec<_>>>() else { return Ended::RolledBack };
        thread::sleep(open);
        if !commit {
            return Ended::RolledBack;
        }
        own.commit().map_or(Ended::Unknown, |()| Ended::Committed(answers))
    }

    #[cfg(not(feature = "sqlite"))]
    fn transact_in_sqlite(&mut self, _: &str, _: &[Wanted], _: Duration, _: bool) -> Ended {
        Ended::RolledBack
    }

    #[cfg(feature = "postgres")]
    fn transact_in_postgres(&mut self, url: &str, wanted: &[Wanted], open: Duration, commit: bool) -> Ended {
        if self.postgres.as_ref().is_none_or(postgres::Client::is_closed) {
            self.postgres = postgres::Client::connect(url, postgres::NoTls).ok();
        }
        let Some(client) = &mut self.postgres else { return Ended::RolledBack };
        let ended = in_postgres(client, wanted, open, commit).unwrap_or(Ended::RolledBack);
        if !matches!(ended, Ended::Committed(_)) {
            // It may be broken.
            self.postgres = None;
        }
        ended
    }

    #[cfg(not(feature = "postgres"))]
    fn transact_in_postgres(&mut self, _: &str, _: &[Wanted], _: Duration, _: bool) -> Ended {
        Ended::RolledBack
    }
}

/// An error before the commit is a rollback.
#[cfg(feature = "postgres")]
fn in_postgres(client: &mut postgres::Client, wanted: &[Wanted], open: Duration, commit: bool) -> Tried<Ended> {
    use transaction::postgres as pg;

    let mut own = client.transaction()?;
    // A process that is stopped would hold its locks for longer than a lease, and ends of runs
    // could not be stored.
    own.batch_execute(
        "SET LOCAL idle_in_transaction_session_timeout = '700ms'; SET LOCAL lock_timeout = '300ms';
         SET LOCAL synchronous_commit = on",
    )?;
    let mut answers = Vec::new();
    for Wanted { key, call, delay, at, payload } in wanted {
        answers.push(match (call, at) {
            (Call::Schedule { .. }, None) => {
                Answer::Generation(pg::schedule(&mut own, key, *delay, "work", payload)?.generation)
            }
            (Call::Schedule { .. }, Some(at)) => {
                Answer::Generation(pg::schedule_at(&mut own, key, *at, "work", payload)?.generation)
            }
            (Call::Reset { .. }, None) => Answer::Did(pg::reset(&mut own, key, *delay)?),
            (Call::Reset { .. }, Some(at)) => Answer::Did(pg::reset_at(&mut own, key, *at)?),
            _ => Answer::Did(pg::cancel(&mut own, key)?),
        });
    }
    thread::sleep(open);
    if !commit {
        return Ok(Ended::RolledBack);
    }
    Ok(own.commit().map_or(Ended::Unknown, |()| Ended::Committed(answers)))
}
