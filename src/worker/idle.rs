//! How a worker waits.

use std::time::Duration;

use crate::shard::{HubRef, Shard};
use crate::sync::park_for;

/// How a worker waits for the next deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// Sleep until the next deadline, or until a producer brings an earlier one. No processor time while nothing is due;
    /// what the system takes to wake a thread (some 30 to 100 µs) is part of the lateness.
    #[default]
    Park,
    /// Sleep until `spin` before the next deadline, and spin from there.
    Hybrid {
        /// How long before a deadline to wake up.
        spin: Duration,
    },
    /// Never sleep: a whole core for each worker, for the least lateness.
    Spin,
}

/// Waits until there may be something to do. Returns whether the worker has slept.
pub(super) fn wait(strategy: WaitStrategy, hub: &HubRef, shard: &Shard) -> bool {
    let next = shard.next_due();
    let due = next.map(|tick| hub.scale().instant_of(tick));
    let (now, by_hand) = (hub.now(), hub.source().as_manual().is_some());
    let wake_up = match strategy {
        WaitStrategy::Spin => {
            std::hint::spin_loop();
            return false;
        }
        WaitStrategy::Hybrid { spin } => due.map(|due| due.checked_sub(spin).unwrap_or(due)),
        WaitStrategy::Park => due,
    };
    let timeout = wake_up.map(|at| at.saturating_duration_since(now));
    if timeout == Some(Duration::ZERO) {
        std::hint::spin_loop();
        return false;
    }
    if !hub.mailbox(shard.index()).fall_asleep(next) {
        return false;
    }
    // Time that is moved by hand does not pass while the worker sleeps: whoever moves it wakes the worker.
    park_for(timeout.filter(|_| !by_hand));
    true
}
