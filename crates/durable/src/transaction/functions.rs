//! The SQL functions, as the calls of both clients of PostgreSQL use them.

use std::time::{Duration, SystemTime};

use ::postgres::types::{ToSql, Type};

use crate::clock::{Micros, whole_micros};

/// A product of up to 2^53 whole microseconds, until the year 2255, is exact.
const SCHEDULE: &str = "SELECT tourbillon_schedule($1, $2 * interval '1 microsecond', $3, $4)";
const SCHEDULE_AT: &str =
    "SELECT tourbillon_schedule_at($1, timestamptz 'epoch' + $2 * interval '1 microsecond', $3, $4)";
const RESET: &str = "SELECT tourbillon_reset($1, $2 * interval '1 microsecond')";
const RESET_AT: &str = "SELECT tourbillon_reset_at($1, timestamptz 'epoch' + $2 * interval '1 microsecond')";
const CANCEL: &str = "SELECT tourbillon_cancel($1)";

/// A call of a function. It is sent without a name for its statement, as there may be a pool.
pub(super) struct Call<'a> {
    pub(super) text: &'static str,
    key: &'a str,
    micros: Option<i64>,
    what: Option<(&'a str, &'a [u8])>,
}

impl<'a> Call<'a> {
    pub(super) fn schedule(key: &'a str, delay: Duration, handler: &'a str, payload: &'a [u8]) -> Self {
        Self { text: SCHEDULE, key, micros: Some(interval(delay)), what: Some((handler, payload)) }
    }

    pub(super) fn schedule_at(key: &'a str, due: SystemTime, handler: &'a str, payload: &'a [u8]) -> Self {
        Self { text: SCHEDULE_AT, key, micros: Some(since_1970(due)), what: Some((handler, payload)) }
    }

    pub(super) fn reset(key: &'a str, delay: Duration) -> Self {
        Self { text: RESET, key, micros: Some(interval(delay)), what: None }
    }

    pub(super) fn reset_at(key: &'a str, due: SystemTime) -> Self {
        Self { text: RESET_AT, key, micros: Some(since_1970(due)), what: None }
    }

    pub(super) fn cancel(key: &'a str) -> Self {
        Self { text: CANCEL, key, micros: None, what: None }
    }

    pub(super) fn params(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let mut params: Vec<(&(dyn ToSql + Sync), Type)> = vec![(&self.key, Type::TEXT)];
        params.extend(self.micros.as_ref().map(|micros| (micros as &(dyn ToSql + Sync), Type::INT8)));
        if let Some((handler, payload)) = &self.what {
            params.push((handler, Type::TEXT));
            params.push((payload, Type::BYTEA));
        }
        params
    }
}

/// The server says what is wrong with one that is too long, if it can read it.
fn interval(delay: Duration) -> i64 {
    whole_micros(delay).min(Micros::LAST)
}

fn since_1970(due: SystemTime) -> i64 {
    // Greater than the last by more than the server's rounding.
    Micros::round_up(due).map_or(Micros::LAST + 1_000_000_000, |due| due.0)
}

/// The calls, which differ between the two clients only by `async` and `.await`. In `)??` the first
/// mark is the macro's.
macro_rules! calls {
    ($transaction:ty $(, $async:ident, $await:ident)?) => {
        /// Schedules a timeout, in place of any other with this `key`: see
        /// [`DurableTimer::schedule`](crate::DurableTimer::schedule).
        ///
        /// # Errors
        ///
        /// That of the server, with the code 22023 for a key, a name, a payload or a delay that is
        /// out of bounds.
        pub $($async)? fn schedule(
            transaction: $transaction,
            key: &str,
            delay: Duration,
            handler: &str,
            payload: impl AsRef<[u8]>,
        ) -> Result<Scheduled, Error> {
            let generation = call(transaction, &Call::schedule(key, delay, handler, payload.as_ref()))$(.$await)??;
            Ok(Scheduled { generation })
        }

        /// Schedules a timeout for a time of day: see [`schedule`].
        ///
        /// # Errors
        ///
        /// As [`schedule`].
        pub $($async)? fn schedule_at(
            transaction: $transaction,
            key: &str,
            due: SystemTime,
            handler: &str,
            payload: impl AsRef<[u8]>,
        ) -> Result<Scheduled, Error> {
            let generation = call(transaction, &Call::schedule_at(key, due, handler, payload.as_ref()))$(.$await)??;
            Ok(Scheduled { generation })
        }

        /// Moves a timeout to `delay` from now. The answer is false if no timeout has this key, or
        /// if it runs: see [`DurableTimer::reset`](crate::DurableTimer::reset).
        ///
        /// # Errors
        ///
        /// As [`schedule`].
        pub $($async)? fn reset(transaction: $transaction, key: &str, delay: Duration) -> Result<bool, Error> {
            call(transaction, &Call::reset(key, delay))$(.$await)?
        }

        /// Moves a timeout to a time of day: see [`reset`].
        ///
        /// # Errors
        ///
        /// As [`schedule`].
        pub $($async)? fn reset_at(transaction: $transaction, key: &str, due: SystemTime) -> Result<bool, Error> {
            call(transaction, &Call::reset_at(key, due))$(.$await)?
        }

        /// Cancels a timeout. After the answer true, and the commit, no process claims it. The
        /// answer is false if no timeout has this key, or if it runs: see
        /// [`DurableTimer::cancel`](crate::DurableTimer::cancel).
        ///
        /// # Errors
        ///
        /// As [`schedule`].
        pub $($async)? fn cancel(transaction: $transaction, key: &str) -> Result<bool, Error> {
            call(transaction, &Call::cancel(key))$(.$await)?
        }

        $($async)? fn call<T: FromSqlOwned>(transaction: $transaction, call: &Call<'_>) -> Result<T, Error> {
            transaction.query_typed(call.text, &call.params())$(.$await)??[0].try_get(0)
        }
    };
}
pub(super) use calls;
