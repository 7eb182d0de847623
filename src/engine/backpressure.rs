//! Back-pressure: a thread that comes for more entries waits while too many wait for the worker, before it takes them.
//!
//! A thread that schedules and cancels faster than the worker collects would otherwise take new memory for ever: a cancelled timeout is
//! not pending, and yet takes up its entry until the worker has come across it. So a thread that has used up what it has, and comes for
//! the next 64, waits
//!
//! * as long as more than [`MANY`] cancelled entries wait: those in the cancelled queue, and as many of the inbox as, by what the worker
//!   has met last, are cancelled ones;
//! * and, if there are none that were used before and the arena would have to grow, as long as more than that many entries of any kind
//!   wait, of which some may come free.
//!
//! Either for no longer than `max_wait` in all; then it goes on with those 64. So what is not pending is bounded however fast timeouts are
//! scheduled and cancelled: by what waits, as much once more that the worker has taken out of its queues and goes through, and 64 for each
//! thread and each `max_wait` for which the worker gets no processor. A worker that does not move for long is stuck: nobody waits for it
//! until it moves again, and the arena grows.

use std::ptr::NonNull;

use super::shared::Shared;
use crate::arena::Growth;
use crate::count::Share;
use crate::entry::Entry;
use crate::shard::{Remote, WAKE_DEPTH};
use crate::sync::{sleep_briefly, thread};
use crate::thread::ThreadState;
use crate::time::RealTime;

/// More entries than may wait for a worker that sleeps: one that has more to do is awake.
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
    /// The worker's, when the wait began.
    progress: u64,
    tries: usize,
}

impl Remote {
    /// What the worker has done that gives entries back, sooner or later: a number that only grows.
    fn progress(&self) -> u64 {
        self.counters.transferred.get().wrapping_add(self.counters.collected.get())
    }

    /// Whether very many cancelled entries wait in the queues. A look at no more than the two heads, as a rule.
    #[inline]
    pub(super) fn has_much_garbage(&self) -> bool {
        let (cancelled, pushed) = (self.cancelled.depth(), self.inbox.depth());
        let in_inbox = if pushed > MANY { Share::part(self.counters.cancelled_share.get(), pushed) } else { 0 };
        cancelled + in_inbox > MANY
    }

    /// Whether very many entries wait, in the queues or for the worker that has taken them out.
    pub(super) fn is_behind(&self) -> bool {
        self.inbox_depth() + self.cancelled_depth() > MANY
    }
}

impl Patience {
    /// Waits a little. False if there is nobody to wait for, or the call has waited for as long as it may.
    pub(super) fn wait(&mut self, shared: &Shared, remote: &Remote) -> bool {
        let max = shared.max_wait();
        if self.is_out || !remote.is_turned_by_another() {
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
            // It may be that the worker does not get its core.
            remote.check_worker();
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

    /// Whether the call has waited at all.
    pub(super) fn has_waited(&self) -> bool {
        self.begun.is_some()
    }

    /// How the arena is to grow, now that there is nothing to wait for, or no time.
    pub(super) fn growth(&self) -> Growth {
        if self.is_out { Growth::Little } else { Growth::Double }
    }
}

impl Shared {
    /// A free entry, for a timeout on `remote`; none if there is no memory for one. May wait for the worker.
    ///
    /// # Safety
    /// `mine` is the calling thread's state, of this engine.
    #[inline]
    pub(crate) unsafe fn take_entry(&self, mine: &ThreadState, remote: &Remote) -> Option<NonNull<Entry>> {
        // SAFETY: handed on.
        unsafe { mine.take_free() }.or_else(|| unsafe { self.take_entry_slowly(mine, remote) })
    }

    #[cold]
    unsafe fn take_entry_slowly(&self, mine: &ThreadState, remote: &Remote) -> Option<NonNull<Entry>> {
        let mut patience = Patience::default();
        // SAFETY: handed on.
        let entry = unsafe { self.refill(mine, remote, &mut patience) };
        self.count_wait(mine, remote, &patience);
        entry
    }

    /// As many free entries; none if there is no memory for all of them. Waits for no longer than for one.
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
            // SAFETY: handed on.
            let entry = unsafe { mine.take_free() }.or_else(|| unsafe { self.refill(mine, remote, &mut patience) });
            let Some(entry) = entry else { break };
            entries.push(entry);
        }
        self.count_wait(mine, remote, &patience);
        if entries.len() < len {
            // SAFETY: as for taking them; they are ours alone.
            entries.into_iter().for_each(|entry| unsafe { mine.put_entry(&self.arena, entry) });
            return None;
        }
        Some(entries)
    }

    /// The thread has no free entry left.
    ///
    /// # Safety
    /// As for [`take_entry`](Self::take_entry).
    unsafe fn refill(&self, mine: &ThreadState, remote: &Remote, patience: &mut Patience) -> Option<NonNull<Entry>> {
        let may_wait = !self.max_wait().is_zero();
        while may_wait && remote.has_much_garbage() && patience.wait(self, remote) {}
        // SAFETY: handed on.
        let look = || unsafe { mine.refill(&self.arena) };
        let mut entry = look();
        while entry.is_none() {
            let is_over = !may_wait || !remote.is_behind() || !patience.wait(self, remote);
            // Also when it is over: what the worker had given back before it was seen to be through is there by now.
            entry = look();
            if is_over && entry.is_none() {
                // SAFETY: handed on.
                return unsafe { mine.grow(&self.arena, patience.growth()) };
            }
        }
        entry
    }

    fn count_wait(&self, mine: &ThreadState, remote: &Remote, patience: &Patience) {
        if patience.has_waited() {
            self.counts_of(mine, remote).waits.add(1);
        }
    }
}
