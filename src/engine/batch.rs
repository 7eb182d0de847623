//! Expired entries on their way to an executor: an intrusive list, so that handing them over allocates nothing.

use std::ptr::NonNull;

use super::chain::Chain;
use super::lifetime::SharedRef;
use super::periodic::PeriodicRun;
use crate::entry::{EngineGone, Entry, Task, entry_ref};
use crate::time::Tick;

/// So many entries go to the executor at a time: enough that its queue costs little per timeout, few enough that two
/// threads can share a burst of some thousands.
pub(crate) const MAX_BATCH: usize = 256;

/// Up to [`MAX_BATCH`] expired entries, in the order in which they expired. The engine's ownership of them comes with it.
#[derive(Debug)]
pub(crate) struct Batch {
    entries: Entries,
    shared: SharedRef,
    shard: usize,
    /// Of futures that sleep, all of them, or none.
    sleepers: bool,
}

/// The list itself.
#[derive(Debug)]
pub(crate) struct Entries {
    chain: Chain,
    /// Of which so many are series'; the others run once.
    series: usize,
}

/// An entry that is to be run. The engine's ownership of it comes with it.
pub(crate) struct Due(NonNull<Entry>);

// SAFETY: expired entries belong to whoever holds the batch, and their tasks are `Send`.
unsafe impl Send for Batch {}

impl Batch {
    pub(super) fn new(shared: SharedRef, shard: usize) -> Self {
        Self { entries: Entries { chain: Chain::new(), series: 0 }, shared, shard, sleepers: false }
    }

    /// As many as there are, of futures that sleep.
    pub(super) fn of_sleepers(shared: SharedRef, shard: usize) -> Self {
        Self { sleepers: true, ..Self::new(shared, shard) }
    }

    pub(crate) fn is_of_sleepers(&self) -> bool {
        self.sleepers
    }

    /// The entries, and the engine that they are to be taken off with.
    pub(crate) fn open(&mut self) -> (&mut Entries, &SharedRef) {
        (&mut self.entries, &self.shared)
    }

    pub(crate) fn shared(&self) -> &SharedRef {
        &self.shared
    }

    /// The shard that expired it.
    pub(crate) fn shard(&self) -> usize {
        self.shard
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.chain.len()
    }

    pub(super) fn once(&self) -> usize {
        self.len() - self.entries.series
    }

    /// # Safety
    /// The caller won the entry's way to EXPIRED, and it is in no list.
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: NonNull<Entry>) {
        // SAFETY: in no list, as the caller says; and the batch's from here on.
        unsafe { self.entries.chain.push(entry) };
        // SAFETY: the engine's ownership, which came with it, keeps it alive.
        if unsafe { entry_ref(entry) }.state.is_series() {
            self.entries.series += 1;
        }
    }
}

impl Entries {
    /// The next one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Due> {
        self.chain.pop().map(Due)
    }
}

impl Due {
    fn entry(&self) -> &Entry {
        // SAFETY: it is ours.
        unsafe { entry_ref(self.0) }
    }

    /// Its deadline, and whether it is a series'.
    #[inline]
    pub(crate) fn look(&self) -> (Tick, bool) {
        self.entry().state.look()
    }

    /// What runs once. The engine lets go of the entry.
    #[inline]
    pub(crate) fn into_task(self, shared: &SharedRef) -> Task {
        // SAFETY: the worker won this entry for the batch, and it was taken off once.
        let task = unsafe { self.entry().take_task() };
        self.let_go(shared);
        task
    }

    /// What wakes a future that slept. The engine lets go of the entry.
    #[inline]
    pub(crate) fn into_wake(self, shared: &SharedRef) -> Task {
        // SAFETY: as above.
        let wake = unsafe { self.entry().take_work() };
        self.let_go(shared);
        wake
    }

    #[inline]
    fn let_go(self, shared: &SharedRef) {
        if self.entry().state.engine_lets_go() == EngineGone::Last {
            // SAFETY: the last owner is the sole owner; the entry is the engine's.
            unsafe { shared.put_entry(self.0) };
        }
    }

    /// A run of a series.
    pub(crate) fn into_run(self) -> PeriodicRun {
        // SAFETY: the worker won this entry for the batch, and it was taken off once.
        unsafe { PeriodicRun::new(self.0) }
    }
}
