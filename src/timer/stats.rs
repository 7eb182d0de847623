//! A snapshot of an engine's counters.

use super::engine::{Engine, Runner};
use crate::count::{Counts, Lateness};
use crate::sync::Ordering;
use crate::wheel::LevelView;

/// Counters of one engine since its start, as of one moment. Taking it costs the producers nothing: each of their counters
/// is written by one thread, without a read-modify-write, and summed here.
///
/// As the counters are read one after the other while the engine runs, they may differ by what happened meanwhile. On an
/// engine at rest the books balance: `scheduled + repeated == fired + cancelled + returned + pending`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timeouts that were accepted; a series counts as one.
    pub scheduled: u64,
    /// Timeouts that were given to the executor, futures that were woken, and runs of series.
    pub fired: u64,
    /// Runs of series that did not end it: `fired - repeated` timeouts have fired for good.
    pub repeated: u64,
    /// Timeouts whose `cancel` returned true, those that a group has cancelled, and futures that were dropped, or found ready what they
    /// gave time to, while they were pending.
    pub cancelled: u64,
    /// Timeouts that a shutdown handed back, or, if the last timer was dropped, that were dropped with it. (And series that
    /// waited in an executor of the user's own, were put off by a reset there, and were brought when the shutdown was over.)
    pub returned: u64,
    /// Timeouts that were not accepted: too many pending, no memory, or shut down. (A zero period, or a forked child, counts for nothing.
    /// A future that asks again and again counts each time.)
    pub rejected: u64,
    /// Calls that have waited for a worker to give memory back: see [`Builder::max_wait`](crate::Builder::max_wait).
    pub waits: u64,
    /// Tasks that panicked: in a run, or when [`Group::cancel_all`](crate::Group::cancel_all) dropped them. (And wakers, and
    /// calls of `on_tick`, `on_worker_start` and `on_earlier`.)
    pub panicked: u64,
    /// Timeouts whose executor dropped the batch, or panicked. They were run all the same, by whoever had the batch: the
    /// worker, as a schedule. They are counted in `fired`, too.
    pub executor_refused: u64,
    /// Resets that returned true.
    pub reset: u64,
    /// Timeouts that the worker linked again because their deadline had been moved.
    pub relinked: u64,
    /// Timeouts that were moved from a level of the wheel to a lower one.
    pub cascaded: u64,
    /// Entries that the workers took out of their inboxes, those included that had been cancelled by then.
    pub transferred: u64,
    /// Times a worker returned from a park.
    pub wakeups: u64,
    /// Turns of all shards.
    pub turns: u64,
    /// Turns that left something over for the next, because a limit was reached.
    pub turns_over_budget: u64,
    /// Turns that panicked, after which the worker went on.
    pub restarts: u64,
    /// Scheduled, and neither fired for good, cancelled nor returned.
    pub pending: usize,
    /// Entries in the shards' inboxes, and of those that the workers have taken out and are going through; cancelled ones
    /// included. For each shard at most 65,535 of either are counted.
    pub inbox_depth: usize,
    /// The memory that is reserved for timeouts, in timeouts (of 64 bytes).
    pub capacity: usize,
    /// How late tasks began to run.
    pub lateness: Lateness,
    /// The same for each shard.
    pub shards: Vec<ShardStats>,
}

/// Counters of one shard. All as in [`Stats`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is explained in Stats")]
pub struct ShardStats {
    pub scheduled: u64,
    pub fired: u64,
    pub repeated: u64,
    pub cancelled: u64,
    pub returned: u64,
    pub rejected: u64,
    pub waits: u64,
    pub reset: u64,
    pub relinked: u64,
    pub cascaded: u64,
    pub transferred: u64,
    pub wakeups: u64,
    pub turns: u64,
    pub turns_over_budget: u64,
    pub restarts: u64,
    pub pending: usize,
    pub inbox_depth: usize,
    pub lateness: Lateness,
    /// Entries in the wheel as of the last turn, cancelled ones included that have not been collected yet.
    pub linked: u64,
    /// The core that the worker is pinned to; none if it is not, or not any more, or has not been started. See
    /// [`Pinning::Auto`](crate::Pinning::Auto) for when a worker gives its core up.
    pub pinned_to: Option<usize>,
    /// The levels of its wheel, the finest first.
    pub levels: Vec<LevelStats>,
}

/// Which slots of one level of a shard's wheel hold anything, as of this moment.
///
/// The slots are a ring: the timeouts of tick `t` lie in slot `t / ticks_per_slot % slots` of some level. So the slot that comes up now is
/// that of [`Timer::current_tick`](crate::Timer::current_tick). A level has twice as many slots as
/// [`Builder::ticks_per_wheel`](crate::Builder::ticks_per_wheel), unless it is the only one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelStats {
    /// How many ticks wide a slot is.
    pub ticks_per_slot: u64,
    /// How many slots there are.
    pub slots: usize,
    /// A bit for each slot, 64 in a word: bit `i` of word `w` is slot `64 * w + i`.
    pub occupied: Vec<u64>,
}

impl LevelStats {
    fn of(level: &LevelView) -> Self {
        Self { ticks_per_slot: level.ticks_per_slot(), slots: level.slots(), occupied: level.occupied() }
    }

    /// The numbers of the occupied slots, in order.
    pub fn occupied_slots(&self) -> impl Iterator<Item = usize> {
        (0..self.slots).filter(|slot| self.occupied[slot / 64] >> (slot % 64) & 1 == 1)
    }
}

impl Stats {
    pub(super) fn of(engine: &Engine) -> Self {
        let shared = &engine.shared;
        let shards: Vec<_> = (0..shared.remotes().len()).map(|index| ShardStats::of(engine, index)).collect();
        let sum = |of: fn(&ShardStats) -> u64| shards.iter().map(of).sum::<u64>();
        let mut lateness = Lateness::default();
        shards.iter().for_each(|shard| lateness.add(&shard.lateness));
        Self {
            scheduled: sum(|shard| shard.scheduled),
            fired: sum(|shard| shard.fired),
            repeated: sum(|shard| shard.repeated),
            cancelled: sum(|shard| shard.cancelled),
            returned: sum(|shard| shard.returned),
            rejected: sum(|shard| shard.rejected),
            waits: sum(|shard| shard.waits),
            panicked: shared.panicked.load(Ordering::Relaxed),
            executor_refused: shared.refused.load(Ordering::Relaxed),
            reset: sum(|shard| shard.reset),
            relinked: sum(|shard| shard.relinked),
            cascaded: sum(|shard| shard.cascaded),
            transferred: sum(|shard| shard.transferred),
            wakeups: sum(|shard| shard.wakeups),
            turns: sum(|shard| shard.turns),
            turns_over_budget: sum(|shard| shard.turns_over_budget),
            restarts: sum(|shard| shard.restarts),
            pending: shards.iter().map(|shard| shard.pending).sum(),
            inbox_depth: shards.iter().map(|shard| shard.inbox_depth).sum(),
            capacity: shared.arena.capacity(),
            lateness,
            shards,
        }
    }
}

impl ShardStats {
    fn of(engine: &Engine, index: usize) -> Self {
        let shared = &engine.shared;
        let remote = shared.remote(index);
        let counters = &remote.counters;
        // What ends is read before what begins, as in `Shared::pending`.
        let sum = |count: fn(&Counts) -> u64| shared.sum(Some(index), count);
        let once = counters.fired.get();
        let returned = counters.returned.get() + sum(|counts| counts.returned.get());
        let (finished, cancelled) = (sum(|counts| counts.finished.get()), sum(|counts| counts.cancelled.get()));
        let (runs, scheduled) = (sum(|counts| counts.runs.get()), sum(|counts| counts.scheduled.get()));
        let pending = scheduled.saturating_sub(once + returned + cancelled + finished);
        Self {
            scheduled,
            fired: once + runs,
            // Read one after the other: a run may have ended in between.
            repeated: runs.saturating_sub(finished),
            cancelled,
            returned,
            rejected: sum(|counts| counts.rejected.get()),
            waits: sum(|counts| counts.waits.get()),
            reset: sum(|counts| counts.reset.get()),
            relinked: counters.relinked.get(),
            cascaded: counters.cascaded.get(),
            transferred: counters.transferred.get(),
            wakeups: counters.wakeups.get(),
            turns: counters.turns.get(),
            turns_over_budget: counters.over_budget.get(),
            restarts: counters.restarts.get(),
            pending: usize::try_from(pending).unwrap_or(usize::MAX),
            inbox_depth: remote.inbox_depth(),
            lateness: remote.lateness.snapshot(),
            linked: counters.linked.get(),
            pinned_to: match &engine.runner {
                Runner::Workers(workers) => workers.pinned_to(index),
                Runner::Driver(_) => None,
            },
            levels: engine.wheels[index].iter().map(LevelStats::of).collect(),
        }
    }
}
