//! What a run is to do, and what the server has to say in the end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::books::Books;
use super::protocol::Protocol;

/// When the measurement ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Length {
    Time(Duration),
    /// So many requests, after all sessions have been opened.
    Requests(u64),
}

/// A run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) sessions: usize,
    /// Requests a second, as long as the server keeps up; `None`: as fast as it answers.
    pub(crate) rate: Option<f64>,
    /// So many sessions have a request under way at any time, at most: a server that does not keep
    /// up is not buried.
    pub(crate) under_way: usize,
    /// Requests of a session, one after the other, before it rests and another has its turn.
    pub(crate) chain: u32,
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
