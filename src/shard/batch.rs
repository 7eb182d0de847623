//! Expired entries on their way to an executor: an intrusive list, so that handing them over allocates nothing.

use std::ptr::{self, NonNull};

use super::hub::HubRef;
use super::series::SeriesRun;
use crate::entry::{EngineGone, Entry, Link, Task, entry_ref};
use crate::sync::prefetch;
use crate::time::Tick;

/// So many entries go to the executor at a time: enough that its queue costs little per timeout, few enough that two
/// threads can share a clump of some thousands.
pub(crate) const MAX_BATCH: usize = 256;

/// Up to [`MAX_BATCH`] expired entries, in the order in which they expired. The engine's ownership of them comes with it.
#[derive(Debug)]
pub(crate) struct Batch {
    entries: Entries,
    hub: HubRef,
    shard: usize,
    /// Of futures that sleep, all of them, or none.
    sleepers: bool,
}

/// The list itself.
#[derive(Debug)]
pub(crate) struct Entries {
    first: Link,
    last: Link,
    len: usize,
    /// Of which so many are series'; the others run once.
    series: usize,
}

/// An entry that is to be run. The engine's ownership of it comes with it.
pub(crate) struct Due(NonNull<Entry>);

// SAFETY: expired entries belong to whoever holds the batch, and their tasks are `Send`.
unsafe impl Send for Batch {}

impl Batch {
    pub(super) fn new(hub: HubRef, shard: usize) -> Self {
        let entries = Entries { first: ptr::null_mut(), last: ptr::null_mut(), len: 0, series: 0 };
        Self { entries, hub, shard, sleepers: false }
    }

    /// As many as there are, of futures that sleep.
    pub(super) fn of_sleepers(hub: HubRef, shard: usize) -> Self {
        Self { sleepers: true, ..Self::new(hub, shard) }
    }

    pub(crate) fn is_of_sleepers(&self) -> bool {
        self.sleepers
    }

    /// The entries, and the hub that they are to be taken off with.
    pub(crate) fn open(&mut self) -> (&mut Entries, &HubRef) {
        (&mut self.entries, &self.hub)
    }

    pub(crate) fn hub(&self) -> &HubRef {
        &self.hub
    }

    /// The shard that expired it.
    pub(crate) fn shard(&self) -> usize {
        self.shard
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len
    }

    pub(super) fn once(&self) -> usize {
        self.entries.len - self.entries.series
    }

    /// # Safety
    /// The caller won the entry's way to EXPIRED, and it is in no list.
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: NonNull<Entry>) {
        // SAFETY: as above.
        let this = unsafe { entry_ref(entry) };
        let entries = &mut self.entries;
        match NonNull::new(entries.last) {
            // SAFETY: entries of the batch are ours.
            Some(last) => unsafe { entry_ref(last) }.set_next(entry.as_ptr()),
            None => entries.first = entry.as_ptr(),
        }
        entries.last = entry.as_ptr();
        entries.len += 1;
        if this.state.is_series() {
            entries.series += 1;
        }
    }
}

impl Entries {
    /// The next one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Due> {
        // The link of the last one leads nowhere.
        self.len = self.len.checked_sub(1)?;
        let entry = NonNull::new(self.first)?;
        // SAFETY: entries of the batch are ours.
        self.first = unsafe { entry_ref(entry) }.next();
        prefetch(self.first);
        Some(Due(entry))
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
    pub(crate) fn into_task(self, hub: &HubRef) -> Task {
        // SAFETY: the worker won this entry for the batch, and it was taken off once.
        let task = unsafe { self.entry().take_task() };
        self.let_go(hub);
        task
    }

    /// What wakes a future that slept. The engine lets go of the entry.
    #[inline]
    pub(crate) fn into_wake(self, hub: &HubRef) -> Task {
        // SAFETY: as above.
        let wake = unsafe { self.entry().take_work() };
        self.let_go(hub);
        wake
    }

    #[inline]
    fn let_go(self, hub: &HubRef) {
        if self.entry().state.engine_lets_go() == EngineGone::Last {
            // SAFETY: the last owner is the sole owner; the entry is the hub's.
            unsafe { hub.put_entry(self.0) };
        }
    }

    /// A run of a series.
    pub(crate) fn into_run(self) -> SeriesRun {
        // SAFETY: the worker won this entry for the batch, and it was taken off once.
        unsafe { SeriesRun::new(self.0) }
    }
}
