//! The list of the entries that a group is an owner of.

use std::ptr::{self, NonNull};

use crate::engine::Shared;
use crate::entry::{Entry, Member};
use crate::shard::Remote;
use crate::sync::{Mutex, lock};

/// The entries that a group is an owner of. All are of one engine.
pub(super) struct Members(Mutex<List>);

struct List {
    members: Vec<Member>,
    /// The index at which to look next for an entry that is over.
    cursor: usize,
}

/// How many entries of the list are looked at for each one that is added. Entries that are over are
/// released. So the list shrinks by two for each schedule while it holds such entries.
const LOOKS: usize = 3;

impl Members {
    pub(super) fn none() -> Self {
        Self(Mutex::new(List { members: Vec::new(), cursor: 0 }))
    }

    /// # Safety
    /// The entries are the engine's, and were armed with this group as an owner. The caller adds
    /// each of them once.
    pub(super) unsafe fn add(&self, shared: &Shared, entries: &[NonNull<Entry>]) {
        let mut list = lock(&self.0);
        list.prune(shared, LOOKS * entries.len());
        // SAFETY: `submit_as` and `submit_many`, which alone call this, have armed each entry with
        // GROUP for this very group. They add it once.
        list.members.extend(entries.iter().map(|&entry| unsafe { Member::new(entry) }));
    }

    pub(super) fn take(&self) -> Vec<Member> {
        std::mem::take(&mut lock(&self.0).members)
    }

    pub(super) fn pending(&self) -> usize {
        lock(&self.0).members.iter().filter(|member| member.is_pending()).count()
    }
}

impl List {
    /// Looks at up to `looks` entries, and releases those that are over.
    fn prune(&mut self, shared: &Shared, looks: usize) {
        for _ in 0..looks.min(self.members.len()) {
            if self.cursor >= self.members.len() {
                self.cursor = 0;
            }
            if self.members[self.cursor].is_pending() {
                self.cursor += 1;
            } else {
                let_go(shared, self.members.swap_remove(self.cursor));
            }
        }
    }
}

/// Gives up a group's ownership of an entry of this engine, and frees the entry if the group was
/// its last owner.
pub(super) fn let_go(shared: &Shared, member: Member) {
    assert!(ptr::eq(Shared::of_remote(Remote::at(member.home())), shared), "of this engine");
    if let Some(entry) = member.let_go() {
        shared.put_entry(entry);
    }
}
