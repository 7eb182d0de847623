//! The entries that a group owns a share of.

use std::ptr::NonNull;

use crate::engine::Shared;
use crate::entry::{Entry, entry_ref};
use crate::sync::{Mutex, lock};

/// The timeouts that a group owns a share of.
pub(super) struct Members(Mutex<List>);

struct List {
    entries: Vec<NonNull<Entry>>,
    /// Where to look next for entries that are over.
    cursor: usize,
}

/// So many entries of the list are looked at for each that is added, and let go of if they are over: so the list shrinks by two
/// for each schedule while there are such in it.
const LOOKS: usize = 3;

// SAFETY: a group is an owner of its entries, by a bit in their state word; what it does with them goes through that word.
unsafe impl Send for List {}

impl Members {
    pub(super) fn none() -> Self {
        Self(Mutex::new(List { entries: Vec::new(), cursor: 0 }))
    }

    /// # Safety
    /// The entries are the engine's, and were armed with this group as an owner.
    pub(super) unsafe fn add(&self, shared: &Shared, entries: &[NonNull<Entry>]) {
        let mut list = lock(&self.0);
        // SAFETY: handed on.
        unsafe { list.prune(shared, LOOKS * entries.len()) };
        list.entries.extend_from_slice(entries);
    }

    pub(super) fn take(&self) -> Vec<NonNull<Entry>> {
        std::mem::take(&mut lock(&self.0).entries)
    }

    pub(super) fn pending(&self) -> usize {
        let list = lock(&self.0);
        // SAFETY: the group is an owner.
        list.entries.iter().filter(|&&entry| unsafe { entry_ref(entry) }.state.is_pending()).count()
    }
}

impl List {
    /// Looks at so many entries, and lets go of those that are over.
    ///
    /// # Safety
    /// The entries are the engine's.
    unsafe fn prune(&mut self, shared: &Shared, looks: usize) {
        for _ in 0..looks.min(self.entries.len()) {
            if self.cursor >= self.entries.len() {
                self.cursor = 0;
            }
            let entry = self.entries[self.cursor];
            // SAFETY: the group is an owner.
            if unsafe { entry_ref(entry) }.state.is_pending() {
                self.cursor += 1;
            } else {
                self.entries.swap_remove(self.cursor);
                // SAFETY: an owner of an entry of this engine, and it is out of the list.
                unsafe { let_go(shared, entry) };
            }
        }
    }
}

/// # Safety
/// The caller gives up a group's ownership of an entry of this engine.
pub(super) unsafe fn let_go(shared: &Shared, entry: NonNull<Entry>) {
    // SAFETY: as above.
    if unsafe { entry_ref(entry) }.state.group_lets_go() {
        // SAFETY: the last owner is the sole owner.
        unsafe { shared.put_entry(entry) };
    }
}
