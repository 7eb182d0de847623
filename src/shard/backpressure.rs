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

use super::counters::Share;
use super::hub::Hub;
use super::mailbox::Mailbox;
use super::stack::WAKE_DEPTH;
use crate::arena::Growth;
use crate::sync::{Shown, sleep_briefly, thread};
use crate::time::RealTime;

/// More entries than may wait for a worker that sleeps: one that has more to do is awake.
pub(super) const MANY: usize = 2 * WAKE_DEPTH;

/// How often a thread yields its processor before it sleeps (0.1 ms each).
const YIELDS: usize = 1_024;

/// After so many waits in vain, one after the other and by whatever threads, the worker is stuck.
pub(super) const STUCK: u64 = 50;

/// What became of the waits for one worker. Threads that write at once may lose a count: it is a guess.
#[derive(Debug)]
pub(super) struct Vain {
    /// What the worker had done by the end of the last one.
    progress: Shown,
    /// How many have seen it do nothing since.
    waits: Shown,
}

impl Vain {
    pub(super) const fn none() -> Self {
        Self { progress: Shown::new(0), waits: Shown::new(0) }
    }

    fn is_stuck(&self, progress: u64) -> bool {
        self.waits.get() >= STUCK && self.progress.get() == progress
    }

    /// Another wait is over that began at one point of the worker's progress, and ended at another.
    fn note(&self, began: u64, ended: u64) {
        let is_next = began == ended && self.progress.get() == ended;
        self.waits.set(if is_next { self.waits.get() + 1 } else { u64::from(began == ended) });
        self.progress.set(ended);
    }
}

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

impl Mailbox {
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
    pub(super) fn wait(&mut self, hub: &Hub, mailbox: &Mailbox) -> bool {
        let max = hub.max_wait();
        if self.is_out || !hub.is_turned_by_another(mailbox.index()) {
            return false;
        }
        let progress = mailbox.progress();
        let Some(begun) = &mut self.begun else {
            if mailbox.vain.is_stuck(progress) {
                return false;
            }
            self.begun = Some(Begun { at: RealTime::now(), progress, tries: 0 });
            thread::yield_now();
            return true;
        };
        if begun.at.elapsed() >= max {
            mailbox.vain.note(begun.progress, progress);
            // It may be that the worker does not get its core.
            mailbox.look_after_worker();
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
