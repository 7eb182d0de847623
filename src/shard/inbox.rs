//! The inbox: an intrusive stack that producers push on with one compare-and-swap, and that the worker takes whole with
//! one swap. Its head is also the worker's doorbell and the engine's closing bell. See `README.md` here for the proof.
//!
//! ```text
//! head = depth (16 bits, saturating) | address of the newest entry, 64-byte aligned | CLOSED | ASLEEP
//! ```
//!
//! The depth costs nothing (it rides on the same compare-and-swap), and bounds how many cancelled entries can pile up
//! unseen: the push that brings it to [`WAKE_DEPTH`] wakes the worker whatever its deadline.

use std::ptr::{self, NonNull};

use super::stack::{ADDRESS, CLOSED, MAX_DEPTH, ONE_DEEP, Taken, WAKE_DEPTH, address_of, depth_of};
use crate::entry::{Entry, entry_ref};
use crate::sync::{AtomicPtr, Ordering};

const ASLEEP: usize = 1;

/// What a successful push found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The worker is awake and will come by before it sleeps.
    Awake,
    /// The worker was asleep when the entry was pushed.
    Asleep,
    /// As before, and so many entries wait that it has to be woken.
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
    /// Empty, with the worker asleep: it has not even been started, and whoever wakes it starts it.
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::without_provenance_mut(ASLEEP)) }
    }

    /// Pushes a chain of `len` entries, linked from `first` to `last`: all of them, by one exchange, or none.
    ///
    /// The release half of the exchange publishes the entries to the worker's swap in [`take`](Self::take): each push is
    /// a read-modify-write, so it continues the release sequences of those before it, and the swap synchronises with all.
    /// The acquire half pairs with [`fall_asleep`](Self::fall_asleep): who reads ASLEEP reads a `wake_at` at least as
    /// new as the one that was stored before it.
    ///
    /// # Safety
    /// The entries belong to the caller, who gives them to the worker by an `Ok`.
    #[inline]
    pub(crate) unsafe fn push(
        &self,
        first: NonNull<Entry>,
        last: NonNull<Entry>,
        len: usize,
    ) -> Result<Pushed, Closed> {
        // SAFETY: as above.
        let oldest = unsafe { entry_ref(last) };
        debug_assert_eq!(first.addr().get() & ADDRESS, first.addr().get(), "an address of up to 48 bits, 64-aligned");
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head.addr() & CLOSED != 0 {
                return Err(Closed);
            }
            oldest.set_next(address_of(head));
            let depth = (depth_of(head) + len).min(MAX_DEPTH);
            let tags = (head.addr() & ASLEEP) | (depth * ONE_DEEP);
            let new = first.as_ptr().map_addr(|addr| addr | tags);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if tags & ASLEEP == 0 => return Ok(Pushed::Awake),
                Ok(_) if depth >= WAKE_DEPTH => return Ok(Pushed::AsleepAndDeep),
                Ok(_) => return Ok(Pushed::Asleep),
                Err(now) => head = now,
            }
        }
    }

    /// Takes all that has been pushed, by the worker. It is awake from here on.
    pub(crate) fn take(&self) -> Taken {
        // A look first: while nothing comes, the worker only reads. (It was woken by the clock if ASLEEP is still set,
        // and has to clear it.) Acquire: pairs with the release in `push`.
        if self.head.load(Ordering::Relaxed).is_null() {
            return Taken::NONE;
        }
        debug_assert!(!self.is_closed(), "who drains a shard takes by `close`");
        Taken::new(self.head.swap(ptr::null_mut(), Ordering::AcqRel))
    }

    /// Sets ASLEEP, by the worker, if the inbox is empty, or closed. After that, whoever wants the worker to run clears it and
    /// unparks the worker. Release: publishes `wake_at`; and who reads ASLEEP in a read-modify-write knows that the
    /// worker has not looked at its queues since.
    pub(crate) fn fall_asleep(&self) -> bool {
        let set = |empty: usize| {
            let (empty, asleep) = (ptr::without_provenance_mut(empty), ptr::without_provenance_mut(empty | ASLEEP));
            self.head.compare_exchange(empty, asleep, Ordering::AcqRel, Ordering::Relaxed)
        };
        // Only the worker closes it, so it is not closed in between.
        set(0).is_ok() || (self.is_closed() && set(CLOSED).is_ok())
    }

    /// Clears ASLEEP. True if it was set: the caller then has to unpark the worker.
    ///
    /// A read-modify-write even if there is nothing to clear: only that proves that the head read is the newest, so
    /// either this call sees ASLEEP, or the worker, setting it later, sees what the caller did before this call.
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

    /// Whether the worker is asleep: a read-modify-write for the same reason as in [`wake`](Self::wake), which changes
    /// nothing.
    pub(crate) fn is_asleep(&self) -> bool {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            match self.head.compare_exchange_weak(head, head, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return head.addr() & ASLEEP != 0,
                Err(now) => head = now,
            }
        }
    }

    /// Whether the worker is asleep, by a look that may be old: as new as the caller's last push, or what it knows of
    /// another's. Acquire: pairs with [`fall_asleep`](Self::fall_asleep), for `wake_at`.
    #[inline]
    pub(crate) fn looks_asleep(&self) -> bool {
        self.head.load(Ordering::Acquire).addr() & ASLEEP != 0
    }

    /// Sets ASLEEP again, for a worker that could not be started, whatever is in the inbox.
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

    /// Closes the inbox for good, by the worker, which is awake from here on. What it returns, with all that was taken before,
    /// is all that was ever accepted; if it was closed before, that is nothing.
    pub(crate) fn close(&self) -> Taken {
        let closed = ptr::without_provenance_mut(CLOSED);
        Taken::new(self.head.swap(closed, Ordering::AcqRel))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.head.load(Ordering::Acquire).addr() & CLOSED != 0
    }

    /// How many entries wait, up to 65,535.
    pub(crate) fn depth(&self) -> usize {
        depth_of(self.head.load(Ordering::Relaxed))
    }
}
