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
//! cancelled. The bound is the entries that wait, as many again that the worker has taken out of
//! its queues and goes through, and 64 for each thread and each `max_wait` for which the worker
//! gets no processor. A worker that makes no progress for a second, while threads wait for it, is
//! stuck: nobody waits for it until it moves again, and the arena grows. So a thread that the
//! worker waits for, through the user's own executor or another engine, loses a second at most.
//!
//! Threads that a worker of ours waits for don't wait at all: see
//! [`NoWait`](crate::thread::NoWait). So this does not bound how much the tasks of inline and
//! driven engines schedule on the shards of others.

use std::time::Duration;

use super::shared::Shared;
use crate::arena::{A_LITTLE, LARGEST_CHUNK};
use crate::count::WHOLE;
use crate::entry::Sole;
use crate::shard::{Remote, WAKE_DEPTH};
use crate::sync::{sleep_briefly, thread};
use crate::thread::{Local, may_wait};
use crate::time::{real_time, saturating_ns};

/// More entries than may wait in two of a sleeping worker's three queues. A thread that finds more
/// wakes the worker before it waits.
pub(super) const MANY: usize = 2 * WAKE_DEPTH;

/// How often a thread yields its processor before it sleeps (0.1 ms each).
const YIELDS: usize = 1_024;

/// How long one call may wait for workers, and has waited.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// When the wait for the worker of one shard began, by [`real_time`].
    pub(super) begun_ns: Option<u64>,
    tries: usize,
    is_out: bool,
}

impl Remote {
    /// Counts the worker's steps that give entries back sooner or later. The number only grows.
    fn progress(&self) -> u64 {
        let (counters, linked) = (&self.counters, self.counters.transferred.get());
        let moved = linked.wrapping_add(counters.turned_round.get());
        moved.wrapping_add(counters.collected.get()).wrapping_add(counters.relinked.get())
    }

    /// Returns whether very many cancelled entries wait in the queues. One of the moved queue
    /// counts, as it may have been cancelled since. As a rule this reads only the three heads.
    #[inline]
    pub(crate) fn has_much_garbage(&self) -> bool {
        let [pushed, cancelled, moved] = self.pushed();
        let share = || usize::try_from(self.counters.cancelled_share.get()).unwrap_or(WHOLE);
        let in_inbox = if pushed > MANY { pushed * share() / WHOLE } else { 0 };
        cancelled + moved + in_inbox > MANY
    }

    /// Returns whether very many entries wait, in the queues or in the lists that the worker has
    /// taken out of them.
    pub(super) fn is_behind(&self) -> bool {
        self.inbox_depth() + self.cancelled_depth() + self.moved_depth() > MANY
    }
}

impl Patience {
    /// Waits a little. Counts the call when it does so first. Returns false if there is no worker
    /// to wait for, or if the call has waited for as long as it may.
    pub(super) fn wait(&mut self, shared: &Shared, remote: &Remote) -> bool {
        if self.is_out || remote.is_closed() || remote.has_worker.get() == 0 || !may_wait() {
            return false;
        }
        remote.ring_if_it_sleeps();
        let now_ns = saturating_ns(real_time());
        let is_stuck = remote.stall.is_stuck(remote.progress(), now_ns);
        let Some(begun_ns) = self.begun_ns else {
            if !is_stuck {
                self.begun_ns = Some(now_ns);
                shared.count(remote, |counts| counts.waits.add(1));
                thread::yield_now();
            }
            return !is_stuck;
        };
        let waited = Duration::from_nanos(now_ns.saturating_sub(begun_ns));
        if is_stuck || waited >= shared.max_wait {
            self.is_out = true;
            return false;
        }
        self.tries += 1;
        if self.tries < YIELDS {
            thread::yield_now();
        } else {
            sleep_briefly();
        }
        true
    }
}

impl Shared {
    /// Returns a free entry, or `None` if there is no memory. May wait for the worker.
    #[inline]
    pub(crate) fn take_entry(&self, mine: Local<'_>, remote: &Remote) -> Option<Sole> {
        mine.cache().take().or_else(|| self.take_entry_slowly(mine, remote))
    }

    /// The rest of [`take_entry`](Self::take_entry), when the thread has no free entry.
    #[cold]
    pub(crate) fn take_entry_slowly(&self, mine: Local<'_>, remote: &Remote) -> Option<Sole> {
        self.refill_or_grow(mine, remote, &mut Patience::default())
    }

    /// Returns `len` free entries, or `None` if there is no memory for all of them. Waits no longer
    /// than for one entry.
    pub(crate) fn take_entries(&self, mine: Local<'_>, remote: &Remote, len: usize) -> Option<Vec<Sole>> {
        let mut entries = Vec::new();
        entries.try_reserve_exact(len).ok()?;
        let mut patience = Patience::default();
        while entries.len() < len {
            let Some(entry) = mine.cache().take().or_else(|| self.refill_or_grow(mine, remote, &mut patience)) else {
                entries.into_iter().for_each(|entry| mine.put_entry(entry));
                return None;
            };
            entries.push(entry);
        }
        Some(entries)
    }

    /// Gets a free entry when the thread has none left, out of new memory if there is no other.
    fn refill_or_grow(&self, mine: Local<'_>, remote: &Remote, patience: &mut Patience) -> Option<Sole> {
        let waits = !self.max_wait.is_zero();
        while waits && remote.has_much_garbage() && patience.wait(self, remote) {}
        let mut entry = mine.cache().refill();
        while entry.is_none() && waits && remote.is_behind() && patience.wait(self, remote) {
            entry = mine.cache().refill();
        }
        // Look again after the wait: the entries that the worker gave back before it was seen to be
        // done are there by now.
        let most = if patience.is_out { A_LITTLE } else { LARGEST_CHUNK };
        entry.or_else(|| mine.cache().refill()).or_else(|| mine.cache().grow(most))
    }

    /// Waits for the worker now if the next entry would have to, so that there is one when the
    /// caller holds a lock under which it may not wait. Returns nothing: the caller then takes new
    /// memory if there is none after all.
    pub(crate) fn wait_for_entry(&self) {
        self.with_thread_state(|mine| {
            self.take_entry(mine, Self::home_of(mine)).into_iter().for_each(|entry| mine.put_entry(entry));
        });
    }
}
