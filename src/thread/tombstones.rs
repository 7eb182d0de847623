//! Tombstones: entries that were cancelled before the worker had looked at them. Their producer
//! keeps them, and may revive them in place.
//!
//! In a server one thread mostly schedules a timeout and, soon after, cancels it. Its entry is then
//! still in the inbox, and only the worker may take it out. To give the entry back, the worker
//! would have to read a cache line that the producer has just written, and the producer would have
//! to read it again later. So the producer keeps the entry. It puts the next timeout that it
//! schedules on the same shard into that very entry, by one exchange on the state word. It pushes
//! nothing, and does not tell the worker. The worker finds the entry with the new deadline when it
//! next looks at the inbox.
//!
//! To its authors' knowledge, none of the timers that this one has learned from does that. The
//! proof is in `shard/README.md`, section 10.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::entry::{Entry, entry_ref};

/// How many tombstones a thread keeps per engine: 4 KiB. A thread that cancels more at a time gives
/// up the rest in the usual way.
const MOST: u16 = if cfg!(loom) { 2 } else { 64 };

/// One producer's tombstones, all of one shard. The newest comes first, because it is in the cache.
///
/// The list does not write to the newest one before the next is pushed: until it is a tombstone the
/// worker may link it into a slot. So the newest has no link, and the list keeps the second, too.
#[derive(Debug)]
pub(super) struct Tombstones {
    newest: Cell<*mut Entry>,
    second: Cell<*mut Entry>,
    len: Cell<u16>,
}

impl Tombstones {
    pub(super) fn new() -> Self {
        let none = || Cell::new(ptr::null_mut());
        Self { newest: none(), second: none(), len: Cell::new(0) }
    }

    /// Puts an entry on the list, whose handle is about to go. Returns false if there is no room.
    ///
    /// The caller then makes it a tombstone by
    /// [`State::leave_tombstone`](crate::entry::State::leave_tombstone) or
    /// [`State::give_up`](crate::entry::State::give_up). That comes second, because afterwards the
    /// engine may be gone. If it fails, [`take_back`](Self::take_back) undoes this call.
    ///
    /// # Safety
    /// The caller owns the entry's handle, and makes it a tombstone next, or takes it back. The
    /// entry is of the same shard as all entries of this list.
    #[inline]
    pub(super) unsafe fn push(&self, entry: NonNull<Entry>) -> bool {
        if self.len.get() == MOST {
            return false;
        }
        #[cfg(loom)]
        {
            // SAFETY: the caller owns the handle, which keeps the entry alive.
            let this = unsafe { entry_ref(entry) };
            // Loom sees this, and so a push that comes after the exchange.
            this.home();
            this.set_in_use(false);
        }
        if let Some(second) = NonNull::new(self.newest.replace(entry.as_ptr())) {
            // SAFETY: a tombstone of this list, which lives as long as the engine.
            unsafe { entry_ref(second) }.set_next_tombstone(self.second.get());
            self.second.set(second.as_ptr());
        }
        self.len.set(self.len.get() + 1);
        true
    }

    /// Takes the newest entry off the list again, because it did not become a tombstone.
    #[cold]
    pub(super) fn take_back(&self) {
        let _entry = self.take();
        #[cfg(loom)]
        _entry.into_iter().for_each(|entry| {
            // SAFETY: the caller owns the handle, which keeps the entry alive.
            unsafe { entry_ref(entry) }.set_in_use(true);
        });
    }

    /// Returns the newest tombstone: the caller's to revive.
    #[inline]
    pub(super) fn take(&self) -> Option<NonNull<Entry>> {
        let entry = NonNull::new(self.newest.replace(self.second.get()))?;
        if let Some(second) = NonNull::new(self.second.get()) {
            // SAFETY: entries live as long as the engine that this is a part of, and tombstones
            // belong to this list.
            self.second.set(unsafe { entry_ref(second) }.next_tombstone());
        }
        self.len.set(self.len.get() - 1);
        Some(entry)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn tombstones_are_kept_up_to_a_bound_and_come_back_the_newest_first() {
        let most = usize::from(MOST);
        let (tombstones, entries): (_, Vec<_>) = (Tombstones::new(), (0..=MOST).map(|_| Entry::new_free()).collect());
        assert_eq!(tombstones.take(), None);
        for _ in 0..2 {
            // SAFETY: the test owns the entries, which are in no list.
            let taken: Vec<_> = entries.iter().map(|entry| unsafe { tombstones.push(NonNull::from(entry)) }).collect();
            assert!(taken[..most].iter().all(|taken| *taken) && !taken[most], "no more than there is room for");
            let back = std::iter::from_fn(|| tombstones.take());
            assert!(back.eq(entries[..most].iter().rev().map(NonNull::from)));
        }
    }

    #[test]
    fn an_entry_that_is_put_on_the_list_is_not_written_to_before_the_next() {
        let (tombstones, entries) = (Tombstones::new(), [(); 3].map(|()| Entry::new_free()));
        for (entry, before) in entries.iter().zip([None, Some(0), Some(1)]) {
            // The worker may link it into a slot until it is a tombstone.
            let slot = ptr::dangling_mut();
            entry.set_back(slot);
            // SAFETY: the test owns the entries, which are in no list.
            assert!(unsafe { tombstones.push(NonNull::from(entry)) });
            assert_eq!(entry.back(), slot);
            assert!(before.is_none_or(|before: usize| entries[before].back() != slot));
        }
    }

    #[test]
    fn the_newest_tombstone_can_be_taken_back() {
        let (tombstones, entries) = (Tombstones::new(), [Entry::new_free(), Entry::new_free()]);
        // SAFETY: the test owns the entries, which are in no list.
        entries.iter().for_each(|entry| assert!(unsafe { tombstones.push(NonNull::from(entry)) }));
        tombstones.take_back();
        assert_eq!((tombstones.take(), tombstones.take()), (Some(NonNull::from(&entries[0])), None));
    }
}
