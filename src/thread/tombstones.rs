//! Entries that were cancelled before the worker had looked at them, kept by their producer to be armed again where they are.
//!
//! A server's timeouts are mostly scheduled and, soon after, cancelled, by one thread. The entry is then still in the inbox:
//! taking it out is the worker's, giving it back costs the worker a look at a line that the producer has just written, and the
//! producer as much to get it back. So the producer does not give it up: the next timeout that it schedules on the
//! same shard is put into that very entry, by one exchange on the state word. Nothing is pushed, and the worker is not even
//! told; it finds the entry in the inbox when it next looks there, with the new deadline. (None of the timers that this one has
//! learned from does that, as far as its authors know.) The proof is in `README.md` here, section 10.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::entry::{Entry, entry_ref};

/// So many entries a thread keeps of one engine: 4 KiB. A thread that cancels more at a time gives the rest up, as ever.
const MOST: usize = if cfg!(loom) { 1 } else { 64 };

/// One producer's kept entries, all of one shard: the newest first, as that one is in the cache.
#[derive(Debug)]
pub(super) struct Tombstones {
    newest: Cell<*mut Entry>,
    len: Cell<usize>,
}

impl Tombstones {
    pub(super) fn new() -> Self {
        Self { newest: Cell::new(ptr::null_mut()), len: Cell::new(0) }
    }

    /// Puts an entry in whose handle is about to go; false if there is no room. What makes it a kept one is
    /// [`State::leave_tombstone`](crate::entry::State::leave_tombstone), after this, because afterwards the engine may be gone; if that fails,
    /// [`take_out`](Self::take_out) undoes it.
    ///
    /// # Safety
    /// The caller has the entry's handle; the entry was cancelled before it was linked, and is of the shard that all of these
    /// are of.
    #[inline]
    pub(super) unsafe fn push(&self, entry: NonNull<Entry>) -> bool {
        if self.len.get() == MOST {
            return false;
        }
        // SAFETY: the handle keeps the entry alive.
        let this = unsafe { entry_ref(entry) };
        this.set_next_tombstone(self.newest.get());
        #[cfg(loom)]
        this.set_in_use(false);
        self.newest.set(entry.as_ptr());
        self.len.set(self.len.get() + 1);
        true
    }

    /// Takes the entry out again that was put in last.
    #[cold]
    pub(super) fn take_back(&self) {
        let _entry = self.take();
        #[cfg(loom)]
        _entry.into_iter().for_each(|entry| {
            // SAFETY: the caller has its handle.
            unsafe { entry_ref(entry) }.set_in_use(true);
        });
    }

    /// The entry that was kept last: the caller's to arm again.
    #[inline]
    pub(super) fn take(&self) -> Option<NonNull<Entry>> {
        let entry = NonNull::new(self.newest.get())?;
        // SAFETY: entries live as long as the engine that this is a part of, and kept ones are this list's.
        self.newest.set(unsafe { entry_ref(entry) }.next_tombstone());
        self.len.set(self.len.get() - 1);
        Some(entry)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn tombstones_are_kept_up_to_a_bound_and_come_back_the_newest_first() {
        let (tombstones, entries): (_, Vec<_>) = (Tombstones::new(), (0..=MOST).map(|_| Entry::new_free()).collect());
        assert_eq!(tombstones.take(), None);
        for _ in 0..2 {
            // SAFETY: ours, and in no list.
            let taken: Vec<_> = entries.iter().map(|entry| unsafe { tombstones.push(NonNull::from(entry)) }).collect();
            assert!(taken[..MOST].iter().all(|taken| *taken) && !taken[MOST], "no more than there is room for");
            let back = std::iter::from_fn(|| tombstones.take());
            assert!(back.eq(entries[..MOST].iter().rev().map(NonNull::from)));
        }
    }

    #[test]
    fn what_was_put_in_last_can_be_taken_out_again() {
        let (tombstones, entries) = (Tombstones::new(), [Entry::new_free(), Entry::new_free()]);
        // SAFETY: ours, and in no list.
        entries.iter().for_each(|entry| assert!(unsafe { tombstones.push(NonNull::from(entry)) }));
        tombstones.take_back();
        assert_eq!((tombstones.take(), tombstones.take()), (Some(NonNull::from(&entries[0])), None));
    }
}
