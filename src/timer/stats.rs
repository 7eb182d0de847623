//! A snapshot of an engine's counters.

use super::Timer;
#[cfg(feature = "metrics")]
use super::{engine::Engine, health::Health};
use crate::count::{Counts, Lateness};
use crate::engine::Shared;
use crate::shard::Remote;
use crate::sync::Ordering;

/// A snapshot of the counters of one engine since its start.
///
/// A snapshot costs the producers nothing. One thread writes each of their counters, without a
/// read-modify-write, and the snapshot sums them.
///
/// The counters are read one after the other while the engine runs, so they may differ by what
/// happened meanwhile. On an engine at rest they reconcile: `scheduled + repeated == fired +
/// cancelled + returned + pending`.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let timeout = timer.schedule(Duration::from_secs(5), || ())?;
/// let before = timer.stats();
/// assert!(timeout.reset(Duration::from_secs(10)) && timeout.cancel());
/// let after = timer.stats();
/// assert_eq!((after.reset - before.reset, after.cancelled - before.cancelled), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timeouts that were accepted. A periodic timeout counts as one.
    pub scheduled: u64,
    /// Timeouts whose task has begun, futures whose time came, and runs of periodic timeouts.
    /// Timeouts that a shutdown fires count as soon as the executor has them.
    pub fired: u64,
    /// Of those that have [`fired`](Self::fired): tasks that have returned or panicked, and futures
    /// that were woken. A thread counts them when it has run its batch. This is never more than
    /// `fired`. On an engine at rest both are equal. Otherwise `fired - completed` are running, or
    /// in a batch that has not been run to its end.
    pub completed: u64,
    /// Runs of periodic timeouts that were not their last. So `fired - repeated` timeouts have
    /// fired for good.
    pub repeated: u64,
    /// These count:
    ///
    /// * timeouts whose `cancel` or `cancel_owned` returned true, or whose guard was dropped in
    ///   time;
    /// * futures that were dropped while they were pending;
    /// * limits whose inner future was ready while they were pending;
    /// * for a moment, a cancel that is under way, even if it comes too late.
    pub cancelled: u64,
    /// Timeouts that a shutdown handed back, futures that it ended, which are not in its answer,
    /// and timeouts that were dropped unrun after the last timer or the driver had gone. A periodic
    /// timeout also counts here if a reset put it off while it waited in a user's executor, and
    /// that executor ran its batch after the shutdown was over.
    pub returned: u64,
    /// Timeouts that were refused because too many were pending, there was no memory, or the engine
    /// was shut down. A zero period and a forked child are not counted. A future that tries again
    /// is counted each time.
    pub rejected: u64,
    /// Calls that have waited for a worker to give memory back: see
    /// [`Builder::max_wait`](crate::Builder::max_wait).
    pub waits: u64,
    /// Panics of user code: of tasks in a run, of wakers, and of the callbacks `on_turn`,
    /// `on_worker_start` and `on_earlier`.
    pub panicked: u64,
    /// Timeouts and futures whose executor dropped the batch, or panicked. They ran, or were woken,
    /// all the same, on the thread that held the batch, which usually is the worker. They are
    /// counted in `fired`, too, but for those that were cancelled by then, or ended by a shutdown.
    pub caller_ran: u64,
    /// Resets that returned true.
    pub reset: u64,
    /// Timeouts that the worker linked again, because a reset had moved their deadline, or because
    /// they had taken over the entry of another in its slot.
    pub relinked: u64,
    /// Timeouts that a cascade moved from a level of the wheel to a lower one.
    pub cascaded: u64,
    /// Entries that the workers took out of their inboxes, including entries that had been
    /// cancelled by then.
    pub transferred: u64,
    /// The number of times that a worker returned from a park.
    pub wakeups: u64,
    /// Turns of all shards.
    pub turns: u64,
    /// Turns that left work for the next turn, because they reached a limit.
    pub turns_over_budget: u64,
    /// Turns that panicked. The worker went on after each.
    pub panicked_turns: u64,
    /// Timeouts that were scheduled, and have neither fired for good nor been cancelled or
    /// returned.
    pub pending: usize,
    /// Entries in the shards' inboxes, and entries that the workers have taken out of them and not
    /// linked yet. Both include cancelled entries. Each part counts at most 65,535 a shard.
    pub inbox_depth: usize,
    /// The number of timeouts that there is memory for, at 64 bytes each: what was reserved, to the
    /// end of its last page, and what was taken since.
    pub capacity: usize,
    /// How late tasks began to run, since the engine's start. [`Lateness`] says how that is
    /// measured, and [`Lateness::since`] what came in an interval.
    pub lateness: Lateness,
    /// The counters of each shard, in the order of their numbers.
    pub shards: Vec<ShardStats>,
}

/// The counters of one shard. Each is as in [`Stats`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is explained in Stats")]
pub struct ShardStats {
    pub scheduled: u64,
    pub fired: u64,
    pub completed: u64,
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
    pub panicked_turns: u64,
    pub pending: usize,
    pub inbox_depth: usize,
    pub lateness: Lateness,
    /// Entries in the wheel as of the last turn, including cancelled entries that have not been
    /// collected yet.
    pub linked: u64,
    /// The core that the worker has been pinned to. `None` if the worker has not been started, is
    /// not to be pinned, or the system refused.
    pub pinned_to: Option<usize>,
}

impl Timer {
    /// Returns how many shards the engine has.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.owner.shared.remotes().len()
    }

    /// Returns how many ticks one wheel spans: the value that the builder got, rounded up to a
    /// power of two.
    #[must_use]
    pub fn ticks_per_wheel(&self) -> usize {
        self.owner.engine.ticks_per_wheel
    }

    /// Returns how many timeouts are pending: scheduled, and neither fired nor cancelled. A
    /// periodic timeout counts as one.
    ///
    /// Calls in progress on other threads may be missing, and timeouts that they are about to
    /// cancel too late. The call sums the counters of all threads; with
    /// [`Builder::max_pending_timeouts`](crate::Builder::max_pending_timeouts) it reads one. It
    /// does not allocate.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let timeout = timer.schedule(Duration::from_secs(5), || ())?;
    /// assert_eq!(timer.pending(), 1);
    /// timeout.cancel();
    /// assert_eq!(timer.pending(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn pending(&self) -> usize {
        self.owner.shared.pending()
    }

    /// Returns a snapshot of the counters. The call allocates. It costs the producers nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// timer.schedule(Duration::from_secs(5), || ())?.cancel();
    /// let stats = timer.stats();
    /// assert_eq!((stats.scheduled, stats.cancelled, stats.pending), (1, 1, 0));
    /// println!("99 % are at most {:?} late", stats.lateness.percentile(99.0));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(&self.owner.shared)
    }
}

/// Adds the figures of a shard to those of the engine that have the same names.
macro_rules! add_figures {
    ($stats:ident, $shard:ident: $($figure:ident),+) => { $($stats.$figure += $shard.$figure;)+ };
}

impl Stats {
    fn of(shared: &Shared) -> Self {
        let shards: Vec<_> = shared.remotes().iter().map(|remote| ShardStats::of(shared, remote)).collect();
        let mut stats = Self {
            panicked: shared.panicked.load(Ordering::Relaxed),
            caller_ran: shared.caller_ran.load(Ordering::Relaxed),
            capacity: shared.arena.capacity(),
            ..Self::default()
        };
        for shard in &shards {
            add_figures!(stats, shard: scheduled, fired, completed, repeated, cancelled, returned, rejected, waits);
            add_figures!(stats, shard: reset, relinked, cascaded, transferred, wakeups, turns, turns_over_budget);
            add_figures!(stats, shard: panicked_turns, pending, inbox_depth);
            stats.lateness.add(&shard.lateness);
        }
        Self { shards, ..stats }
    }
}

impl ShardStats {
    fn of(shared: &Shared, remote: &Remote) -> Self {
        let counters = &remote.counters;
        // Read the counters of ends before those of begins, as in `Shared::pending`. A task that
        // has completed has fired before.
        let sum = |count: fn(&Counts) -> u64| shared.sum(Some(remote.index()), count);
        let completed = sum(|counts| counts.completed.get());
        let once = counters.fired.get() + sum(|counts| counts.fired.get());
        let returned = counters.returned.get() + sum(|counts| counts.returned.get());
        let (finished, cancelled) = (sum(|counts| counts.finished.get()), sum(|counts| counts.cancelled.get()));
        let (runs, scheduled) = (sum(|counts| counts.runs.get()), sum(|counts| counts.scheduled.get()));
        let pending = scheduled.saturating_sub(once + returned + cancelled + finished);
        Self {
            scheduled,
            fired: once + runs,
            completed,
            // The two are read one after the other, so a run may have ended in between.
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
            panicked_turns: counters.panicked_turns.get(),
            pending: usize::try_from(pending).unwrap_or(usize::MAX),
            inbox_depth: remote.inbox_depth(),
            lateness: remote.lateness.snapshot(),
            linked: counters.linked.get(),
            pinned_to: counters.pinned_to.get().checked_sub(1).and_then(|core| usize::try_from(core).ok()),
        }
    }
}

/// For a task of the engine that reads the engine's counters, and must not keep the engine from
/// ending. If the engine ends while a thread reads, that thread ends the engine. That does not wait
/// for any thread, so a task may do it.
#[cfg(feature = "metrics")]
#[derive(Debug)]
pub(crate) struct WeakTimer(std::sync::Weak<Engine>);

#[cfg(feature = "metrics")]
impl WeakTimer {
    pub(crate) fn of(timer: &Timer) -> Self {
        Self(std::sync::Arc::downgrade(&timer.owner.engine))
    }

    /// Returns the time by the engine's clock, its counters and its health. `None` if the last
    /// timer and the last future have gone.
    pub(crate) fn look(&self) -> Option<(std::time::Instant, (Stats, Health))> {
        let engine = self.0.upgrade()?;
        Some((engine.shared.timeline().now(), (Stats::of(&engine.shared), Health::of(&engine))))
    }
}
