//! How a worker waits.

use std::time::Duration;

use crate::engine::{Core, SharedRef};
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

/// How often a worker that drains its shard looks whether all that was left has been cancelled.
const DRAIN_LOOK: Duration = Duration::from_millis(10);

/// A worker has slept.
pub(super) struct Slept {
    /// When it was to wake by itself, if ever.
    pub(super) until_ns: Option<u64>,
}

/// Waits until there may be something to do. None if the worker has not slept.
pub(super) fn wait(strategy: WaitStrategy, shared: &SharedRef, shard: &Core) -> Option<Slept> {
    let drained = shared.remote(shard.index()).drains_until();
    let next = shard.next_due().into_iter().chain(drained).min();
    let timeline = shared.timeline();
    let due_ns = next.map(|tick| timeline.scale().ns_of(tick));
    // In this order: a pause that ends in between calls the worker.
    let stands_still = timeline.stands_still();
    let now_ns = timeline.now_ns();
    let wake_up = match strategy {
        WaitStrategy::Spin => {
            std::hint::spin_loop();
            return None;
        }
        // Time that stands still is nothing to spin for.
        WaitStrategy::Hybrid { spin } if !stands_still => due_ns.map(|due| due.saturating_sub(ns_in(spin))),
        WaitStrategy::Hybrid { .. } | WaitStrategy::Park => due_ns,
    };
    if wake_up.is_some_and(|at| at <= now_ns) {
        std::hint::spin_loop();
        return None;
    }
    if !shared.remote(shard.index()).fall_asleep(next) {
        return None;
    }
    // Time that is moved by hand, or paused, does not pass while the worker sleeps: whoever lets it go on wakes the worker.
    let until_ns = wake_up.filter(|_| !stands_still);
    let timeout = until_ns.map(|at| Duration::from_nanos(at - now_ns));
    // A cancel wakes nobody, but it may have been the last thing that a drain waits for.
    let at_most = drained.map(|_| DRAIN_LOOK);
    park_for(timeout.into_iter().chain(at_most).min());
    Some(Slept { until_ns })
}

fn ns_in(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
