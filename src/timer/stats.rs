//! A snapshot of an engine's counters.

use super::engine::{Engine, Turner};
use crate::sync::Ordering;

/// Counters of one engine since its start, as of one moment. Taking it costs the producers nothing: each of their counters
/// is written by one thread, without a read-modify-write, and summed here.
///
/// As the counters are read one after the other while the engine runs, they may differ by what happened meanwhile. On an
/// engine at rest the books balance: `scheduled == fired + cancelled + returned + pending`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timeouts that were accepted.
    pub scheduled: u64,
    /// Timeouts that were given to the executor.
    pub fired: u64,
    /// Timeouts whose `cancel` returned true.
    pub cancelled: u64,
    /// Timeouts that a shutdown handed back, or, if the last timer was dropped, that were dropped with it.
    pub returned: u64,
    /// Timeouts that were refused: too many pending, or shut down.
    pub rejected: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// Resets that returned true.
    pub reset: u64,
    /// Timeouts that the worker linked again because their deadline had been moved.
    pub relinked: u64,
    /// Timeouts that were moved from a level of the wheel to a lower one.
    pub cascaded: u64,
    /// Times a worker returned from a park.
    pub wakeups: u64,
    /// Turns of all shards.
    pub turns: u64,
    /// Turns that left something over for the next, because a limit was reached.
    pub turns_over_budget: u64,
    /// Scheduled, and neither fired, cancelled nor returned.
    pub pending: usize,
    /// Entries in the shards' inboxes, and of those that the workers have taken out and are going through; cancelled ones
    /// included. For each shard at most 65,535 of either are counted.
    pub inbox_depth: usize,
    /// The memory that is reserved for timeouts, in timeouts (of 64 bytes).
    pub capacity: usize,
    /// The same for each shard, as far as it is counted there.
    pub shards: Vec<ShardStats>,
}

/// Counters of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStats {
    /// Entries that the worker took out of its inbox, those included that had been cancelled by then.
    pub transferred: u64,
    /// As in [`Stats`].
    pub fired: u64,
    /// As in [`Stats`].
    pub returned: u64,
    /// As in [`Stats`].
    pub relinked: u64,
    /// As in [`Stats`].
    pub cascaded: u64,
    /// As in [`Stats`].
    pub wakeups: u64,
    /// As in [`Stats`].
    pub turns: u64,
    /// As in [`Stats`].
    pub turns_over_budget: u64,
    /// As in [`Stats`].
    pub inbox_depth: usize,
    /// Entries in the wheel as of the last turn, cancelled ones included that have not been collected yet.
    pub linked: u64,
    /// The core that the worker is pinned to; none if it is not, or has not been started.
    pub pinned_to: Option<usize>,
}

impl Stats {
    pub(super) fn of(engine: &Engine) -> Self {
        let hub = &engine.hub;
        // Before the counters of what was scheduled, see `Hub::pending`.
        let shards: Vec<_> = (0..hub.mailboxes().len()).map(|index| ShardStats::of(engine, index)).collect();
        let sum = |of: fn(&ShardStats) -> u64| shards.iter().map(of).sum::<u64>();
        Self {
            fired: sum(|shard| shard.fired),
            returned: sum(|shard| shard.returned),
            cancelled: hub.sum(|producer| producer.cancelled.get()),
            pending: hub.pending(),
            scheduled: hub.sum(|producer| producer.scheduled.get()),
            rejected: hub.sum(|producer| producer.rejected.get()),
            panicked: hub.panicked.load(Ordering::Relaxed),
            reset: hub.sum(|producer| producer.reset.get()),
            relinked: sum(|shard| shard.relinked),
            cascaded: sum(|shard| shard.cascaded),
            wakeups: sum(|shard| shard.wakeups),
            turns: sum(|shard| shard.turns),
            turns_over_budget: sum(|shard| shard.turns_over_budget),
            inbox_depth: shards.iter().map(|shard| shard.inbox_depth).sum(),
            capacity: hub.arena.capacity(),
            shards,
        }
    }
}

impl ShardStats {
    fn of(engine: &Engine, index: usize) -> Self {
        let mailbox = engine.hub.mailbox(index);
        let counters = &mailbox.counters;
        Self {
            transferred: counters.transferred.get(),
            fired: counters.fired.get(),
            returned: counters.returned.get(),
            relinked: counters.relinked.get(),
            cascaded: counters.cascaded.get(),
            wakeups: counters.wakeups.get(),
            turns: counters.turns.get(),
            turns_over_budget: counters.over_budget.get(),
            inbox_depth: mailbox.inbox_depth(),
            linked: counters.linked.get(),
            pinned_to: match &engine.turner {
                Turner::Workers(workers) => workers.pinned_to(index),
                Turner::Driver(_) => None,
            },
        }
    }
}
