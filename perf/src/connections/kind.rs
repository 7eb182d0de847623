//! What timeouts are for.

/// What a timeout is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One of the timeouts without sockets.
    Population,
    /// A connection's idle timeout.
    Idle,
    /// The server's deadline for a request.
    Request,
    /// The end of the work step between request and answer.
    Work,
    /// The client's deadline for the answer.
    Answer,
}

/// Number of [`Kind`]s.
pub(crate) const KINDS: usize = 5;
