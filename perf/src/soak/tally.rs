//! Counts of what was done, for the closing table.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name { $($variant),+ }

        impl $name {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub(crate) fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

counters! {
    /// What producers, tasks and helpers did.
    Op {
        Schedule = "schedule",
        At = "schedule_at",
        Detached = "schedule_detached",
        Many = "schedule_many (timeouts)",
        Between = "schedule_between",
        Rate = "schedule_at_fixed_rate (skip, burst, delay)",
        Delay = "schedule_with_fixed_delay",
        Repeating = "schedule_repeating",
        OnShard = "  of all these: on shard_for a key",
        InGroup = "  of all these: in a group",
        InTask = "  of all these: by a task",
        Full = "refused: too many pending",
        NoMemory = "refused: no memory",
        Closed = "refused: shut down",
        ResetLater = "reset to later",
        ResetEarlier = "reset to earlier",
        ResetAt = "reset_at",
        ResetTook = "  of the resets: returned true",
        Cancel = "cancel",
        CancelTook = "  of the cancels: returned true",
        Guard = "guards dropped",
        CancelAll = "cancel_all, and groups dropped that cancel",
        Detach = "handles dropped",
        Sent = "handles sent to another producer",
        Contested = "handles that two producers cancel at once",
        LateDrop = "handles dropped by a dying thread's locals",
        SelfCancel = "series that cancel themselves",
        Pause = "pauses",
        Churned = "scheduled and, when very many were live, cancelled",
    }
}

counters! {
    /// What went wrong on purpose.
    Injected {
        Panic = "tasks that panicked",
        Slow = "tasks that were slow",
        Held = "workers held for 100 ms",
        Day = "jumps of the clock by a day",
        Refused = "batches refused by an executor",
        ExecutorPanic = "executors that panicked",
        HandedOver = "batches handed to other threads",
        Thread = "producers that died and were replaced",
        Full = "times that the limit was reached",
        NoMemory = "times that an arena was refused memory",
    }
}

counters! {
    /// How engines were stopped.
    Stop {
        Cancel = "shutdown: cancel",
        FireNow = "shutdown: fire now",
        Drain = "shutdown: drain",
        Race = "shutdown by two threads at once",
        Dropped = "dropped without a shutdown",
        Driven = "driven, shut down",
        DriverDropped = "driven, driver dropped",
    }
}

counters! {
    /// How timeouts ended.
    Ended {
        Fired = "fired",
        Runs = "  runs of series that did not end it",
        Cancelled = "cancelled",
        Returned = "returned by a shutdown",
        Discarded = "dropped with an engine",
        Refused = "refused, and given back",
    }
}

/// One counter for each kind of everything.
#[derive(Debug)]
pub(crate) struct Tally {
    ops: [AtomicU64; Op::ALL.len()],
    injected: [AtomicU64; Injected::ALL.len()],
    stops: [AtomicU64; Stop::ALL.len()],
    ended: [AtomicU64; Ended::ALL.len()],
    pub(crate) engines: AtomicU64,
    /// The greatest lateness of a short-lived engine.
    latest: AtomicU64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            ops: [const { AtomicU64::new(0) }; Op::ALL.len()],
            injected: [const { AtomicU64::new(0) }; Injected::ALL.len()],
            stops: [const { AtomicU64::new(0) }; Stop::ALL.len()],
            ended: [const { AtomicU64::new(0) }; Ended::ALL.len()],
            engines: AtomicU64::new(0),
            latest: AtomicU64::new(0),
        }
    }
}

impl Tally {
    pub(crate) fn did(&self, op: Op) {
        self.did_many(op, 1);
    }

    pub(crate) fn did_many(&self, op: Op, count: u64) {
        self.ops[op as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn op(&self, op: Op) -> u64 {
        self.ops[op as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn inject(&self, what: Injected) {
        self.injected[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn injected(&self, what: Injected) -> u64 {
        self.injected[what as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self, how: Stop) {
        self.stops[how as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stopped(&self, how: Stop) -> u64 {
        self.stops[how as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self, how: Ended, count: u64) {
        self.ended[how as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, how: Ended) -> u64 {
        self.ended[how as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn late(&self, ns: u64) {
        self.latest.fetch_max(ns, Ordering::Relaxed);
    }

    pub(crate) fn latest(&self) -> u64 {
        self.latest.load(Ordering::Relaxed)
    }
}
