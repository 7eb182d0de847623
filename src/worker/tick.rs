//! What a turn is told about.

use std::time::Duration;

use crate::engine::{Core, SharedRef, Turn};
use crate::time;

/// A turn of one shard, for [`Builder::on_tick`](crate::Builder::on_tick). (After the `WheelTick` event of the C# wheels.)
#[derive(Clone, Debug)]
pub struct Tick {
    shard: usize,
    number: u64,
    expired: usize,
    linked: usize,
    took: Duration,
}

impl Tick {
    /// The shard that was turned.
    #[must_use]
    pub fn shard(&self) -> usize {
        self.shard
    }

    /// The tick that it was turned to: all that was due by then, and within the limits of a turn, has expired. Ticks in which
    /// there was nothing to do have been skipped.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many timeouts expired in it.
    #[must_use]
    pub fn expired(&self) -> usize {
        self.expired
    }

    /// How many are in the shard's wheel after it, those included that have been cancelled and not been collected yet.
    #[must_use]
    pub fn linked(&self) -> usize {
        self.linked
    }

    /// How long the turn took, by the engine's clock: with [`Inline`](crate::Inline), or a driver, with all tasks in it.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took
    }
}

/// What was before a turn that is to be told about.
pub(crate) struct Stopwatch {
    before: time::Tick,
    now: time::Tick,
    began_ns: u64,
}

impl Stopwatch {
    pub(crate) fn start(shard: &Core, now: time::Tick, began_ns: u64) -> Self {
        Self { before: shard.turned_to(), now, began_ns }
    }

    /// None if neither time went on nor anything expired.
    pub(crate) fn stop(self, shared: &SharedRef, shard: &Core, turn: Turn) -> Option<Tick> {
        if shard.turned_to() == self.before && turn.fired == 0 {
            return None;
        }
        // A clock that panics must not come between a turn and those whom it has still to wake.
        let now_ns = shared.timeline().try_now_ns().unwrap_or(self.began_ns);
        Some(Tick {
            shard: shard.index(),
            number: self.now.max(self.before).get(),
            expired: turn.fired,
            linked: shard.linked(),
            took: Duration::from_nanos(now_ns.saturating_sub(self.began_ns)),
        })
    }
}
