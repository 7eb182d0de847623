//! The count without an engine: sort by client and time, and compare neighbours.

use std::time::Duration;

use serde::Serialize;

use super::trace::Trace;

/// What a replay comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    pub(super) requests: u64,
    /// Connections opened: by a client's first request, and by each that comes too late.
    pub(super) opened: u64,
    /// Requests within the keep-alive.
    pub(super) reset: u64,
    /// Connections that have expired at the end: all of them.
    pub(super) expired: u64,
}

/// For each request, in the order of the trace: whether it opens a connection.
///
/// It does if it is the client's first, or comes a keep-alive or more after the one before it.
pub(super) fn opens(trace: &Trace, keep_alive: Duration) -> Vec<bool> {
    let mut by_client: Vec<usize> = (0..trace.requests.len()).collect();
    by_client.sort_by_key(|&at| (trace.requests[at].client, trace.requests[at].at, at));
    let mut opens = vec![true; trace.requests.len()];
    for pair in by_client.windows(2) {
        let (before, now) = (trace.requests[pair[0]], trace.requests[pair[1]]);
        opens[pair[1]] = before.client != now.client || now.at - before.at >= keep_alive;
    }
    opens
}

/// The exact answer.
pub(super) fn exact(opens: &[bool]) -> Counts {
    let opened = opens.iter().filter(|&&opens| opens).count() as u64;
    let requests = opens.len() as u64;
    Counts { requests, opened, reset: requests - opened, expired: opened }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_deadline_is_too_late() {
        let trace = Trace::new(vec![(0, 0), (14, 0), (29, 0), (29, 1), (43, 0)]);
        let opens = opens(&trace, Duration::from_secs(15));
        assert_eq!(opens, [true, false, true, true, false]);
        let counts = exact(&opens);
        assert_eq!((counts.opened, counts.reset, counts.expired), (3, 2, 3));
    }
}
