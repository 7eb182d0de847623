//! The timeouts that were still pending when a shard was closed, on their way to the caller of a
//! shutdown.

use std::fmt;
use std::ptr::NonNull;

use super::chain::Chain;
use super::lifetime::SharedRef;
use crate::entry::{Entry, Task, entry_ref};
use crate::panics;
use crate::sync::lock;
use crate::time::Tick;

/// Withdrawn entries, with their tasks in them. The list allocates nothing, so a shutdown can't
/// fail half way. It holds the engine's ownership of the entries. Dropping it drops the tasks, each
/// separately.
pub(crate) struct UnfiredList {
    entries: Chain,
    /// `None` if it is empty.
    shared: Option<SharedRef>,
}

impl UnfiredList {
    pub(crate) const fn new() -> Self {
        Self { entries: Chain::new(), shared: None }
    }

    /// From here on, collects periodic timeouts that end outside of their shards.
    pub(crate) fn begin_outside(shared: &SharedRef) {
        *lock(&shared.unfired_periodic) = Some(Chain::new());
    }

    /// Stops collecting them, and returns those that were collected.
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
    /// The caller has withdrawn the entry, which is the engine's, has not taken its task, and gives
    /// up the engine's ownership. The entry is in no list.
    pub(super) unsafe fn push(&mut self, shared: &SharedRef, entry: NonNull<Entry>) {
        self.shared.get_or_insert_with(|| shared.clone());
        // SAFETY: the caller says that it is in no list.
        unsafe { self.entries.push(entry) };
    }

    /// Appends all entries of another list.
    pub(crate) fn append(&mut self, mut other: Self) {
        let shared = other.shared.take();
        if !other.is_empty() {
            self.shared = self.shared.take().or(shared);
            self.entries.append(std::mem::replace(&mut other.entries, Chain::new()));
        }
    }

    /// Takes off the entry that was pushed first, and returns its deadline and task.
    pub(crate) fn pop(&mut self) -> Option<(Tick, Task)> {
        let (entry, shared) = (self.entries.pop()?, self.shared.as_ref()?);
        // SAFETY: the list holds the engine's ownership of its entries.
        let this = unsafe { entry_ref(entry) };
        // SAFETY: it was withdrawn for the list, and is taken off once.
        let (deadline, task) = (this.state.deadline(), unsafe { this.take_task() });
        // SAFETY: the list holds the engine's ownership, of entries of this engine.
        unsafe { shared.let_go(entry) };
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
