//! The inbox: an intrusive stack. A producer pushes with one compare-and-swap, and the worker takes
//! the whole stack with one swap. Its head is also the worker's doorbell, and says whether the
//! shard is closed. `README.md` here holds the proof.
//!
//! ```text
//! head = depth (16 bits, saturating) | newest entry's address, 64-byte aligned | CLOSED | ASLEEP
//! ```
//!
//! The depth costs nothing, because the same compare-and-swap writes it. It bounds how many
//! cancelled entries can pile up unseen: the push that brings it to [`WAKE_DEPTH`] wakes the
//! worker, whatever its deadline.

use std::ptr;

use super::stack::{ADDRESS, CLOSED, DEPTH, ONE_DEEP, Taken, WAKE_DEPTH, address_of, deeper_by, depth_of};
use crate::entry::{Arrival, Chain, Entry, Link, Owned, Token};
use crate::sync::{AtomicPtr, Ordering};

const ASLEEP: usize = 1;

/// What a successful push found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The worker is awake and will look at the inbox before it sleeps.
    Awake,
    /// The worker was asleep when the entry was pushed.
    Asleep,
    /// The worker was asleep, and the inbox is so deep that the caller has to wake it.
    AsleepAndDeep,
}

/// The inbox was closed; the entry is still the caller's.
#[derive(Debug)]
pub(crate) struct Closed;

#[derive(Debug)]
pub(crate) struct Inbox {
    head: AtomicPtr<Entry>,
}

impl Inbox {
    /// Returns an empty inbox whose worker is asleep. The worker has not been started yet; the
    /// thread that wakes it starts it.
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::without_provenance_mut(ASLEEP)) }
    }

    /// Pushes one entry. It is the inbox's then, unless that is closed.
    ///
    /// The release half of the exchange publishes the entry to the worker's swap in
    /// [`take`](Self::take). Each push is a read-modify-write, so it continues the release
    /// sequences of the pushes before it, and the swap synchronises with all of them. The acquire
    /// half pairs with [`fall_asleep`](Self::fall_asleep): a push that reads ASLEEP then reads a
    /// `wake_at` at least as new as the one that was stored before it.
    #[inline]
    pub(super) fn push(&self, entry: &Owned) -> Result<Pushed, Closed> {
        self.push_linked(entry.as_link(), 1, |below| entry.set_below(below))
    }

    /// Pushes a chain of entries, the first on top. One exchange pushes all of them, or none.
    pub(super) fn push_chain<T: Arrival>(&self, mut chain: Chain<T>) -> Result<Pushed, Chain<T>> {
        let Some(first) = chain.as_link() else { return Ok(Pushed::Awake) };
        let len = chain.len();
        self.push_linked(first, len, |below| chain.set_end(below)).map_err(|Closed| chain)
    }

    #[inline]
    fn push_linked(&self, first: Link, len: usize, mut put_below: impl FnMut(Link)) -> Result<Pushed, Closed> {
        debug_assert_eq!(first.addr() & ADDRESS, first.addr(), "an address of up to 48 bits, 64-aligned");
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head.addr() & CLOSED != 0 {
                // A closed inbox stays closed. Acquire: pairs with the release of `close`, so that
                // the refused caller sees what led to it.
                self.head.load(Ordering::Acquire);
                return Err(Closed);
            }
            put_below(address_of(head));
            let tags = deeper_by(head.addr() & (ASLEEP | DEPTH), len);
            // The address leaves their bits free, so a sum is as good as an or, and cheaper.
            let new = first.wrapping_byte_add(tags);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if tags & ASLEEP == 0 => return Ok(Pushed::Awake),
                Ok(_) if tags < WAKE_DEPTH * ONE_DEEP => return Ok(Pushed::Asleep),
                Ok(_) => return Ok(Pushed::AsleepAndDeep),
                Err(now) => head = now,
            }
        }
    }

    /// Takes all that was pushed. Only the worker calls this. It is awake from here on.
    pub(crate) fn take(&self) -> Taken<Owned> {
        // Load first: while nothing arrives, the worker only reads. If ASLEEP is still set, the
        // clock woke the worker, and the swap clears it. Acquire (of the swap): pairs with the
        // release in `push`.
        if self.head.load(Ordering::Relaxed).is_null() {
            return Taken::NONE;
        }
        debug_assert!(!self.is_closed(), "a draining worker takes by `close`");
        let head = self.head.swap(ptr::null_mut(), Ordering::AcqRel);
        Self::taken(head)
    }

    /// Returns the entries below a head, as `take` and `close` have just taken it out.
    fn taken(head: Link) -> Taken<Owned> {
        // SAFETY: the head was taken out of this stack, into which only such values are pushed.
        unsafe { Taken::new(head) }
    }

    /// Sets ASLEEP if the inbox is empty or closed, and returns whether it did. Only the worker
    /// calls this. From then on, a thread that wants the worker to run clears ASLEEP and unparks
    /// the worker.
    ///
    /// Release: publishes `wake_at`. A thread whose read-modify-write reads ASLEEP also knows that
    /// the worker has not looked at its queues since.
    pub(crate) fn fall_asleep(&self) -> bool {
        let set = |empty: usize| {
            let (empty, asleep) = (ptr::without_provenance_mut(empty), ptr::without_provenance_mut(empty | ASLEEP));
            self.head.compare_exchange(empty, asleep, Ordering::AcqRel, Ordering::Relaxed)
        };
        // Only the worker closes the inbox, so nobody closes it in between.
        set(0).is_ok() || (self.is_closed() && set(CLOSED).is_ok())
    }

    /// Clears ASLEEP. Returns true if it was set: the caller then has to unpark the worker.
    ///
    /// This is a read-modify-write even if there is nothing to clear. Only that proves that the
    /// head read is the newest one: either this call sees ASLEEP, or the worker sets it later and
    /// sees what the caller did before this call.
    pub(crate) fn wake(&self) -> bool {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let awake = head.map_addr(|addr| addr & !ASLEEP);
            match self.head.compare_exchange_weak(head, awake, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return head.addr() & ASLEEP != 0,
                Err(now) => head = now,
            }
        }
    }

    /// Returns whether the worker is asleep. This is a read-modify-write for the same reason as in
    /// [`wake`](Self::wake), but it changes nothing.
    pub(crate) fn is_asleep(&self) -> bool {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            match self.head.compare_exchange_weak(head, head, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return head.addr() & ASLEEP != 0,
                Err(now) => head = now,
            }
        }
    }

    /// Returns whether the worker is asleep, by a load that may be old. It is as new as the
    /// caller's last push, or as what the caller knows of another thread's push. Acquire: pairs
    /// with [`fall_asleep`](Self::fall_asleep), for `wake_at`.
    #[inline]
    pub(crate) fn looks_asleep(&self) -> bool {
        self.head.load(Ordering::Acquire).addr() & ASLEEP != 0
    }

    /// Sets ASLEEP again, for a worker that could not be started, even if the inbox holds entries.
    pub(crate) fn put_back_to_sleep(&self) {
        let mut head = self.head.load(Ordering::Relaxed);
        while head.addr() & CLOSED == 0 {
            let asleep = head.map_addr(|addr| addr | ASLEEP);
            match self.head.compare_exchange_weak(head, asleep, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Closes the inbox for good. Only the worker calls this. It is awake from here on.
    ///
    /// The entries that this returns, with those taken before, are all that was ever accepted. If
    /// the inbox was closed before, this returns none.
    pub(crate) fn close(&self) -> Taken<Owned> {
        let closed = ptr::without_provenance_mut(CLOSED);
        let head = self.head.swap(closed, Ordering::AcqRel);
        Self::taken(head)
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.head.load(Ordering::Acquire).addr() & CLOSED != 0
    }

    /// Returns how many entries wait, up to 65,535. Acquire: pairs with the release in
    /// [`take`](Self::take), so that a thread that sees the entries taken also sees the backlog
    /// that the worker noted before.
    pub(crate) fn depth(&self) -> usize {
        depth_of(self.head.load(Ordering::Acquire))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::NonNull;

    use super::*;

    /// Entries of no arena. They live until the test ends.
    fn entries(len: usize) -> Vec<Entry> {
        (0..len).map(|_| Entry::new_free()).collect()
    }

    fn push(inbox: &Inbox, entry: &Entry) -> Result<Pushed, Closed> {
        // SAFETY: the test owns the entry and pushes it once.
        let entry = unsafe { Owned::new(NonNull::from(entry)) };
        inbox.push(&entry)
    }

    fn drain(mut taken: Taken<Owned>) -> Vec<*const Entry> {
        std::iter::from_fn(|| taken.pop()).map(|entry| entry.into_raw().as_ptr().cast_const()).collect()
    }

    #[test]
    fn pushed_entries_come_out_once_newest_first_and_are_counted() {
        let (inbox, entries) = (Inbox::new(), entries(3));
        for (depth, entry) in entries.iter().enumerate() {
            assert_eq!(inbox.depth(), depth);
            assert_eq!(push(&inbox, entry).expect("open"), Pushed::Asleep, "nobody has woken the worker");
        }
        let taken = inbox.take();
        assert_eq!((taken.depth(), taken.is_empty(), inbox.depth()), (3, false, 0));
        let newest_first: Vec<_> = entries.iter().rev().map(std::ptr::from_ref).collect();
        assert_eq!(drain(taken), newest_first);
        assert!(inbox.take().is_empty() && inbox.take().depth() == 0);
    }

    #[test]
    fn a_chain_is_pushed_whole_onto_earlier_entries() {
        let (inbox, entries) = (Inbox::new(), entries(4));
        push(&inbox, &entries[0]).expect("open");
        let mut chain = Chain::new();
        // SAFETY: the test owns the entries, and pushes them once.
        entries[1..].iter().for_each(|entry| chain.push(unsafe { Owned::new(NonNull::from(entry)) }));
        inbox.push_chain(chain).expect("open");
        assert_eq!(inbox.depth(), 4);
        assert_eq!(drain(inbox.take()).len(), 4);
    }

    #[test]
    fn the_worker_falls_asleep_only_over_an_empty_inbox_and_is_woken_once() {
        let (inbox, entries) = (Inbox::new(), entries(2));
        assert!(inbox.looks_asleep() && inbox.is_asleep(), "at first there is no worker");
        assert!(inbox.wake() && !inbox.wake());
        assert!(!inbox.looks_asleep() && !inbox.is_asleep());
        assert_eq!(push(&inbox, &entries[0]).expect("open"), Pushed::Awake);
        assert!(!inbox.fall_asleep(), "something has come");
        assert!(!inbox.looks_asleep());
        drain(inbox.take());
        assert!(inbox.fall_asleep() && inbox.looks_asleep() && inbox.is_asleep());
        assert_eq!(push(&inbox, &entries[1]).expect("open"), Pushed::Asleep, "the pusher decides whether to wake it");
        assert!(inbox.is_asleep() && inbox.wake());
        assert_eq!(drain(inbox.take()).len(), 1, "to be woken takes nothing out");
    }

    #[test]
    fn a_worker_that_takes_is_awake() {
        let (inbox, entries) = (Inbox::new(), entries(1));
        push(&inbox, &entries[0]).expect("open");
        assert!(inbox.is_asleep());
        assert_eq!(drain(inbox.take()).len(), 1);
        assert!(!inbox.is_asleep());
        // An empty inbox wakes the worker too.
        assert!(inbox.fall_asleep());
        assert!(inbox.take().is_empty() && !inbox.is_asleep());
    }

    #[test]
    fn a_worker_that_could_not_be_started_is_asleep_again_with_all_pushed_entries() {
        let (inbox, entries) = (Inbox::new(), entries(2));
        push(&inbox, &entries[0]).expect("open");
        assert!(inbox.wake());
        inbox.put_back_to_sleep();
        assert!(inbox.is_asleep());
        assert_eq!(push(&inbox, &entries[1]).expect("open"), Pushed::Asleep);
        assert_eq!(inbox.depth(), 2);
        assert_eq!(drain(inbox.take()).len(), 2);
    }

    #[test]
    fn a_closed_inbox_takes_nothing_and_lets_the_worker_sleep() {
        let (inbox, entries) = (Inbox::new(), entries(2));
        push(&inbox, &entries[0]).expect("open");
        assert!(!inbox.is_closed());
        assert_eq!(drain(inbox.close()).len(), 1);
        assert!(inbox.is_closed() && !inbox.is_asleep() && inbox.depth() == 0);
        assert!(push(&inbox, &entries[1]).is_err());
        inbox.put_back_to_sleep();
        assert!(!inbox.is_asleep(), "a closed inbox does not put the worker back to sleep");
        // A draining worker sleeps over a closed inbox.
        assert!(inbox.fall_asleep() && inbox.is_asleep() && inbox.is_closed());
        assert!(inbox.wake() && inbox.is_closed() && !inbox.is_asleep());
        assert!(inbox.close().is_empty(), "only once");
    }

    #[test]
    fn a_sleeping_worker_is_to_be_woken_by_the_push_that_makes_it_deep() {
        let (inbox, entries) = (Inbox::new(), entries(WAKE_DEPTH + 1));
        for (depth, entry) in (1..).zip(&entries[..WAKE_DEPTH - 1]) {
            assert_eq!(push(&inbox, entry).expect("open"), Pushed::Asleep, "{depth} deep");
        }
        assert_eq!(push(&inbox, &entries[WAKE_DEPTH - 1]).expect("open"), Pushed::AsleepAndDeep);
        assert!(inbox.wake());
        assert_eq!(push(&inbox, &entries[WAKE_DEPTH]).expect("open"), Pushed::Awake);
        assert_eq!(inbox.depth(), WAKE_DEPTH + 1);
    }

    #[test]
    fn the_depth_stops_at_its_largest() {
        let (inbox, entries) = (Inbox::new(), entries(1));
        inbox.push_linked((&raw const entries[0]).cast_mut(), 65_535 + 9, |_| ()).expect("open");
        assert_eq!(inbox.depth(), 65_535);
        assert_eq!(drain(inbox.take()).len(), 1, "the count has not run over into the address");
    }
}
