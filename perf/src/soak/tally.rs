//! Counts of what was done, for the closing table.

use std::sync::atomic::{AtomicU64, Ordering};

use testkit::ledger::Ends;

macro_rules! counts {
    ($($section:literal: $($variant:ident = $text:literal),+;)+) => {
        /// The things that are counted: operations, faults that were injected, ways to stop an
        /// engine, ends of timeouts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Count { $($($variant,)+)+ }

        /// All counts, with their sections and their names.
        pub(crate) const COUNTS: &[(&str, Count, &str)] = &[$($(($section, Count::$variant, $text),)+)+];
    };
}

counts! {
    "operations":
        Schedule = "schedule",
        At = "schedule_at",
        Detached = "schedule_detached",
        Many = "schedule_many (timeouts)",
        Rate = "schedule_at_fixed_rate (skip, burst, delay)",
        Delay = "schedule_with_fixed_delay",
        Repeating = "schedule_repeating",
        ResetLater = "reset to later",
        ResetEarlier = "reset to earlier",
        ResetAt = "reset_at",
        Cancel = "cancel",
        Guard = "guards dropped",
        Detach = "handles dropped",
        Sent = "handles sent to another producer",
        Contested = "handles that two producers cancel at once",
        LateDrop = "handles dropped by a dying thread's locals",
        SelfCancel = "series that cancel themselves";
    "of them":
        OnShard = "scheduled on shard_for a key",
        InTask = "scheduled by a task",
        Full = "refused: too many pending",
        NoMemory = "refused: no memory",
        Closed = "refused: shut down",
        ResetTook = "resets that returned true",
        CancelTook = "cancels that returned true";
    "faults injected":
        Panic = "tasks that panicked",
        Slow = "tasks that were slow",
        Held = "workers held for 100 ms",
        Day = "jumps of the clock by a day",
        Refused = "batches refused by an executor",
        ExecutorPanic = "executors that panicked",
        HandedOver = "batches handed to other threads",
        Blocked = "threads of a runtime blocked",
        Waited = "tasks that waited for another of their engine",
        Fork = "children forked off",
        ForkStuck = "children in which std starts no thread",
        Thread = "producers that died and were replaced";
    "engines stopped":
        StopCancel = "shutdown: cancel",
        StopFireNow = "shutdown: fire now",
        StopDrain = "shutdown: drain",
        StopRace = "shutdown by two threads at once",
        StopDropped = "dropped without a shutdown",
        StopDriven = "driven, shut down",
        StopDriverDropped = "driven, driver dropped";
    "timeouts, by how they ended":
        Fired = "fired",
        Runs = "runs of series that did not end it",
        Cancelled = "cancelled",
        Returned = "returned by a shutdown",
        Discarded = "dropped with an engine",
        GivenBack = "refused, and given back";
}

/// One counter for each.
#[derive(Debug)]
pub(crate) struct Tally {
    counts: [AtomicU64; COUNTS.len()],
    pub(crate) engines: AtomicU64,
    /// The greatest lateness of a short-lived engine.
    pub(crate) latest: AtomicU64,
}

impl Default for Tally {
    fn default() -> Self {
        let counts = [const { AtomicU64::new(0) }; COUNTS.len()];
        Self { counts, engines: AtomicU64::new(0), latest: AtomicU64::new(0) }
    }
}

impl Tally {
    pub(crate) fn did(&self, what: Count) {
        self.did_many(what, 1);
    }

    pub(crate) fn did_many(&self, what: Count, count: u64) {
        self.counts[what as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn count(&self, what: Count) -> u64 {
        self.counts[what as usize].load(Ordering::Relaxed)
    }

    /// Returns how many operations were done.
    pub(crate) fn operations(&self) -> u64 {
        COUNTS.iter().filter(|(section, ..)| *section == "operations").map(|&(_, what, _)| self.count(what)).sum()
    }

    /// Adds how the timeouts of an engine ended.
    pub(crate) fn add(&self, ends: Ends) {
        self.did_many(Count::Fired, ends.fired);
        self.did_many(Count::Runs, ends.runs);
        self.did_many(Count::Cancelled, ends.cancelled);
        self.did_many(Count::Returned, ends.returned);
        self.did_many(Count::Discarded, ends.discarded);
        self.did_many(Count::GivenBack, ends.refused);
    }
}
