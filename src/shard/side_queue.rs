//! The two queues beside the inbox, each a stack of entries: the cancelled queue, of entries that were cancelled after the worker had
//! linked them, and the reset queue, of nodes that name the entries that were reset to an earlier deadline.

use std::ptr::{self, NonNull};

use super::stack::{CLOSED, MAX_DEPTH, ONE_DEEP, Taken, WAKE_DEPTH, address_of, depth_of};
use crate::entry::{Entry, entry_ref};
use crate::sync::{AtomicPtr, Ordering};

/// The same stack as the inbox without a sleeper, through a link of its own (where the task was), because the
/// entries in it may still be linked in the wheel.
#[derive(Debug)]
pub(crate) struct SideQueue {
    head: AtomicPtr<Entry>,
}

/// What came of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SidePush {
    Done,
    /// So many wait that the worker has to be woken: at each multiple of [`WAKE_DEPTH`].
    Deep,
    /// Into a closed queue nothing is pushed: the engine has let go of all its entries by then, or is about to, without looking
    /// at this queue.
    Closed,
}

impl SideQueue {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Pushes an entry.
    ///
    /// # Safety
    /// The entry's body is the caller's, with no task in it, and the worker's if it was pushed. It stays valid until this returns.
    #[inline]
    pub(crate) unsafe fn push(&self, entry: NonNull<Entry>) -> SidePush {
        // SAFETY: as above.
        let this = unsafe { entry_ref(entry) };
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head.addr() & CLOSED != 0 {
                return SidePush::Closed;
            }
            this.set_next_aside(address_of(head));
            let depth = (depth_of(head) + 1).min(MAX_DEPTH);
            let new = entry.as_ptr().map_addr(|addr| addr | (depth * ONE_DEEP));
            // Release: pairs with the Acquire in `take`, for the link.
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if depth.is_multiple_of(WAKE_DEPTH) => return SidePush::Deep,
                Ok(_) => return SidePush::Done,
                Err(now) => head = now,
            }
        }
    }

    pub(crate) fn take(&self) -> Taken {
        if self.head.load(Ordering::Relaxed).is_null() {
            return Taken::NONE;
        }
        // Acquire: pairs with the release in `push`. Release: pairs with the Acquire in `depth`.
        Taken::new(self.head.swap(ptr::null_mut(), Ordering::AcqRel))
    }

    /// How many entries wait, up to 65,535. Acquire: as of the inbox.
    pub(crate) fn depth(&self) -> usize {
        depth_of(self.head.load(Ordering::Acquire))
    }

    /// Acquire: as in [`take`](Self::take).
    pub(crate) fn is_empty(&self) -> bool {
        address_of(self.head.load(Ordering::Acquire)).is_null()
    }

    /// Whether so many wait that the worker should not go to sleep.
    pub(crate) fn is_deep(&self) -> bool {
        self.depth() >= WAKE_DEPTH
    }

    /// Closes the queue for good, and returns what was pushed before. Acquire: as in [`take`](Self::take).
    pub(crate) fn close(&self) -> Taken {
        Taken::new(self.head.swap(ptr::without_provenance_mut(CLOSED), Ordering::AcqRel))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn push(queue: &SideQueue, entry: &Entry) -> SidePush {
        // SAFETY: ours, without a task, and pushed once.
        unsafe { queue.push(NonNull::from(entry)) }
    }

    #[test]
    fn what_is_pushed_comes_out_once_and_each_multiple_of_the_depth_calls_the_worker() {
        let entries: Vec<_> = (0..2 * WAKE_DEPTH).map(|_| Entry::new_free()).collect();
        let queue = SideQueue::new();
        let calls: Vec<_> =
            (1..).zip(&entries).filter(|(_, entry)| push(&queue, entry) == SidePush::Deep).map(|(n, _)| n).collect();
        assert_eq!(calls, [WAKE_DEPTH, 2 * WAKE_DEPTH]);
        assert_eq!((queue.depth(), queue.is_deep()), (2 * WAKE_DEPTH, true));
        let mut taken = queue.take();
        // SAFETY: taken out, and by the link that the push wrote.
        let out: Vec<_> = std::iter::from_fn(|| unsafe { taken.pop(Entry::next_aside) }).collect();
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
    fn into_a_closed_queue_nothing_is_pushed() {
        let (queue, before, after) = (SideQueue::new(), Entry::new_free(), Entry::new_free());
        push(&queue, &before);
        assert_eq!(queue.close().depth(), 1);
        assert!(push(&queue, &after) == SidePush::Closed && !queue.is_deep() && queue.is_empty());
        assert!(queue.close().is_empty());
    }
}
