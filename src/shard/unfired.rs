//! What was still pending when a shard was closed, on its way into a shutdown's answer.

use std::fmt;
use std::ptr::{self, NonNull};

use super::hub::HubRef;
use crate::entry::{EngineGone, Entry, Link, Task, entry_ref};
use crate::panics;
use crate::time::Tick;

/// Entries that were withdrawn, with their tasks in them: a list that takes no memory of its own, so that a shutdown can't fail half
/// way. The engine's ownership of the entries comes with it. Dropping it drops the tasks, each by itself.
pub(crate) struct UnfiredList {
    first: Link,
    last: Link,
    len: usize,
    /// None if it is empty.
    hub: Option<HubRef>,
}

// SAFETY: withdrawn entries belong to whoever has the list, as far as the engine's part in them goes, and their tasks are `Send`.
unsafe impl Send for UnfiredList {}

impl UnfiredList {
    pub(crate) const fn new() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut(), len: 0, hub: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// # Safety
    /// The caller has withdrawn the entry, which is the hub's, has not taken its task, and gives up the engine's ownership. It is in no list.
    pub(super) unsafe fn push(&mut self, hub: &HubRef, entry: NonNull<Entry>) {
        self.hub.get_or_insert_with(|| hub.clone());
        self.join(entry.as_ptr(), entry.as_ptr(), 1);
    }

    /// Takes over all of another.
    pub(crate) fn append(&mut self, mut other: Self) {
        let hub = other.hub.take();
        if other.len > 0 {
            self.hub = self.hub.take().or(hub);
            self.join(other.first, other.last, std::mem::take(&mut other.len));
        }
    }

    fn join(&mut self, first: Link, last: Link, len: usize) {
        match NonNull::new(self.last) {
            // SAFETY: entries of the list are ours.
            Some(end) => unsafe { entry_ref(end) }.set_next(first),
            None => self.first = first,
        }
        self.last = last;
        self.len += len;
    }

    /// The deadline and the task of the one that was put in first.
    pub(crate) fn pop(&mut self) -> Option<(Tick, Task)> {
        // The link of the last one leads nowhere.
        self.len = self.len.checked_sub(1)?;
        let (entry, hub) = (NonNull::new(self.first)?, self.hub.as_ref()?);
        // SAFETY: entries of the list are ours.
        let this = unsafe { entry_ref(entry) };
        self.first = this.next();
        if self.len == 0 {
            self.last = ptr::null_mut();
        }
        // SAFETY: it was withdrawn for the list, and is taken off once.
        let (deadline, task) = (this.state.deadline(), unsafe { this.take_task() });
        if this.state.engine_lets_go() == EngineGone::Last {
            // SAFETY: the last owner is the sole owner; the entry is the hub's.
            unsafe { hub.put_entry(entry) };
        }
        Some((deadline, task))
    }
}

impl Drop for UnfiredList {
    fn drop(&mut self) {
        while let Some((_, task)) = self.pop() {
            panics::contain(move || drop(task));
        }
    }
}

impl fmt::Debug for UnfiredList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnfiredList").field("len", &self.len).finish_non_exhaustive()
    }
}
