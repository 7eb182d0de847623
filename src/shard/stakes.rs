//! Who else keeps an engine going: futures that may need it later, and are not timers. Each holds a stake.
//!
//! A count that every future of a server writes to would be the one cache line that all of its threads share. So stakes are counted shard by
//! shard, each on the shard that is home to the thread that made the future; whoever drops it, be it another thread, counts it off there.
//! While there is a timer nobody needs the sum. When the last timer has gone no stake is added any more, and the counts are closed, one
//! after the other: a count that is at zero then is settled by whoever closes it, and another by the stake that brings it to zero. Whoever
//! settles the last count carries out what the timer has left behind: a will, which ends the engine.

use std::fmt;
use std::ptr::NonNull;

use super::hub::Hub;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

/// What ends the engine. Keeps the hub until then.
type Will = Box<dyn FnOnce() + Send>;

const CLOSED: usize = 1 << (usize::BITS - 1);

/// The stakes that are counted on one shard.
#[derive(Debug)]
pub(super) struct Count(AtomicUsize);

impl Count {
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }
}

/// Of a hub.
pub(super) struct Stakes {
    /// Counts that are not settled yet.
    unsettled: AtomicUsize,
    will: Mutex<Option<Will>>,
}

impl Stakes {
    pub(super) fn new(shards: usize) -> Self {
        Self { unsettled: AtomicUsize::new(shards), will: Mutex::new(None) }
    }

    /// By a pointer: the hub may go with the will, and a reference that is an argument has to be valid until its function returns.
    ///
    /// # Safety
    /// So many counts are the caller's to settle, so that the will has not been carried out.
    unsafe fn settle(this: *const Self, counts: usize) {
        // AcqRel: whoever settles the last sees the will, and all that was done with the other stakes.
        // SAFETY: as above: the hub is there as long as a count is not settled.
        if counts > 0 && unsafe { &(*this).unsettled }.fetch_sub(counts, Ordering::AcqRel) == counts {
            // SAFETY: the will, which is carried out here and nowhere else, keeps the hub until then.
            let will = lock(unsafe { &(*this).will }).take();
            // Not under the lock, and the last access to the hub, which may go with it.
            if let Some(will) = will {
                will();
            }
        }
    }
}

impl Hub {
    /// A stake for a future. The caller has a timer, or a stake.
    #[inline]
    pub(crate) fn stake(&self) -> Stake {
        let shard = self.with_producer(|mine| self.home_of(mine, None).index());
        // Relaxed: that the engine goes on is the timer's doing as yet.
        self.mailbox(shard).stakes.0.fetch_add(1, Ordering::Relaxed);
        Stake { hub: NonNull::from(self), shard }
    }

    /// The last timer has gone: `will` is carried out when the last stake has, at once if there is none. Once. It keeps the hub.
    pub(crate) fn close_stakes(&self, will: impl FnOnce() + Send + 'static) {
        *lock(&self.stakes.will) = Some(Box::new(will));
        // Release: who settles the count sees the will. Acquire: as in `drop`.
        let close = |count: &Count| count.0.fetch_or(CLOSED, Ordering::AcqRel) == 0;
        let settled = self.mailboxes().iter().filter(|mailbox| close(&mailbox.stakes)).count();
        // SAFETY: found at zero, and closed, so that nobody else settles them; the caller has the hub.
        unsafe { Stakes::settle(&raw const self.stakes, settled) };
    }
}

/// Keeps an engine going, as a timer does.
pub(crate) struct Stake {
    hub: NonNull<Hub>,
    shard: usize,
}

// SAFETY: all that it does with the hub, others do, too, at the same time.
unsafe impl Send for Stake {}
// SAFETY: as above.
unsafe impl Sync for Stake {}

impl Stake {
    #[inline]
    pub(crate) fn hub(&self) -> &Hub {
        // SAFETY: the hub goes with the will, which is not carried out before this stake is counted off.
        unsafe { self.hub.as_ref() }
    }
}

impl Drop for Stake {
    #[inline]
    fn drop(&mut self) {
        let hub = self.hub;
        // Release: whoever carries out the will sees what was done with this stake. Acquire: if that is this one, it sees the will.
        if self.hub().mailbox(self.shard).stakes.0.fetch_sub(1, Ordering::AcqRel) == CLOSED | 1 {
            // SAFETY: the hub is there, as this count is not settled yet.
            let stakes = unsafe { &raw const (*hub.as_ptr()).stakes };
            // SAFETY: it is this stake's to settle.
            unsafe { Stakes::settle(stakes, 1) };
        }
    }
}

impl fmt::Debug for Stake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stake").field("shard", &self.shard).finish_non_exhaustive()
    }
}
