//! Support for tests with several processes: a PostgreSQL server of their own, processes that can
//! be stopped and killed, the history that these write, and the checker that reads it.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

pub(crate) mod checker;
pub(crate) mod history;
pub(crate) mod own;
pub(crate) mod player;
#[cfg(feature = "postgres")]
pub(crate) mod pooler;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod runs;
mod started;
mod until;

pub(crate) use self::started::{Start, Started};
pub(crate) use self::until::{PATIENCE, file, stop_in_time, until, waits};

/// Returns the number in an environment variable, or `default` if it is not set.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    let Ok(value) = std::env::var(variable) else { return default };
    value.parse().unwrap_or_else(|_| panic!("{variable} is {value:?}: a whole number would be right"))
}
