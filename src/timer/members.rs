//! The list of the entries that a group is an owner of.

use std::ptr::NonNull;

use crate::engine::Shared;
use crate::entry::{Entry, Sole, entry_ref};
use crate::sync::{Mutex, lock};

/// The entries that a group is an owner of.
pub(super) struct Members(Mutex<List>);

struct List {
    entries: Vec<NonNull<Entry>>,
    /// The index at which to look next for an entry that is over.
    cursor: usize,
}

/// How many entries of the list are looked at for each one that is added. Entries that are over are
/// released. So the list shrinks by two for each schedule while it holds such entries.
const LOOKS: usize = 3;

// SAFETY: a group is an owner of its entries, by a bit in their state word, and goes through that
// word for all that it does with them. Any thread may do that.
unsafe impl Send for List {}

impl Members {
    pub(super) fn none() -> Self {
        Self(Mutex::new(List { entries: Vec::new(), cursor: 0 }))
    }

    /// # Safety
    /// The entries are the engine's, and were armed with this group as an owner. The caller adds
    /// each of them once.
    pub(super) unsafe fn add(&self, shared: &Shared, entries: &[NonNull<Entry>]) {
        let mut list = lock(&self.0);
        // SAFETY: the list holds only entries of the engine that the group is an owner of, as each
        // caller of `add` guarantees.
        unsafe { list.prune(shared, LOOKS * entries.len()) };
        list.entries.extend_from_slice(entries);
    }

    pub(super) fn take(&self) -> Vec<NonNull<Entry>> {
        std::mem::take(&mut lock(&self.0).entries)
    }

    pub(super) fn pending(&self) -> usize {
        let list = lock(&self.0);
        // SAFETY: the group is an owner of the entries in its list, so they are alive.
        list.entries.iter().filter(|&&entry| unsafe { entry_ref(entry) }.state.is_pending()).count()
    }
}

impl List {
    /// Looks at up to `looks` entries, and releases those that are over.
    ///
    /// # Safety
    /// The entries of the list are of the engine of `shared`, and the group is an owner of each.
    unsafe fn prune(&mut self, shared: &Shared, looks: usize) {
        for _ in 0..looks.min(self.entries.len()) {
            if self.cursor >= self.entries.len() {
                self.cursor = 0;
            }
            let entry = self.entries[self.cursor];
            // SAFETY: the group is an owner of the entries in its list, so they are alive.
            if unsafe { entry_ref(entry) }.state.is_pending() {
                self.cursor += 1;
            } else {
                self.entries.swap_remove(self.cursor);
                // SAFETY: the entry was in the list, so the group is an owner of it, and it is of
                // this engine. It is out of the list now, so the ownership is given up once.
                unsafe { let_go(shared, entry) };
            }
        }
    }
}

/// Gives up a group's ownership of an entry, and frees the entry if the group was its last owner.
///
/// # Safety
/// The entry is of the engine of `shared`. The caller holds a group's ownership of it, and gives it
/// up.
pub(super) unsafe fn let_go(shared: &Shared, entry: NonNull<Entry>) {
    // SAFETY: the caller holds the group's ownership, which keeps the entry alive.
    if unsafe { entry_ref(entry) }.state.group_lets_go() {
        // SAFETY: the group was the last owner, so this thread is the sole owner.
        shared.put_entry(unsafe { Sole::new(entry) });
    }
}
