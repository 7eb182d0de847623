//! A queue from any thread to a worker: an intrusive stack, of which the worker takes all entries
//! at once. The inbox is one. The others are the two side queues, of linked entries of which the
//! worker has to be told: the cancelled queue holds those that were cancelled, and the moved queue
//! those that were reset to an earlier deadline.
//!
//! ```text
//! head = depth (16 bits, saturating) | newest entry's address, 64-byte aligned | CLOSED | ASLEEP
//! ```
//!
//! The depth costs nothing, because the compare-and-swap of a push writes it. It bounds how many
//! cancelled entries can pile up unseen: a push that makes the queue deep wakes the worker,
//! whatever is due. Only an inbox has ASLEEP.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::entry::{ADDRESS_BITS, Chain, Entry, FromQueue, Held, Link, Owned, Queued, Stacked, Token};
use crate::sync::{AtomicPtr, Ordering};

/// Set if the worker sleeps, or has not been started.
pub(super) const ASLEEP: usize = 1;
/// Set if the queue accepts nothing more, because the engine has been shut down.
pub(super) const CLOSED: usize = 2;
/// An entry's address leaves its low bits free, too.
const ADDRESS: usize = ((1 << ADDRESS_BITS) - 1) & !63;
const ONE_DEEP: usize = 1 << ADDRESS_BITS;
/// The bits of the depth.
const DEPTH: usize = !(ONE_DEEP - 1);

/// At this depth the worker is woken even if nothing is due. It is small enough that the entries of
/// a producer that schedules and cancels in a ring stay in its second-level cache (8,192 × 64 bytes
/// = 512 KiB).
pub(crate) const WAKE_DEPTH: usize = if cfg!(loom) {
    2
} else if cfg!(miri) {
    8
} else {
    8_192
};

fn depth_of(head: Link) -> usize {
    head.addr() >> ADDRESS_BITS
}

fn address_of(head: Link) -> Link {
    head.map_addr(|addr| addr & ADDRESS)
}

/// Returns the tags of a queue that is `len` deeper, and at most as deep as the tags can say.
#[inline]
fn deeper_by(tags: usize, len: usize) -> usize {
    #[cold]
    fn deepest(tags: usize) -> usize {
        tags | DEPTH
    }
    match len.checked_mul(ONE_DEEP).and_then(|deeper| tags.checked_add(deeper)) {
        Some(tags) => tags,
        None => deepest(tags),
    }
}

/// The tags of a queue's head after a push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pushed(usize);

impl Pushed {
    /// Returns whether the worker was asleep when the entry was pushed. If it was awake, it will
    /// look at the inbox before it sleeps.
    #[inline]
    pub(crate) fn is_asleep(self) -> bool {
        self.0 & ASLEEP != 0
    }

    /// Returns whether the queue is so deep that a worker that sleeps has to be woken.
    #[inline]
    pub(crate) fn is_deep(self) -> bool {
        self.0 >= WAKE_DEPTH * ONE_DEEP
    }

    /// Returns whether the push has made the depth a multiple of [`WAKE_DEPTH`]. The caller that
    /// pushed to a side queue then has to wake the worker.
    #[inline]
    pub(crate) fn is_deep_again(self) -> bool {
        (self.0 & DEPTH).is_multiple_of(WAKE_DEPTH * ONE_DEEP)
    }
}

/// A queue whose entries come out as values of type `T`.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    pub(super) head: AtomicPtr<Entry>,
    of: PhantomData<fn() -> T>,
}

impl<T: Stacked> Queue<T> {
    /// Returns an empty queue. An inbox says by ASLEEP whether its worker is asleep.
    pub(super) fn empty(tags: usize) -> Self {
        Self { head: AtomicPtr::new(ptr::without_provenance_mut(tags)), of: PhantomData }
    }

    /// Pushes `len` entries, linked to each other from the first on. `put_below` links the last one
    /// to what is below. One exchange pushes all of them, or none if the queue is closed.
    /// The caller gives the entries up as values of type `T`: a `Queued` is a `FromQueue` from then
    /// on.
    ///
    /// The release half of the exchange publishes the entries to the worker's swap in
    /// [`take`](Self::take). Each push is a read-modify-write, so it continues the release
    /// sequences of the pushes before it, and the swap synchronises with all of them. The acquire
    /// half pairs with [`fall_asleep`](Queue::fall_asleep): a push that reads ASLEEP
    /// then reads a `wake_at` at least as new as the one that was stored before it.
    #[inline]
    fn push_linked(&self, first: Link, len: usize, mut put_below: impl FnMut(Link)) -> Option<Pushed> {
        debug_assert_eq!(first.addr() & ADDRESS, first.addr(), "an address of up to 48 bits, 64-aligned");
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head.addr() & CLOSED != 0 {
                // A closed queue stays closed.
                return None;
            }
            put_below(address_of(head));
            let tags = deeper_by(head.addr() & (ASLEEP | DEPTH), len);
            // The address leaves their bits free, so a sum is as good as an or, and cheaper.
            let new = first.wrapping_byte_add(tags);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(Pushed(tags)),
                Err(now) => head = now,
            }
        }
    }

    /// Takes all that was pushed. Only the worker calls this. It is awake from here on.
    pub(crate) fn take(&self) -> Taken<T> {
        // Load first: while nothing arrives, the worker only reads. If ASLEEP is still set, the
        // clock woke the worker, and the swap clears it.
        if self.head.load(Ordering::Relaxed).is_null() {
            return Taken::NONE;
        }
        debug_assert!(!self.is_closed(), "a worker with a command takes by `close`");
        // Acquire: pairs with the release in `push_linked`. Release: pairs with the Acquire in
        // `depth`.
        let head = self.head.swap(ptr::null_mut(), Ordering::AcqRel);
        Self::taken(head)
    }

    /// Closes the queue for good. Only the worker calls this. It is awake from here on.
    ///
    /// The entries that this returns, with those taken before, are all that was ever accepted. If
    /// the queue was closed before, this returns none. Acquire: pairs with the release in
    /// `push_linked`.
    pub(crate) fn close(&self) -> Taken<T> {
        let closed = ptr::without_provenance_mut(CLOSED);
        let head = self.head.swap(closed, Ordering::AcqRel);
        Self::taken(head)
    }

    /// Returns the entries below a head, as `take` and `close` have just taken it out.
    fn taken(head: Link) -> Taken<T> {
        Taken { first: address_of(head), depth: depth_of(head), of: PhantomData }
    }

    /// Returns whether it is closed. Acquire: pairs with the release of `close`, so that a caller
    /// that is refused for this sees what led to it.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.head.load(Ordering::Acquire).addr() & CLOSED != 0
    }

    /// Returns how many entries wait, up to 65,535. Acquire: pairs with the release in
    /// `push_linked`, and in [`take`](Self::take), so that a thread that sees the entries taken
    /// also sees the backlog that the worker noted before.
    pub(crate) fn depth(&self) -> usize {
        depth_of(self.head.load(Ordering::Acquire))
    }
}

impl Queue<Owned> {
    /// Pushes one entry. It is the queue's then, unless that is closed: then this returns `None`.
    #[inline]
    pub(super) fn push<S>(&self, entry: &Held<S>) -> Option<Pushed> {
        self.push_linked(entry.address().as_ptr(), 1, |below| entry.set_next(below))
    }

    /// Pushes a chain of entries, the first on top: all of them, or none.
    pub(super) fn push_chain<S>(&self, mut chain: Chain<Held<S>>) -> Result<Pushed, Chain<Held<S>>> {
        let Some(first) = chain.as_link() else { return Ok(Pushed::default()) };
        let len = chain.len();
        self.push_linked(first, len, |below| chain.set_end(below)).ok_or(chain)
    }
}

/// A queue of linked entries of which the worker has to be told.
pub(crate) type SideQueue = Queue<FromQueue>;

impl SideQueue {
    pub(super) fn new() -> Self {
        Self::empty(0)
    }

    /// Pushes an entry. Returns it if the queue is closed: the engine has given up all its entries,
    /// or is about to, without looking at this queue.
    #[inline]
    pub(super) fn push<'h>(&self, entry: Queued<'h>) -> Result<Pushed, Queued<'h>> {
        self.push_linked(entry.address().as_ptr(), 1, |below| entry.set_below(below)).ok_or(entry)
    }
}

/// Entries out of a queue: newest first, as they were taken, or turned round by pushes. They are
/// the worker's.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    first: Link,
    depth: usize,
    of: PhantomData<T>,
}

// SAFETY: the list is the values that were pushed.
unsafe impl<T: Send> Send for Taken<T> {}

impl<T: Stacked> Taken<T> {
    pub(crate) const NONE: Self = Self { first: ptr::null_mut(), depth: 0, of: PhantomData };

    pub(crate) const fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Returns how many entries were taken out of the queue, up to 65,535, or 0 if the list is
    /// empty by now. Those that were pushed do not count.
    pub(crate) const fn depth(&self) -> usize {
        if self.is_empty() { 0 } else { self.depth }
    }

    /// Takes one entry off.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        // SAFETY: the entries were taken out of a queue of such values, or pushed as such. (A
        // `Queued` that was pushed to a side queue is one once it is in.) They are this value's,
        // which gives each out once.
        let entry = unsafe { T::from_raw(NonNull::new(self.first)?) };
        self.first = entry.below();
        crate::sync::prefetch(self.first);
        Some(entry)
    }
}

impl Taken<Owned> {
    /// Puts an entry before all others.
    #[inline]
    pub(crate) fn push(&mut self, entry: Owned) {
        entry.set_next(self.first);
        self.first = entry.into_raw().as_ptr();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::NonNull;

    use super::*;

    fn push(queue: &SideQueue, entry: &Entry) -> Option<Pushed> {
        // SAFETY: the test owns the entry, which has no task, and pushes it once.
        queue.push(unsafe { Queued::new(NonNull::from(entry)) }).ok()
    }

    #[test]
    fn pushed_entries_come_out_once_and_each_multiple_of_the_depth_calls_the_worker() {
        let entries: Vec<_> = (0..2 * WAKE_DEPTH).map(|_| Entry::new_free()).collect();
        let queue = SideQueue::new();
        let calls: Vec<_> = (1..)
            .zip(&entries)
            .filter(|(_, entry)| push(&queue, entry).is_some_and(Pushed::is_deep_again))
            .map(|(n, _)| n)
            .collect();
        assert_eq!(calls, [WAKE_DEPTH, 2 * WAKE_DEPTH]);
        assert_eq!(queue.depth(), 2 * WAKE_DEPTH);
        let mut taken = queue.take();
        let out: Vec<_> = std::iter::from_fn(|| taken.pop()).map(|entry| entry.into_raw()).collect();
        assert!(out.into_iter().eq(entries.iter().rev().map(NonNull::from)));
        assert_eq!((queue.depth(), queue.take().is_empty()), (0, true));
    }

    #[test]
    fn a_closed_queue_accepts_nothing() {
        let (queue, before, after) = (SideQueue::new(), Entry::new_free(), Entry::new_free());
        push(&queue, &before);
        assert_eq!(queue.close().depth(), 1);
        assert!(push(&queue, &after).is_none() && queue.depth() == 0);
        assert!(queue.close().is_empty());
    }

    #[test]
    fn the_depth_stops_at_its_largest() {
        let (queue, entry) = (SideQueue::new(), Entry::new_free());
        queue.push_linked((&raw const entry).cast_mut(), 65_535 + 9, |_| ()).expect("open");
        assert_eq!(queue.depth(), 65_535);
        let mut taken = queue.take();
        let out = taken.pop().map(|entry| entry.into_raw());
        assert!(out == Some(NonNull::from(&entry)) && taken.is_empty(), "the count has not run over into the address");
    }
}
