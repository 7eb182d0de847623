//! What was still pending when a shard was closed, on its way into a shutdown's answer.

use std::fmt;
use std::ptr::NonNull;

use super::chain::Chain;
use super::lifetime::SharedRef;
use crate::entry::{EngineGone, Entry, Task, entry_ref};
use crate::panics;
use crate::sync::lock;
use crate::time::Tick;

/// Entries that were withdrawn, with their tasks in them: a list that takes no memory of its own, so that a shutdown can't fail half
/// way. The engine's ownership of the entries comes with it. Dropping it drops the tasks, each by itself.
pub(crate) struct UnfiredList {
    entries: Chain,
    /// None if it is empty.
    shared: Option<SharedRef>,
}

impl UnfiredList {
    pub(crate) const fn new() -> Self {
        Self { entries: Chain::new(), shared: None }
    }

    /// From here on what series leave behind that end outside of their shards is collected.
    pub(crate) fn begin_outside(shared: &SharedRef) {
        *lock(&shared.unfired_periodic) = Some(Chain::new());
    }

    /// Ends that, and takes what was collected.
    pub(crate) fn take_outside(shared: &SharedRef) -> Self {
        let entries = lock(&shared.unfired_periodic).take().unwrap_or(Chain::new());
        Self { entries, shared: Some(shared.clone()) }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// # Safety
    /// The caller has withdrawn the entry, which is the engine's, has not taken its task, and gives up the engine's ownership. It is in no list.
    pub(super) unsafe fn push(&mut self, shared: &SharedRef, entry: NonNull<Entry>) {
        self.shared.get_or_insert_with(|| shared.clone());
        // SAFETY: in no list, as the caller says.
        unsafe { self.entries.push(entry) };
    }

    /// Takes over all of another.
    pub(crate) fn append(&mut self, mut other: Self) {
        let shared = other.shared.take();
        if !other.is_empty() {
            self.shared = self.shared.take().or(shared);
            self.entries.append(std::mem::replace(&mut other.entries, Chain::new()));
        }
    }

    /// The deadline and the task of the one that was put in first.
    pub(crate) fn pop(&mut self) -> Option<(Tick, Task)> {
        let (entry, shared) = (self.entries.pop()?, self.shared.as_ref()?);
        // SAFETY: entries of the list are ours.
        let this = unsafe { entry_ref(entry) };
        // SAFETY: it was withdrawn for the list, and is taken off once.
        let (deadline, task) = (this.state.deadline(), unsafe { this.take_task() });
        if this.state.engine_lets_go() == EngineGone::Last {
            // SAFETY: the last owner is the sole owner; the entry is the engine's.
            unsafe { shared.put_entry(entry) };
        }
        Some((deadline, task))
    }
}

impl Drop for UnfiredList {
    fn drop(&mut self) {
        while let Some((_, task)) = self.pop() {
            panics::catch(move || drop(task));
        }
    }
}

impl fmt::Debug for UnfiredList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnfiredList").field("len", &self.len()).finish_non_exhaustive()
    }
}
