//! How a worker waits for its next turn.

use std::time::Duration;

use crate::engine::{Core, SharedRef};
use crate::sync::park_for;
use crate::time::saturating_ns;

/// How a worker waits for the next deadline.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{Timer, WaitStrategy};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Exact to some microseconds, for at most 100 us of processor time a wake-up.
/// let wait = WaitStrategy::Hybrid { spin: Duration::from_micros(100) };
/// let timer = Timer::builder().wait(wait).build()?;
/// # drop(timer);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// Sleep until the next deadline, or until a producer schedules an earlier one. Takes no
    /// processor time while nothing is due. The time that the system needs to wake a thread, some
    /// 30 to 100 µs, is part of the lateness.
    #[default]
    Park,
    /// Sleep until `spin` before the next deadline, and spin from then on.
    Hybrid {
        /// How long before a deadline to wake up.
        spin: Duration,
    },
    /// Never sleep. Takes a whole core for each worker, and gives the least lateness.
    Spin,
}

/// How often a worker that drains its shard checks whether all remaining timeouts have been
/// cancelled.
const DRAIN_LOOK: Duration = Duration::from_millis(10);

/// How often a worker looks whether there is memory for what has arrived.
const MEMORY_LOOK: Duration = Duration::from_millis(1);

/// Waits until there may be something to do, or for `at_most`. Returns whether the worker has
/// slept.
pub(super) fn wait(strategy: WaitStrategy, shared: &SharedRef, shard: &mut Core, at_most: Option<Duration>) -> bool {
    let drained = shared.remote(shard.index()).drains_until();
    let timeline = shared.timeline();
    // Those of one tick share a wake-up.
    let due = if strategy == WaitStrategy::Park { shard.last_due_of_tick(shared) } else { shard.next_due(shared) };
    let next = due.into_iter().chain(drained).min();
    let due_ns = next.map(|tick| timeline.scale().ns_of(tick));
    // Read before the time: if a pause ends in between, the thread that ends it wakes the worker.
    let stands_still = timeline.stands_still();
    let now_ns = timeline.now_ns();
    let wake_up = match strategy {
        WaitStrategy::Spin => {
            std::hint::spin_loop();
            return false;
        }
        // Spinning is of no use while time stands still.
        WaitStrategy::Hybrid { spin } if !stands_still => due_ns.map(|due| due.saturating_sub(saturating_ns(spin))),
        WaitStrategy::Hybrid { .. } | WaitStrategy::Park => due_ns,
    };
    if wake_up.is_some_and(|at| at <= now_ns) {
        if shard.waits_for_memory() {
            // Awake, as what waits is looked at again.
            park_for(Some(MEMORY_LOOK));
        }
        std::hint::spin_loop();
        return false;
    }
    if !shared.remote(shard.index()).fall_asleep(next) {
        return false;
    }
    // While a clock is stopped or moved by hand, time does not pass as the worker sleeps. The
    // thread that moves the clock or ends the pause wakes the worker.
    let timeout = wake_up.filter(|_| !stands_still).map(|at| Duration::from_nanos(at - now_ns));
    // A cancel does not wake the worker, but it may remove the last timeout that a drain waits for.
    let look = drained.map(|_| DRAIN_LOOK);
    park_for(timeout.into_iter().chain(look).chain(at_most).min());
    true
}
