//! The two queues beside the inbox, each a stack of linked entries of which the worker has to be
//! told. The cancelled queue holds those that were cancelled, and the moved queue those that were
//! reset to an earlier deadline.

use std::ptr;

use super::stack::{CLOSED, DEPTH, ONE_DEEP, Taken, WAKE_DEPTH, address_of, deeper_by, depth_of};
use crate::entry::{Entry, FromQueue, Link, Queued, Token};
use crate::sync::{AtomicPtr, Ordering};

/// The same stack as the inbox, but without the ASLEEP bit.
#[derive(Debug)]
pub(crate) struct SideQueue {
    head: AtomicPtr<Entry>,
}

/// What a push found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SidePush {
    Done,
    /// The depth is a multiple of [`WAKE_DEPTH`]: the caller has to wake the worker.
    Deep,
}

impl SideQueue {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Pushes an entry. Returns it if the queue is closed: the engine has given up all its entries,
    /// or is about to, without looking at this queue.
    #[inline]
    pub(crate) fn push<'h>(&self, entry: Queued<'h>) -> Result<SidePush, Queued<'h>> {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head.addr() & CLOSED != 0 {
                return Err(entry);
            }
            entry.set_below(address_of(head));
            let depth = deeper_by(head.addr() & DEPTH, 1);
            let new = entry.as_link().wrapping_byte_add(depth);
            // Release: pairs with the Acquire in `take`, for the link.
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if depth.is_multiple_of(WAKE_DEPTH * ONE_DEEP) => return Ok(SidePush::Deep),
                Ok(_) => return Ok(SidePush::Done),
                Err(now) => head = now,
            }
        }
    }

    pub(crate) fn take(&self) -> Taken<FromQueue> {
        if self.head.load(Ordering::Relaxed).is_null() {
            return Taken::NONE;
        }
        // Acquire: pairs with the release in `push`. Release: pairs with the Acquire in `depth`.
        let head = self.head.swap(ptr::null_mut(), Ordering::AcqRel);
        Self::taken(head)
    }

    /// Returns the entries below a head, as `take` and `close` have just taken it out.
    fn taken(head: Link) -> Taken<FromQueue> {
        // SAFETY: the head was taken out of this stack. What was pushed, `Queued`, is such a value
        // once it is in.
        unsafe { Taken::new(head) }
    }

    /// Returns how many entries wait, up to 65,535. Acquire: pairs with the release in
    /// [`take`](Self::take), so that a thread that sees the entries taken also sees the backlog
    /// that the worker noted before.
    pub(crate) fn depth(&self) -> usize {
        depth_of(self.head.load(Ordering::Acquire))
    }

    /// Acquire: pairs with the release in [`push`](Self::push).
    pub(crate) fn is_empty(&self) -> bool {
        address_of(self.head.load(Ordering::Acquire)).is_null()
    }

    /// Returns whether so many entries wait that the worker must not go to sleep.
    pub(crate) fn is_deep(&self) -> bool {
        self.depth() >= WAKE_DEPTH
    }

    /// Closes the queue for good, and returns the entries that were pushed before. Acquire: pairs
    /// with the release in [`push`](Self::push).
    pub(crate) fn close(&self) -> Taken<FromQueue> {
        let head = self.head.swap(ptr::without_provenance_mut(CLOSED), Ordering::AcqRel);
        Self::taken(head)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::NonNull;

    use super::*;

    fn push(queue: &SideQueue, entry: &Entry) -> Option<SidePush> {
        // SAFETY: the test owns the entry, which has no task, and pushes it once.
        queue.push(unsafe { Queued::new(NonNull::from(entry)) }).ok()
    }

    #[test]
    fn pushed_entries_come_out_once_and_each_multiple_of_the_depth_calls_the_worker() {
        let entries: Vec<_> = (0..2 * WAKE_DEPTH).map(|_| Entry::new_free()).collect();
        let queue = SideQueue::new();
        let calls: Vec<_> = (1..)
            .zip(&entries)
            .filter(|(_, entry)| push(&queue, entry) == Some(SidePush::Deep))
            .map(|(n, _)| n)
            .collect();
        assert_eq!(calls, [WAKE_DEPTH, 2 * WAKE_DEPTH]);
        assert_eq!((queue.depth(), queue.is_deep()), (2 * WAKE_DEPTH, true));
        let mut taken = queue.take();
        let out: Vec<_> = std::iter::from_fn(|| taken.pop()).map(|entry| entry.into_raw()).collect();
        assert!(out.into_iter().eq(entries.iter().rev().map(NonNull::from)));
        assert_eq!((queue.depth(), queue.is_deep(), queue.take().is_empty()), (0, false, true));
    }

    #[test]
    fn it_is_deep_from_the_depth_on() {
        let entries: Vec<_> = (0..WAKE_DEPTH).map(|_| Entry::new_free()).collect();
        let queue = SideQueue::new();
        entries[1..].iter().for_each(|entry| _ = push(&queue, entry));
        assert!(!queue.is_deep());
        push(&queue, &entries[0]);
        assert!(queue.is_deep());
    }

    #[test]
    fn a_closed_queue_accepts_nothing() {
        let (queue, before, after) = (SideQueue::new(), Entry::new_free(), Entry::new_free());
        push(&queue, &before);
        assert_eq!(queue.close().depth(), 1);
        assert!(push(&queue, &after).is_none() && !queue.is_deep() && queue.is_empty());
        assert!(queue.close().is_empty());
    }
}
