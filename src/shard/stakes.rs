//! Who else keeps an engine going: futures that may need it later, and are not timers. Each holds a stake.
//!
//! A count that every future of a server writes to would be the one cache line that all of its threads share. So each thread counts the
//! stakes that it makes by itself; whoever drops one, be it another thread, counts it off there. While there is a timer nobody needs the
//! sum. When the last timer has gone no stake is added any more, so that all counts that are not at zero are known; and they are closed,
//! one after the other: a count that is at zero then is settled by whoever closes it, and another by the stake that brings it to zero.
//! Whoever settles the last count carries out what the timer has left behind: a will, which ends the engine. (Threads that are so far gone
//! that they have no producer share a count; and so do those of a forked child.)

use std::fmt;
use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use super::hub::Hub;
use super::producer::Producer;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

/// What ends the engine. Keeps the hub until then.
type Will = Box<dyn FnOnce() + Send>;

const CLOSED: usize = 1 << (usize::BITS - 1);

/// The stakes that one thread has made.
#[derive(Debug)]
pub(super) struct Count(AtomicUsize);

impl Count {
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// True if it was at zero: then it is settled.
    fn close(&self) -> bool {
        // Release: a stake that settles it finds it counted. Acquire: as in the drop of a stake.
        self.0.fetch_or(CLOSED, Ordering::AcqRel) == 0
    }
}

/// Of a hub.
pub(super) struct Stakes {
    /// Counts that are closed and not settled yet; one more until all are closed.
    unsettled: AtomicUsize,
    will: Mutex<Option<Will>>,
    /// Of the threads that have no producer of their own.
    others: CachePadded<Count>,
}

impl Stakes {
    pub(super) fn new() -> Self {
        Self { unsettled: AtomicUsize::new(1), will: Mutex::new(None), others: CachePadded::new(Count::new()) }
    }

    /// By a pointer: the hub may go with the will, and a reference that is an argument has to be valid until its function returns.
    ///
    /// # Safety
    /// So many counts are the caller's to settle, so that the will has not been carried out.
    unsafe fn settle(this: *const Self, counts: usize) {
        // AcqRel: whoever settles the last sees the will, and all that was done with the other stakes.
        // SAFETY: as above: the hub is there as long as a count is not settled.
        if unsafe { &(*this).unsettled }.fetch_sub(counts, Ordering::AcqRel) == counts {
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
    /// A stake for a future. The caller has a timer.
    #[inline]
    pub(crate) fn stake(&self) -> Stake {
        let count = self.own_producer().map_or(&*self.stakes.others, Producer::stakes);
        // Relaxed: that the engine goes on is the timer's doing as yet.
        count.0.fetch_add(1, Ordering::Relaxed);
        Stake { hub: NonNull::from(self), count: NonNull::from(count) }
    }

    /// The last timer has gone: `will` is carried out when the last stake has, at once if there is none. Once. It keeps the hub.
    pub(crate) fn close_stakes(&self, will: impl FnOnce() + Send + 'static) {
        *lock(&self.stakes.will) = Some(Box::new(will));
        // Whose producer is not among these yet has made no stake: those were made by somebody who had a timer, before it went.
        let counts = self.producers().map(Producer::stakes).chain([&*self.stakes.others]);
        let settled = counts.filter(|count| {
            // First, so that no stake settles it before it is counted. Relaxed: a stake that settles it has seen it closed.
            self.stakes.unsettled.fetch_add(1, Ordering::Relaxed);
            count.close()
        });
        let settled = settled.count();
        // SAFETY: those were found at zero, and closed, so that nobody else settles them, and the one more is the caller's, who has the hub.
        unsafe { Stakes::settle(&raw const self.stakes, settled + 1) };
    }
}

/// Keeps an engine going, as a timer does.
pub(crate) struct Stake {
    hub: NonNull<Hub>,
    /// Where it is counted: in the hub, or in a producer of it.
    count: NonNull<Count>,
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
        // SAFETY: as in `hub`; producers stay as long as the hub.
        let count = unsafe { self.count.as_ref() };
        // Release: whoever carries out the will sees what was done with this stake. Acquire: if it settles the count, that is after all
        // that was done with the others of it.
        if count.0.fetch_sub(1, Ordering::AcqRel) == CLOSED | 1 {
            // SAFETY: the hub is there, as this count is not settled yet.
            let stakes = unsafe { &raw const (*hub.as_ptr()).stakes };
            // SAFETY: it is this stake's to settle.
            unsafe { Stakes::settle(stakes, 1) };
        }
    }
}

impl fmt::Debug for Stake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stake").finish_non_exhaustive()
    }
}
