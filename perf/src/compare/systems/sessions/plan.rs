//! What a run is to do, and what the server has to say in the end.

use std::time::Duration;

use super::books::Books;
use super::protocol::Protocol;

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rate {
    /// So many a second, as long as the server keeps up.
    Fixed(f64),
    /// As fast as the server answers.
    Full,
}

impl Rate {
    /// Of so many sessions each has its turn within 20 s, if eight requests follow each other.
    pub(super) fn usual(sessions: usize) -> Self {
        Self::Fixed(0.4 * sessions as f64)
    }
}

/// When the measurement ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Time(Duration),
    /// So many requests, after all sessions have been opened.
    Requests(u64),
}

/// A run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) sessions: usize,
    pub(crate) rate: Rate,
    /// So many sessions have a request under way at any time, at most: a server that does not keep
    /// up is not buried.
    pub(crate) under_way: usize,
    /// Requests of a session, one after the other, before it rests and another has its turn.
    pub(crate) chain: u32,
    pub(crate) bytes: usize,
    pub(crate) protocol: Protocol,
    pub(crate) warm_up: Duration,
    pub(crate) length: Length,
}

/// What a server says when it is over.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) books: Books,
    /// Sessions that are there still.
    pub(super) left: usize,
    /// Datagrams that the kernel did not take.
    pub(super) refused: u64,
}
