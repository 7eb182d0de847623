//! The step that leaves a tombstone, and the one that revives it: `shard/README.md`, section 8.

use super::{
    ArmFlags, CANCELLED, ENGINE, FLAGS, HANDLE, PENDING, PHASE, Snapshot, State, WAKER, is_tombstone, pack, phase_of,
};
use crate::sync::Ordering;
use crate::time::Subtick;

/// Not linked yet, with its handle and the engine as the only owners. Not periodic, so that nobody
/// puts a task back into the body.
const fn is_unlinked(word: u64, phase: u64) -> bool {
    word & FLAGS & !WAKER == phase | HANDLE | ENGINE
}

impl State {
    /// Returns the word, if the handle may be [given up](Self::give_up) in one step: it is pending
    /// and the step `cancels` it, or was cancelled before; it is not periodic, the worker has not
    /// linked it, and only the caller's handle and the engine own it.
    #[inline]
    pub(in crate::entry) fn may_be_given_up(&self, cancels: bool) -> Option<Snapshot> {
        // Acquire: if it was cancelled, the caller sees what the canceller did to the entry.
        let word = self.0.load(Ordering::Acquire);
        is_unlinked(word, if cancels { PENDING } else { CANCELLED }).then_some(Snapshot(word))
    }

    /// Gives the caller's handle up, and cancels what is pending in the same step, if the word is
    /// still the one that [`may_be_given_up`](Self::may_be_given_up) has seen. Otherwise returns
    /// false, and nothing has changed. The caller has [copied the
    /// task](crate::entry::Entry::copy_task) of what is pending before: this is the handle's last
    /// access to the engine's memory, see `arena/mod.rs`, "The end". The entry becomes a tombstone,
    /// whose HANDLE belongs to a producer, if that has put it on its list before: it `is_listed`.
    #[inline]
    pub(in crate::entry) fn give_up(&self, seen: Snapshot, is_listed: bool) -> bool {
        let Snapshot(word) = seen;
        debug_assert!(is_unlinked(word, phase_of(word)));
        let given_up = if is_listed { word & !PHASE } else { (word & !HANDLE) | CANCELLED };
        // A strong exchange, no loop: if it fails, the worker has just linked the entry, and a
        // cancel is to tell it; or the engine has given the entry up, or a shutdown was faster.
        self.0.compare_exchange(word, given_up, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Makes a tombstone pending again. The producer that owns it calls this, after it has put a
    /// task in. Returns true if the entry is still where it was pushed, in the inbox or in what the
    /// worker took out of it. Returns false if the engine has given the entry up: then the producer
    /// alone owns it, and it is free.
    #[inline]
    pub(in crate::entry) fn revive(&self, deadline: Subtick, flags: ArmFlags) -> bool {
        // Acquire, both: pairs with the release in `engine_lets_go`.
        let word = self.0.load(Ordering::Acquire);
        if word & ENGINE == 0 {
            return false;
        }
        debug_assert!(is_tombstone(word));
        let armed = pack(deadline, PENDING | ENGINE | flags.0);
        // A strong exchange, no loop: only the engine changes a tombstone, by giving it up.
        self.0.compare_exchange(word, armed, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
