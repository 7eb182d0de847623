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
    let timeline = hub.timeline();
    let due_ns = next.map(|tick| timeline.scale().ns_of(tick));
    let (now_ns, by_hand) = (timeline.now_ns(), timeline.as_manual().is_some());
    let wake_up = match strategy {
        WaitStrategy::Spin => {
            std::hint::spin_loop();
            return false;
        }
        WaitStrategy::Hybrid { spin } => due_ns.map(|due| due.saturating_sub(ns_in(spin))),
        WaitStrategy::Park => due_ns,
    };
    if wake_up.is_some_and(|at| at <= now_ns) {
        std::hint::spin_loop();
        return false;
    }
    if !hub.mailbox(shard.index()).fall_asleep(next) {
        return false;
    }
    // Time that is moved by hand does not pass while the worker sleeps: whoever moves it wakes the worker.
    let timeout = wake_up.filter(|_| !by_hand).map(|at| Duration::from_nanos(at - now_ns));
    park_for(timeout);
    true
}

fn ns_in(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
