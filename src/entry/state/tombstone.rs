//! The steps that leave a tombstone, and the one that revives it: `shard/README.md`, section 8.

use super::{ArmFlags, CANCELLED, ENGINE, FLAGS, HANDLE, PENDING, PHASE, Snapshot, State, WAKER, is_tombstone, pack};
use crate::sync::Ordering;
use crate::time::Subtick;

/// Cancelled before the worker linked it, with its handle and the engine as the only owners.
const fn is_cancelled_unlinked(word: u64) -> bool {
    word & FLAGS & !WAKER == CANCELLED | HANDLE | ENGINE
}

/// Pending and not linked yet, with its handle and the engine as the only owners. Not periodic, so
/// that nobody puts a task back into the body.
const fn is_pending_unlinked(word: u64) -> bool {
    word & FLAGS & !WAKER == PENDING | HANDLE | ENGINE
}

impl State {
    /// Returns whether an entry may become a [tombstone](Self::leave_tombstone): it was cancelled
    /// before the worker linked it, and only the caller's handle and the engine own it. Acquire:
    /// the caller sees what the canceller did to the entry.
    #[inline]
    pub(in crate::entry) fn may_be_tombstone(&self) -> bool {
        is_cancelled_unlinked(self.0.load(Ordering::Acquire))
    }

    /// Turns a cancelled entry into a tombstone, whose HANDLE belongs to a producer, and returns
    /// whether it did. The producer has put the entry on its list of tombstones before. If this
    /// succeeds, it is the handle's last access to the engine's memory, see `arena/mod.rs`, "The
    /// end".
    #[inline]
    pub(in crate::entry) fn leave_tombstone(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        // A strong exchange, no loop: if it fails, the engine has given the entry up, or has ended.
        is_cancelled_unlinked(word)
            && self.0.compare_exchange(word, word & !PHASE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Returns the word, if the entry may be cancelled and its handle given up in one step: it is
    /// pending, not periodic, the worker has not linked it, and only the caller's handle and the
    /// engine own it.
    #[inline]
    pub(in crate::entry) fn may_be_given_up(&self) -> Option<Snapshot> {
        // Relaxed: `give_up` makes the exchange with this very word.
        let word = self.0.load(Ordering::Relaxed);
        is_pending_unlinked(word).then_some(Snapshot(word))
    }

    /// PENDING → CANCELLED, or a tombstone, and the caller's handle is given up in the same step,
    /// if the word is still the one that [`may_be_given_up`](Self::may_be_given_up) has seen.
    /// Otherwise returns false, and nothing has changed. The caller has [copied the
    /// task](crate::entry::Entry::copy_task) before: this is the handle's last access to the
    /// engine's memory. It becomes a tombstone if it `is_listed`: its producer has put it on its
    /// list before, as for [`leave_tombstone`](Self::leave_tombstone).
    #[inline]
    pub(in crate::entry) fn give_up(&self, seen: Snapshot, is_listed: bool) -> bool {
        let Snapshot(word) = seen;
        debug_assert!(is_pending_unlinked(word));
        let given_up = if is_listed { word & !PHASE } else { (word & !HANDLE) | CANCELLED };
        // A strong exchange, no loop: if it fails, the worker has just linked the entry, and a
        // cancel is to tell it; or a shutdown was faster.
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
