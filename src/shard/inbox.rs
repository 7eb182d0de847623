//! The inbox: the queue of what was scheduled. Its head is also the worker's doorbell, and says
//! whether the shard is closed. `README.md` here holds the proof.

use std::ptr;

use super::queue::{ASLEEP, CLOSED, Queue};
use crate::entry::{Link, Owned};
use crate::sync::Ordering;

pub(crate) type Inbox = Queue<Owned>;

impl Inbox {
    /// Returns an empty inbox whose worker is asleep. The worker has not been started yet; the
    /// thread that wakes it starts it.
    pub(crate) fn new() -> Self {
        Self::empty(ASLEEP)
    }

    /// Sets ASLEEP if the inbox is empty or closed, and returns whether it did. Only the worker
    /// calls this. From then on, a thread that wants the worker to run clears ASLEEP and unparks
    /// the worker.
    ///
    /// Release: publishes `wake_at`. A thread whose read-modify-write reads ASLEEP also knows that
    /// the worker has not looked at its queues since. Acquire: pairs with the release in
    /// `was_asleep`, so that the worker's next looks see what that thread did before.
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
        self.was_asleep(|head| head.map_addr(|addr| addr & !ASLEEP))
    }

    /// Returns whether the worker is asleep. This is a read-modify-write for the same reason as in
    /// [`wake`](Self::wake), but it changes nothing.
    pub(crate) fn is_asleep(&self) -> bool {
        self.was_asleep(|head| head)
    }

    fn was_asleep(&self, change: impl Fn(Link) -> Link) -> bool {
        // Acquire: pairs with `fall_asleep`, for `wake_at`. Release: pairs with the worker's next
        // exchange of the head.
        let before = self.head.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |head| Some(change(head)));
        before.is_ok_and(|head| head.addr() & ASLEEP != 0)
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
        let asleep = |head: Link| (head.addr() & CLOSED == 0).then(|| head.map_addr(|addr| addr | ASLEEP));
        // A closed inbox needs no worker. AcqRel: hands on what the sleep before has published, as
        // each exchange of the head does.
        let _ = self.head.fetch_update(Ordering::AcqRel, Ordering::Relaxed, asleep);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::NonNull;

    use super::super::queue::{Taken, WAKE_DEPTH};
    use super::*;
    use crate::entry::{Chain, Entry, Token};

    // The outcomes of a push: whether the worker was asleep, and whether the inbox is deep.
    const AWAKE: Option<[bool; 2]> = Some([false, false]);
    const SLEEPS: Option<[bool; 2]> = Some([true, false]);
    const SLEEPS_AND_IS_DEEP: Option<[bool; 2]> = Some([true, true]);

    /// Entries of no arena. They live until the test ends.
    fn entries(len: usize) -> Vec<Entry> {
        (0..len).map(|_| Entry::new_free()).collect()
    }

    fn push(inbox: &Inbox, entry: &Entry) -> Option<[bool; 2]> {
        // SAFETY: the test owns the entry and pushes it once.
        let entry = unsafe { Owned::new(NonNull::from(entry)) };
        inbox.push(&entry).map(|pushed| [pushed.is_asleep(), pushed.is_deep()])
    }

    fn drain(mut taken: Taken<Owned>) -> Vec<*const Entry> {
        std::iter::from_fn(|| taken.pop()).map(|entry| entry.into_raw().as_ptr().cast_const()).collect()
    }

    #[test]
    fn pushed_entries_come_out_once_newest_first_and_are_counted() {
        let (inbox, entries) = (Inbox::new(), entries(3));
        for (depth, entry) in entries.iter().enumerate() {
            assert_eq!(inbox.depth(), depth);
            assert_eq!(push(&inbox, entry), SLEEPS, "nobody has woken the worker");
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
        let mut chain = Chain::default();
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
        assert_eq!(push(&inbox, &entries[0]), AWAKE);
        assert!(!inbox.fall_asleep(), "something has come");
        assert!(!inbox.looks_asleep());
        drain(inbox.take());
        assert!(inbox.fall_asleep() && inbox.looks_asleep() && inbox.is_asleep());
        assert_eq!(push(&inbox, &entries[1]), SLEEPS, "the pusher decides whether to wake it");
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
        assert_eq!(push(&inbox, &entries[1]), SLEEPS);
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
        assert!(push(&inbox, &entries[1]).is_none());
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
            assert_eq!(push(&inbox, entry), SLEEPS, "{depth} deep");
        }
        assert_eq!(push(&inbox, &entries[WAKE_DEPTH - 1]), SLEEPS_AND_IS_DEEP);
        assert!(inbox.wake());
        assert_eq!(push(&inbox, &entries[WAKE_DEPTH]), Some([false, true]));
        assert_eq!(inbox.depth(), WAKE_DEPTH + 1);
    }
}
