//! Expired entries on their way to an executor: an intrusive list, so that handing them over allocates nothing.

use std::ptr::{self, NonNull};

use super::hub::HubRef;
use crate::entry::{Entry, Link, Task, entry_ref};
use crate::sync::prefetch;

/// So many entries go to the executor at a time: enough that its queue costs little per timeout, few enough that two
/// threads can share a clump of some thousands.
pub(crate) const MAX_BATCH: usize = 256;

/// Up to [`MAX_BATCH`] expired entries, in the order in which they expired. The engine's ownership of them comes with it.
#[derive(Debug)]
pub(crate) struct Batch {
    first: Link,
    last: Link,
    len: usize,
    hub: HubRef,
}

// SAFETY: expired entries belong to whoever holds the batch, and their tasks are `Send`.
unsafe impl Send for Batch {}

impl Batch {
    pub(super) fn new(hub: HubRef) -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut(), len: 0, hub }
    }

    pub(crate) fn hub(&self) -> &HubRef {
        &self.hub
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// # Safety
    /// The caller won the entry's way to EXPIRED, and it is in no list.
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: NonNull<Entry>) {
        // SAFETY: as above.
        unsafe { entry_ref(entry) }.set_next(ptr::null_mut());
        match NonNull::new(self.last) {
            // SAFETY: entries of the batch are ours.
            Some(last) => unsafe { entry_ref(last) }.set_next(entry.as_ptr()),
            None => self.first = entry.as_ptr(),
        }
        self.last = entry.as_ptr();
        self.len += 1;
    }

    /// The next task. The engine lets go of its entry.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Task> {
        let entry = NonNull::new(self.first)?;
        // SAFETY: entries of the batch are ours.
        let this = unsafe { entry_ref(entry) };
        self.first = this.next();
        prefetch(self.first);
        self.len -= 1;
        // SAFETY: the worker won this entry for the batch, and it is taken off once.
        let task = unsafe { this.take_task() };
        if this.state.engine_lets_go() {
            // SAFETY: the last owner is the sole owner; the entry is the hub's.
            unsafe { self.hub.put_entry(entry) };
        }
        Some(task)
    }
}
