//! Expired entries on their way to an executor: an intrusive list, so handing them over allocates
//! nothing.

use std::ptr::NonNull;

use super::chain::Chain;
use super::lifetime::SharedRef;
use super::periodic::PeriodicRun;
use crate::entry::{Entry, Task, entry_ref};
use crate::time::Tick;

/// How many entries go to the executor at a time. With so many its queue costs little per timeout,
/// and with so few two threads can share a burst of some thousands.
pub(crate) const MAX_BATCH: usize = 256;

/// Up to [`MAX_BATCH`] expired entries, in the order in which they expired. The batch holds the
/// engine's ownership of them.
#[derive(Debug)]
pub(crate) struct Batch {
    entries: Entries,
    shared: SharedRef,
    shard: usize,
    /// Whether its entries are those of sleeping futures: all of them, or none.
    sleepers: bool,
}

/// The list itself.
#[derive(Debug)]
pub(crate) struct Entries {
    chain: Chain,
    /// How many of them are periodic timeouts; the others run once.
    series: usize,
}

/// An entry that is to be run. It holds the engine's ownership of the entry.
pub(crate) struct Due(NonNull<Entry>);

// SAFETY: expired entries belong to the thread that holds the batch, and their tasks are `Send`.
unsafe impl Send for Batch {}

impl Batch {
    pub(super) fn new(shared: SharedRef, shard: usize) -> Self {
        Self { entries: Entries { chain: Chain::new(), series: 0 }, shared, shard, sleepers: false }
    }

    /// Makes a batch for entries of sleeping futures, of any length.
    pub(super) fn of_sleepers(shared: SharedRef, shard: usize) -> Self {
        Self { sleepers: true, ..Self::new(shared, shard) }
    }

    pub(crate) fn is_of_sleepers(&self) -> bool {
        self.sleepers
    }

    /// Returns the entries, and the engine that `Due`'s functions need.
    pub(crate) fn open(&mut self) -> (&mut Entries, &SharedRef) {
        (&mut self.entries, &self.shared)
    }

    pub(crate) fn shared(&self) -> &SharedRef {
        &self.shared
    }

    /// Returns the shard that expired it.
    pub(crate) fn shard(&self) -> usize {
        self.shard
    }

    /// Takes over all of another batch, of the same shard and kind. It may then be larger than
    /// [`MAX_BATCH`].
    pub(crate) fn append(&mut self, other: Self) {
        debug_assert!(self.shard == other.shard && self.sleepers == other.sleepers);
        self.entries.chain.append(other.entries.chain);
        self.entries.series += other.entries.series;
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.chain.len()
    }

    pub(super) fn once(&self) -> usize {
        self.len() - self.entries.series
    }

    /// # Safety
    /// The caller took the entry from PENDING to EXPIRED, and it is in no list.
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: NonNull<Entry>) {
        // SAFETY: the caller says that it is in no list; it is the batch's from here on.
        unsafe { self.entries.chain.push(entry) };
        // SAFETY: the engine's ownership, which came with it, keeps it alive.
        if unsafe { entry_ref(entry) }.state.is_series() {
            self.entries.series += 1;
        }
    }
}

impl Entries {
    /// Takes the next entry off.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Due> {
        self.chain.pop().map(Due)
    }
}

impl Due {
    fn entry(&self) -> &Entry {
        // SAFETY: this value holds the engine's ownership of it.
        unsafe { entry_ref(self.0) }
    }

    /// Returns its deadline, and whether it is a periodic timeout's.
    #[inline]
    pub(crate) fn look(&self) -> (Tick, bool) {
        self.entry().state.look()
    }

    /// Returns the task of a timeout that runs once. The engine gives the entry up.
    #[inline]
    pub(crate) fn into_task(self, shared: &SharedRef) -> Task {
        // SAFETY: the worker expired this entry for the batch, and it was taken off once.
        let task = unsafe { self.entry().take_task() };
        self.let_go(shared);
        task
    }

    /// Returns a task that wakes the future that slept. The engine gives the entry up.
    #[inline]
    pub(crate) fn into_wake(self, shared: &SharedRef) -> Task {
        // SAFETY: the worker expired this entry for the batch, and it was taken off once.
        let wake = unsafe { self.entry().take_work() };
        self.let_go(shared);
        wake
    }

    #[inline]
    fn let_go(self, shared: &SharedRef) {
        // SAFETY: this value holds the engine's ownership, of an entry of this engine.
        unsafe { shared.let_go(self.0) };
    }

    /// Returns a run of a periodic timeout.
    pub(crate) fn into_run(self) -> PeriodicRun {
        // SAFETY: the worker expired this entry for the batch, and it was taken off once.
        unsafe { PeriodicRun::new(self.0) }
    }
}
