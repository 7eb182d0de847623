//! The timeout that a handler gets, and the outcome that it returns.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::clock::Micros;

/// A timeout that has come up, and that this process has claimed.
///
/// [`key`](Self::key), [`generation`](Self::generation) and [`attempt`](Self::attempt) together are
/// its fencing token. No two runs have the same, as long as the store keeps what it has committed:
/// see [guarantee 3](crate#guarantees). For one key a later run has a greater
/// (generation, attempt). A service that keeps the last one it saw can refuse a late caller.
#[derive(Clone, Debug)]
pub struct Due {
    pub(crate) key: Arc<str>,
    pub(crate) generation: i64,
    pub(crate) attempt: u32,
    pub(crate) due: Micros,
    pub(crate) claimed_at: Micros,
    pub(crate) payload: Box<[u8]>,
}

impl Due {
    /// Returns the key under which the timeout was scheduled.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the number of the schedule or reset that this run belongs to. It is greater than
    /// that of all earlier ones of the key.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// Returns how many times this generation has been claimed, this one included.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the payload that was scheduled.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Returns the deadline. For a later attempt it is the time at which that was to begin.
    #[must_use]
    pub fn due(&self) -> SystemTime {
        self.due.to_system_time()
    }

    /// Returns when the timeout was claimed, by the clock of the store. For SQLite that is this
    /// machine's, for PostgreSQL that of the server.
    #[must_use]
    pub fn claimed_at(&self) -> SystemTime {
        self.claimed_at.to_system_time()
    }

    /// Reads the payload as JSON. With the feature `json`.
    ///
    /// # Errors
    ///
    /// If the payload is not JSON, or not of this type.
    #[cfg(feature = "json")]
    pub fn json<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.payload)
    }
}

/// The outcome of a run, which the handler returns.
///
/// A run that panics ends as with [`Retry`](Self::Retry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is done, and its row is deleted.
    Done,
    /// It is run again after the time that the handler's [`RetryPolicy`](crate::RetryPolicy) says:
    /// 1 s, 2 s, 4 s and so on, if it has none of its own. After the last of
    /// [`Builder::max_attempts`](crate::Builder::max_attempts) it becomes a dead letter instead.
    Retry,
    /// As [`Retry`](Self::Retry), but after this time.
    RetryAfter(Duration),
    /// It can't be done. Its row is moved to the dead letters, where an operator finds it.
    DeadLetter,
}

/// The row of a timeout that has not run to its end, as
/// [`DurableTimer::get`](crate::DurableTimer::get) returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pending {
    /// The deadline, to the microsecond.
    pub due: SystemTime,
    /// The name of the handler.
    pub handler: String,
    /// The payload that was scheduled.
    pub payload: Vec<u8>,
    /// The number of the schedule or reset that this row comes from.
    pub generation: i64,
    /// How many times this generation has been claimed.
    pub attempts: u32,
    /// Whether a handler has claimed it, and is not known to have ended.
    pub running: bool,
}

/// A timeout that was given up: see [`Outcome::DeadLetter`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The key.
    pub key: String,
    /// The generation. A key may have dead letters of several.
    pub generation: i64,
    /// The deadline of the last attempt.
    pub due: SystemTime,
    /// The name of the handler.
    pub handler: String,
    /// The payload that was scheduled.
    pub payload: Vec<u8>,
    /// How many times it was claimed.
    pub attempts: u32,
    /// When it was given up, by the clock of the store.
    pub died_at: SystemTime,
}

/// The answer to a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheduled {
    /// The generation that the handler will see, if no later schedule or reset replaces it.
    pub generation: i64,
}
