//! What the watchdog looks at: which batch a thread is running, and since when; when a shard was turned last.

// Not through `sync`: observations, which no protocol depends on, and which models would only be slowed down by.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The clock is read for every so many tasks of a batch.
pub(crate) const TASKS_A_LOOK: usize = 64;

/// Written by the thread that runs the batch, read by anybody.
#[derive(Debug, Default)]
pub(crate) struct Running {
    /// When the task that is running began, or one of the 63 before it in its batch: nanoseconds of the engine's time,
    /// plus one. 0 if none is running.
    since: AtomicU64,
    shard: AtomicU64,
}

impl Running {
    pub(crate) fn begin(&self, shard: usize) {
        self.shard.store(shard as u64, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn look(&self, now_ns: u64) {
        // Release: pairs with the Acquire in `get`, for the shard.
        self.since.store(now_ns.saturating_add(1), Ordering::Release);
    }

    /// What it was doing before, so that it can be restored: a task may run a batch.
    pub(crate) fn before(&self) -> (u64, u64) {
        (self.since.load(Ordering::Relaxed), self.shard.load(Ordering::Relaxed))
    }

    pub(crate) fn restore(&self, (since, shard): (u64, u64)) {
        self.shard.store(shard, Ordering::Relaxed);
        self.since.store(since, Ordering::Release);
    }

    /// The shard whose task is running, and since when.
    pub(crate) fn get(&self) -> Option<(usize, u64)> {
        let since = self.since.load(Ordering::Acquire).checked_sub(1)?;
        Some((usize::try_from(self.shard.load(Ordering::Relaxed)).ok()?, since))
    }
}

/// When a shard's last turn began, and when the next one has to. Written by its owner. In nanoseconds of the engine's time.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    /// Plus one; 0 if it was never turned.
    last: AtomicU64,
    next: AtomicU64,
}

impl Heartbeat {
    pub(crate) fn beat(&self, now_ns: u64) {
        self.last.store(now_ns.saturating_add(1), Ordering::Relaxed);
    }

    /// None if it was never turned.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last.load(Ordering::Relaxed).checked_sub(1)
    }

    /// By a driver, after a turn: workers say it with their sleep.
    pub(crate) fn rest_until(&self, ns: u64) {
        self.next.store(ns, Ordering::Relaxed);
    }

    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}

/// A series has been armed for a tick that has come already: whoever turns the shards by hand turns them once more.
#[derive(Debug, Default)]
pub(crate) struct Overdue(AtomicBool);

impl Overdue {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Only for a driver: all that it asks for was done by itself.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// What keeps a shard from being turned.
#[derive(Debug, Default)]
pub(crate) struct Ailment(AtomicU64);

impl Ailment {
    const CANNOT_START: u64 = u64::MAX;
    const CLOSED: u64 = u64::MAX - 1;

    /// So many turns have panicked since the last that did not.
    pub(crate) fn set_panics(&self, turns: u64) {
        self.0.store(turns, Ordering::Relaxed);
    }

    pub(crate) fn set_cannot_start(&self) {
        self.0.store(Self::CANNOT_START, Ordering::Relaxed);
    }

    pub(crate) fn cannot_start(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::CANNOT_START
    }

    /// The shard has been closed: it will not be turned any more, and that is as it should be.
    pub(crate) fn set_closed(&self) {
        self.0.store(Self::CLOSED, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::CLOSED
    }

    pub(crate) fn is_panicking(&self) -> bool {
        !matches!(self.0.load(Ordering::Relaxed), 0 | Self::CANNOT_START | Self::CLOSED)
    }
}
