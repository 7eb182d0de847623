//! What is pending now, one by one, for debugging.

use std::time::Instant;

use super::Timer;
use crate::entry::{Entry, Home, Kind, Snapshot};
use crate::shard::Remote;

/// A timeout that was pending when [`Timer::pending_timeouts`] looked at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PendingTimeout {
    /// When it is due. For a periodic timeout this is the next run, or the run that is under way.
    pub deadline: Instant,
    /// The number of the shard that it was scheduled on.
    pub shard: usize,
    /// What it is.
    pub kind: TimeoutKind,
}

/// What kind of timeout is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeoutKind {
    /// Its task runs once. An armed [`Reusable`](crate::Reusable) is one, too.
    Once,
    /// Its task runs again and again.
    Periodic,
    /// A future sleeps: a [`Sleep`](crate::Sleep), the limit of a
    /// [`TimeoutFuture`](crate::TimeoutFuture), or a limit of an adapter, such as `hyper::Limits`.
    Future,
}

impl From<Kind> for TimeoutKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Once => Self::Once,
            Kind::Series => Self::Periodic,
            Kind::Sleeper => Self::Future,
        }
    }
}

impl Timer {
    /// Returns all pending timeouts, the earliest first, for debugging: what keeps this server from
    /// ending, and is that deadline what it should be?
    ///
    /// The timeouts are read one after the other while the engine goes on. One that another thread
    /// schedules, moves, cancels or runs meanwhile may be missing, or have its earlier deadline. If
    /// nothing happens meanwhile the answer is exact, and [`pending`](Self::pending) is its length.
    /// The call asks no worker, so it also works if one is stuck.
    ///
    /// The call looks at all memory for timeouts, in use or not. It allocates, and costs the
    /// producers and the workers nothing. In a forked child it returns none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{Timer, TimeoutKind};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let idle = timer.schedule(Duration::from_secs(60), || println!("idle"))?;
    /// let limit = timer.schedule(Duration::from_secs(5), || println!("too late"))?;
    /// let pending = timer.pending_timeouts();
    /// assert_eq!(pending[0].deadline, limit.deadline());
    /// assert_eq!(pending[1].kind, TimeoutKind::Once);
    /// for timeout in pending {
    ///     println!("{:?} on shard {}: {:?}", timeout.kind, timeout.shard, timeout.deadline);
    /// }
    /// # drop(idle);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn pending_timeouts(&self) -> Vec<PendingTimeout> {
        let shared = &self.engine.shared;
        if shared.is_forked() {
            return Vec::new();
        }
        let mut seen: Vec<_> = shared.arena.entries().filter_map(Entry::seen_pending).collect();
        seen.sort_unstable_by_key(|(_, word)| word.deadline());
        let pending = |(home, word): (Home<'_>, Snapshot)| PendingTimeout {
            deadline: shared.timeline().instant_of(word.deadline()),
            shard: Remote::at(home).index(),
            kind: word.kind().into(),
        };
        seen.into_iter().map(pending).collect()
    }
}
