//! The errors of an open, a start and a call, which say what would be right.

use std::time::Duration;

use thiserror::Error;

/// Why a store can't be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another `DurableTimer`, has the file open.
    #[error(
        "{path} is open already, in this process or another, by this name or another: a file has one \
         owner; for several processes use PostgreSQL"
    )]
    InUse {
        /// The file.
        path: String,
    },
    /// A later version of this crate has written the store.
    #[error("the store has schema {found}, and this version knows {known} at most: use the version that wrote it")]
    NewerSchema {
        /// The number in the store.
        found: i64,
        /// The last one that this version knows.
        known: i64,
    },
    /// The tables are not there, or not up to date. An operator does not make them.
    #[error(
        "the store has {}, and schema {needed} is needed: start the service once with this version, or \
         apply what `tourbillon-durable migrations --after {found}` prints",
        if *found == 0 { "no tables yet".to_owned() } else { format!("schema {found}") }
    )]
    OlderSchema {
        /// The number in the store. 0 if there are no tables.
        found: i64,
        /// The one that this version needs.
        needed: i64,
    },
    /// The crate was built without the store.
    #[error("{location} needs the feature `{feature}` of tourbillon-durable")]
    NoSuchStore {
        /// The store that was to be opened.
        location: String,
        /// The feature that brings it.
        feature: &'static str,
    },
    /// The store has refused.
    #[error("can't open {location}: {reason}")]
    Store {
        /// The store that was to be opened, without a password.
        location: String,
        /// The reason that the store gave.
        reason: String,
    },
}

/// Why timers can't be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// An option has a value that can't work.
    #[error("{option} is {value}: {right}")]
    Option {
        /// The method of the builder.
        option: &'static str,
        /// The value.
        value: String,
        /// The values that would be right.
        right: &'static str,
    },
    /// The system gave no thread.
    #[error("can't start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Why a call was refused. Nothing was written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// More waits to be written than may. Wait for some of it, or slow down.
    #[error("{waiting} calls wait for the store, and {capacity} may: wait for earlier ones first")]
    QueueFull {
        /// The calls that wait.
        waiting: usize,
        /// `Builder::queue_capacity`.
        capacity: usize,
    },
    /// The payloads that wait to be written take more memory than they may.
    #[error("payloads of {waiting} bytes wait for the store, and {capacity} may: wait for earlier calls first")]
    BytesFull {
        /// The bytes that wait.
        waiting: usize,
        /// The bytes that may.
        capacity: usize,
    },
    /// No handler of this name was given to the builder.
    #[error(
        "no handler is called {name:?}; there are {known:?}; see Builder::handler, and with \
         PostgreSQL, for handlers of other processes, Builder::elsewhere"
    )]
    NoHandler {
        /// The name.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The key is empty, too long, or holds a NUL.
    #[error("a key of {len} bytes: a key has 1 to 1,024 bytes, and no NUL")]
    Key {
        /// The length of the key.
        len: usize,
    },
    /// The payload is too long.
    #[error("a payload of {len} bytes: at most {most} are stored; store a name of the data instead")]
    Payload {
        /// The length of the payload.
        len: usize,
        /// The longest that may be.
        most: usize,
    },
    /// The deadline can't be stored.
    #[error("a delay of {delay:?} ends beyond the year 200,000")]
    TooFar {
        /// The delay, from now.
        delay: Duration,
    },
    /// The value can't be written as JSON.
    #[error("the payload can't be written as JSON: {0}")]
    Json(String),
    /// `stop` was called.
    #[error("the timers have been stopped")]
    Stopped,
    /// This is a child that was forked from the process of the timers, and has none of their
    /// threads.
    #[error("this process was forked from that of the timers: open the store here, or use a thread")]
    Forked,
}

/// Why an accepted call has no answer of the store.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitError {
    /// The connection was lost, or the time ended, while the write was under way: it may be on
    /// disk, or not. To write it once more is safe: a key has one row.
    #[error("the write may be on disk or not: {0}")]
    Unknown(String),
    /// The store has refused, or was not ready in time. Nothing of the call is on disk, and never
    /// will be.
    #[error("nothing was written: {0}")]
    Failed(String),
    /// The timers were stopped first, and nothing of the call is on disk.
    #[error("the timers were stopped before the write")]
    Stopped,
    /// This is a child that was forked from the process of the call. The answer comes there.
    #[error("this process was forked from that of the call, and the answer comes there")]
    Forked,
}
