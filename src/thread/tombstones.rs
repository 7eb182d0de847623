//! Tombstones: entries that were cancelled where only the worker may take them out, in the inbox or
//! in a slot. Their producer keeps them, and may revive them in place.
//!
//! In a server nearly all timeouts are cancelled, and another is scheduled by the same thread soon
//! after. To give the entry back, the worker would have to read a cache line that the producer has
//! just written, and the producer would have to read it again later. So the producer keeps the
//! entry. As a rule it puts the next timeout that it schedules on the same shard into that very
//! entry, by one exchange on the state word. It pushes nothing, and does not tell the worker. The
//! worker finds the entry with the new deadline when it next looks at the inbox, or when the slot
//! comes up, as after a reset.
//!
//! To its authors' knowledge, none of the timers that this one has learned from does that. The
//! proof is in `shard/README.md`, section 8.

use std::cell::Cell;

use crate::entry::{Handle, Token, Tomb};

/// How many tombstones a thread keeps per engine: 4 KiB. A thread that cancels more at a time gives
/// up the rest in the usual way.
const MOST: u16 = if cfg!(loom) { 2 } else { 64 };

/// One producer's tombstones, all of one shard. The newest comes first, because it is in the cache.
#[derive(Default)]
pub(super) struct Tombstones {
    list: Cell<Option<Tomb>>,
    len: Cell<u16>,
}

impl Tombstones {
    /// Puts the entry of a handle that is about to go on the list. Returns false if there is no
    /// room.
    ///
    /// The caller then makes it a tombstone by [`Handle::give_up`]. That comes second, because
    /// afterwards the engine may be gone. If it fails, [`take_back`](Self::take_back) undoes this
    /// call.
    ///
    /// # Safety
    /// If this returns true, the caller makes that call next, for this handle, and if it fails,
    /// `take_back`, on this list. The entry is of the same shard as all entries of this list. It is
    /// in no side queue, and meanwhile nobody else uses the handle, which alone could put it there.
    #[inline]
    pub(super) unsafe fn push(&self, handle: &Handle) -> bool {
        if self.len.get() == MOST {
            return false;
        }
        // SAFETY: it goes on this list, below. This thread alone takes from it, and makes it a
        // tombstone first, or takes it back.
        let entry = unsafe { Tomb::of(handle) };
        #[cfg(loom)]
        entry.entry().set_in_use(false);
        // Loom sees this write, and so a push that comes after the exchange.
        self.list.set(Some(entry.before(self.list.take())));
        self.len.set(self.len.get() + 1);
        true
    }

    /// Takes the entry of this handle off the list again, because it did not become a tombstone.
    #[cold]
    pub(super) fn take_back(&self, handle: &Handle) {
        let entry = self.take().filter(|entry| entry.address() == handle.address());
        let _entry = entry.expect("the newest of this list is the one that was listed");
        #[cfg(loom)]
        _entry.entry().set_in_use(true);
    }

    /// Returns the newest tombstone: the caller's to revive.
    #[inline]
    pub(super) fn take(&self) -> Option<Tomb> {
        let (newest, others) = self.list.take()?.split();
        self.list.set(others);
        self.len.set(self.len.get() - 1);
        Some(newest)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::NonNull;

    use super::*;
    use crate::entry::Entry;

    /// The test owns the entries, which are in no list.
    fn handle(entry: &Entry) -> Handle {
        // SAFETY: there is no worker, and no other handle; the test makes and takes all of it.
        unsafe { Handle::new(NonNull::from(entry)) }
    }

    fn push(tombstones: &Tombstones, entry: &Entry) -> bool {
        // SAFETY: there is no worker; the test makes and takes all of it.
        unsafe { tombstones.push(&handle(entry)) }
    }

    #[test]
    fn tombstones_are_kept_up_to_a_bound_and_come_back_the_newest_first() {
        let most = usize::from(MOST);
        let (tombstones, entries): (_, Vec<_>) =
            (Tombstones::default(), (0..=MOST).map(|_| Entry::new_free()).collect());
        assert_eq!(tombstones.take(), None);
        for _ in 0..2 {
            let taken: Vec<_> = entries.iter().map(|entry| push(&tombstones, entry)).collect();
            assert!(taken[..most].iter().all(|taken| *taken) && !taken[most], "no more than there is room for");
            let back = std::iter::from_fn(|| tombstones.take().map(|entry| entry.address()));
            assert!(back.eq(entries[..most].iter().rev().map(NonNull::from)));
        }
    }

    #[test]
    fn the_newest_tombstone_can_be_taken_back() {
        let (tombstones, entries) = (Tombstones::default(), [Entry::new_free(), Entry::new_free()]);
        assert!(entries.iter().all(|entry| push(&tombstones, entry)), "room");
        tombstones.take_back(&handle(&entries[1]));
        let left = [tombstones.take(), tombstones.take()].map(|entry| entry.map(|entry| entry.address()));
        assert_eq!(left, [Some(NonNull::from(&entries[0])), None]);
    }
}
