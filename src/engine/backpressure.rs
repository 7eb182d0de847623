//! Back-pressure: a thread that needs more entries waits before it takes them, while too many wait
//! for the worker.
//!
//! Without it, a thread that schedules and cancels faster than the worker collects would take new
//! memory for ever. A cancelled timeout is not pending, but takes up its entry until the worker has
//! gone through it. So a thread that has used up its entries, and takes the next 64, waits in two
//! cases:
//!
//! * as long as more than [`MANY`] cancelled entries wait. These are the entries of the cancelled
//!   queue, and a part of the inbox, estimated from the entries that the worker has met last;
//! * if there are no recycled entries and the arena would have to grow, as long as more than
//!   [`MANY`] entries of any kind wait, because some of them may become free.
//!
//! In both cases together it waits for `max_wait` at most, and then goes on with those 64. So the
//! memory of timeouts that are not pending is bounded, however fast timeouts are scheduled and
//! cancelled. The bound is what waits, as much again that the worker has taken out of its queues
//! and goes through, and 64 for each thread and each `max_wait` for which the worker gets no
//! processor. A worker that makes no progress for long is stuck: nobody waits for it until it moves
//! again, and the arena grows.

use std::ptr::NonNull;

use super::shared::Shared;
use crate::arena::Growth;
use crate::count::Share;
use crate::entry::Entry;
use crate::shard::{Remote, WAKE_DEPTH};
use crate::sync::{sleep_briefly, thread};
use crate::thread::ThreadState;
use crate::time::RealTime;

/// More entries than may wait for a sleeping worker: a worker with more to do is awake.
pub(super) const MANY: usize = 2 * WAKE_DEPTH;

/// How often a thread yields its processor before it sleeps (0.1 ms each).
const YIELDS: usize = 1_024;

/// How long one call may wait, and has waited.
#[derive(Debug, Default)]
pub(super) struct Patience {
    begun: Option<Begun>,
    is_out: bool,
}

#[derive(Debug)]
struct Begun {
    at: RealTime,
    /// The worker's progress when the wait began.
    progress: u64,
    tries: usize,
}

impl Remote {
    /// Counts the worker's steps that give entries back sooner or later. The number only grows.
    fn progress(&self) -> u64 {
        let (counters, linked) = (&self.counters, self.counters.transferred.get());
        let moved = linked.wrapping_add(counters.turned_round.get());
        moved.wrapping_add(counters.collected.get()).wrapping_add(counters.relinked.get())
    }

    /// Returns whether very many cancelled entries wait in the queues. A node of the reset queue
    /// counts as one: it is an entry itself, and the timeout that it names may have been cancelled.
    /// As a rule this reads only the three heads.
    #[inline]
    pub(crate) fn has_much_garbage(&self) -> bool {
        let (cancelled, pushed) = (self.cancelled.depth(), self.inbox.depth());
        let in_inbox = if pushed > MANY { Share::part(self.counters.cancelled_share.get(), pushed) } else { 0 };
        cancelled + self.resets.depth() + in_inbox > MANY
    }

    /// Returns whether very many entries wait, in the queues or in what the worker has taken out of
    /// them.
    pub(super) fn is_behind(&self) -> bool {
        self.inbox_depth() + self.cancelled_depth() + self.reset_depth() > MANY
    }
}

impl Patience {
    /// Waits a little. Returns false if there is no worker to wait for, or if the call has waited
    /// for as long as it may.
    pub(super) fn wait(&mut self, shared: &Shared, remote: &Remote) -> bool {
        let max = shared.max_wait();
        if self.is_out || remote.is_closed() || !remote.is_turned_by_another() {
            return false;
        }
        let progress = remote.progress();
        let Some(begun) = &mut self.begun else {
            if remote.stall.is_stuck(progress) {
                return false;
            }
            self.begun = Some(Begun { at: RealTime::now(), progress, tries: 0 });
            thread::yield_now();
            return true;
        };
        if begun.at.elapsed() >= max {
            remote.stall.note(begun.progress, progress);
            self.is_out = true;
            return false;
        }
        begun.tries += 1;
        if begun.tries < YIELDS {
            thread::yield_now();
        } else {
            sleep_briefly();
        }
        true
    }

    /// Ends the call's part in waiting, after it has its entries: counts the wait, and checks
    /// whether the worker gets a processor if the call has waited for as long as it may. Not
    /// before: the check may tell an operator, whose code may schedule, and so use the thread's
    /// state.
    fn end(&self, shared: &Shared, mine: &ThreadState, remote: &Remote) {
        if self.has_waited() {
            shared.counts_of(mine, remote).waits.add(1);
        }
        if self.is_out {
            remote.check_worker();
        }
    }

    /// Returns whether the call has waited at all.
    pub(super) fn has_waited(&self) -> bool {
        self.begun.is_some()
    }

    /// Returns how the arena is to grow, once the call has nothing to wait for, or no time left.
    pub(super) fn growth(&self) -> Growth {
        if self.is_out { Growth::Little } else { Growth::Double }
    }
}

impl Shared {
    /// Returns a free entry for a timeout on `remote`, or `None` if there is no memory. May wait
    /// for the worker.
    ///
    /// # Safety
    /// `mine` is the calling thread's state, of this engine.
    #[inline]
    pub(crate) unsafe fn take_entry(&self, mine: &ThreadState, remote: &Remote) -> Option<NonNull<Entry>> {
        // SAFETY: the caller says that `mine` is its thread's state, of this engine.
        unsafe { mine.take_free() }.or_else(|| unsafe { self.take_entry_slowly(mine, remote) })
    }

    /// Returns a node: a free entry that carries a timeout's address on the reset queue. Otherwise
    /// it is [`take_entry`](Self::take_entry). A reset that did not wait would let schedules pass
    /// that have to, with the entries that it brings.
    ///
    /// # Safety
    /// As for [`take_entry`](Self::take_entry).
    pub(crate) unsafe fn take_node(&self, mine: &ThreadState, remote: &Remote) -> Option<NonNull<Entry>> {
        // SAFETY: the caller says that `mine` is its thread's state, of this engine.
        let node = unsafe { self.take_entry(mine, remote) }?;
        #[cfg(loom)]
        // SAFETY: just taken.
        unsafe { crate::entry::entry_ref(node) }.set_in_use(true);
        Some(node)
    }

    #[cold]
    unsafe fn take_entry_slowly(&self, mine: &ThreadState, remote: &Remote) -> Option<NonNull<Entry>> {
        let mut patience = Patience::default();
        // SAFETY: the caller says that `mine` is its thread's state, of this engine.
        let entry = unsafe { self.refill(mine, remote, &mut patience) };
        patience.end(self, mine, remote);
        entry
    }

    /// Returns `len` free entries, or `None` if there is no memory for all of them. Waits no longer
    /// than for one entry.
    ///
    /// # Safety
    /// As for [`take_entry`](Self::take_entry).
    pub(crate) unsafe fn take_entries(
        &self,
        mine: &ThreadState,
        remote: &Remote,
        len: usize,
    ) -> Option<Vec<NonNull<Entry>>> {
        let mut entries = Vec::new();
        entries.try_reserve_exact(len).ok()?;
        let mut patience = Patience::default();
        while entries.len() < len {
            // SAFETY: the caller says that `mine` is its thread's state, of this engine.
            let entry = unsafe { mine.take_free() }.or_else(|| unsafe { self.refill(mine, remote, &mut patience) });
            let Some(entry) = entry else { break };
            entries.push(entry);
        }
        let has_all = entries.len() == len;
        if !has_all {
            // SAFETY: `mine` is the thread's state, and the entries were just taken through it.
            entries.drain(..).for_each(|entry| unsafe { mine.put_entry(&self.arena, entry) });
        }
        patience.end(self, mine, remote);
        has_all.then_some(entries)
    }

    /// Gets a free entry when the thread has none left.
    ///
    /// # Safety
    /// As for [`take_entry`](Self::take_entry).
    unsafe fn refill(&self, mine: &ThreadState, remote: &Remote, patience: &mut Patience) -> Option<NonNull<Entry>> {
        let may_wait = !self.max_wait().is_zero();
        while may_wait && remote.has_much_garbage() && patience.wait(self, remote) {}
        // SAFETY: the caller says that `mine` is its thread's state, of this engine.
        let look = || unsafe { mine.refill(&self.arena) };
        let mut entry = look();
        while entry.is_none() {
            let is_over = !may_wait || !remote.is_behind() || !patience.wait(self, remote);
            // Look again even if the wait is over: what the worker gave back before it was seen to
            // be done is there by now.
            entry = look();
            if is_over && entry.is_none() {
                // SAFETY: the caller says that `mine` is its thread's state, of this engine.
                return unsafe { mine.grow(&self.arena, patience.growth()) };
            }
        }
        entry
    }
}
