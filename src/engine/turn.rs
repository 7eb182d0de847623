//! A turn of a shard: it goes through the queues, expires due timeouts, and moves the cascades on.

use super::batch::{Batch, Entries};
use super::core::{Core, Limits, TurnResult, give_back, unless_cancelled};
use super::due::Due;
use super::lifetime::SharedRef;
use crate::count::{Counter, WHOLE};
use crate::entry::{FromQueue, OutOfQueue, Owned, Token};
use crate::shard::{Remote, SideQueue, Taken};
use crate::time::Subtick;

/// How many entries of one queue the owner goes through before it looks at the next queue: some 50
/// µs of work.
pub(super) const PART: usize = 1_024;

/// How many arrivals are turned round before the next look at the other queues.
const TURNED_ROUND: usize = 4 * PART;

/// So many arrivals go before due timeouts, so that after a stall overdue ones run in the order of
/// their deadlines: some 4 ms of work at most. Of more only a part goes before.
pub(super) const BEFORE_DUE: usize = 64 * PART - 2;

/// Shows a number to other threads. An unchanged one is not written again.
fn note(shown: &Counter, now: usize) {
    if shown.get() != now as u64 {
        shown.set(now as u64);
    }
}

/// Takes a side queue, if what was taken before is gone through. The backlog is noted as
/// [`Core::take_inbox`] notes it.
fn take_rest(queue: &SideQueue, taken: &mut Taken<FromQueue>, backlog: &Counter) {
    let depth = queue.depth();
    if taken.is_empty() && depth > 0 {
        note(backlog, depth);
        *taken = queue.take();
        note(backlog, taken.depth());
    }
}

/// Notes a deadline that has come by `now`, or is next: see [`Core::hurried`].
#[inline]
fn note_hurried(hurried: &mut Subtick, now: Subtick, deadline: Subtick) {
    if deadline <= now.next() {
        *hurried = deadline.max(*hurried);
    }
}

/// The limits that a turn has left for each queue.
struct Queues {
    cancels: usize,
    moves: usize,
    transfers: usize,
    turned_round: usize,
    /// Whether the inbox was taken in this turn.
    has_taken: bool,
    /// Whether an entry was linked since the last look at what is due.
    has_linked: bool,
}

impl Core {
    /// Does all that is to be done by `now`, within the limits, and lets `take` take what is due.
    /// `take` must take all of it, and must not panic. The engine must be the one that this shard
    /// has always been turned with. Futures to be woken are left for
    /// [`take_wakes`](Self::take_wakes).
    ///
    /// Arrivals go before the timeouts that are due, so that timeouts run in the order of their
    /// deadlines. If very many have arrived, those that are due do not wait for them all: the turn
    /// goes through the rest, as it was when the turn began, and in between asks `look` for the
    /// time. `look` returns `None` if one time is to hold for the whole turn.
    pub(crate) fn turn(
        &mut self,
        shared: &SharedRef,
        now: Subtick,
        mut look: impl FnMut() -> Option<Subtick>,
        mut take: impl FnMut(&mut Due<'_>),
    ) -> TurnResult {
        let remote = self.remote(shared);
        self.now = now.max(self.now);
        let mut queues = self.begin_queues(remote);
        let may_be_due = !self.inbox.is_empty() || !self.moved.is_empty();
        if may_be_due && let Some(now) = look() {
            // A timeout that was pushed or reset since the turn began may be due by now.
            self.now = now.max(self.now);
        }
        // They are turned round before they are linked.
        let steps = if self.inbox.depth() <= BEFORE_DUE { 2 * BEFORE_DUE.div_ceil(TURNED_ROUND) } else { 1 };
        for _ in 0..steps {
            if !self.step_arrivals(shared, remote, &mut queues, TURNED_ROUND) {
                break;
            }
        }
        self.note_backlogs(remote);
        queues.has_linked = false;
        let mut budget = self.limits.expiry;
        let mut fired = self.expire(shared, remote, &mut budget, &mut take);
        while self.step_queues(shared, remote, &mut queues) {
            if let Some(now) = look().filter(|now| *now > self.now) {
                self.now = now;
                queues.has_linked = false;
                fired += self.expire(shared, remote, &mut budget, &mut take);
            }
        }
        if queues.has_linked {
            fired += self.expire(shared, remote, &mut budget, &mut take);
        }
        // Timeouts that are due take the spare block again and again.
        let takes_spare = fired > 0 && self.waits_for_memory();
        let more = self.end_queues(remote, &queues) || budget == 0 || takes_spare;
        self.wheel.cascade(self.limits.expiry);
        if remote.takes_shrink() {
            self.wheel.shrink();
        }
        let counters = &remote.counters;
        counters.cascaded.set(self.wheel.cascaded());
        counters.linked.set(self.wheel.len() as u64);
        counters.turns.add(1);
        counters.over_budget.add(u64::from(more));
        TurnResult { fired, more: more || self.keep_series_back(remote) }
    }

    /// Keeps periodic timeouts back once a drain has taken in all that was scheduled before it, so
    /// that it does not wait for them. Returns true if the shard is to be turned again for that.
    fn keep_series_back(&mut self, remote: &Remote) -> bool {
        remote.drains_until().is_some()
            && remote.is_closed()
            && self.inbox.is_empty()
            && self.wheel.len() > 0
            && self.wheel.keep_series_back()
    }

    /// Returns the sleeping futures that expired in the turns since the last call. As a rule the
    /// thread that turns the shard wakes them, after the turn. A waker is user code and may do
    /// anything, but it is quick, and passing it through a pool would cost more.
    pub(crate) fn take_wakes(&mut self, shared: &SharedRef) -> Option<Batch> {
        let remote = self.remote(shared);
        let wakes = std::mem::take(&mut self.wakes);
        (wakes.len() > 0).then(|| Batch::new(Entries::Wakes(wakes), shared, remote))
    }

    /// Goes through the queues, within the limits, without expiring anything, so that
    /// [`next_due`](Self::next_due) knows of all that was pushed. A timeout that is due by `now` is
    /// due at once. Returns true if something was left over.
    pub(crate) fn sort_in(&mut self, shared: &SharedRef, now: Subtick) -> bool {
        let remote = self.remote(shared);
        self.now = now.max(self.now);
        let mut queues = self.begin_queues(remote);
        while self.step_queues(shared, remote, &mut queues) {}
        remote.counters.linked.set(self.wheel.len() as u64);
        self.end_queues(remote, &queues)
    }

    /// Returns when the shard has to be turned next, if nobody pushes anything earlier:
    /// [`Subtick::ZERO`] for at once, `None` for never.
    pub(crate) fn next_due(&mut self, shared: &SharedRef) -> Option<Subtick> {
        let _is_there = self.remote(shared);
        if self.inbox.is_empty() && self.cancelled.is_empty() && self.moved.is_empty() {
            self.wheel.next_due()
        } else {
            Some(Subtick::ZERO)
        }
    }

    /// Returns when to turn the shard next if the timeouts of a tick are to run together: when the
    /// last is due of those in the tick of the first. A timeout that is due, or was when it
    /// arrived, waits for no other, nor does any by a clock of the user's.
    pub(crate) fn last_due_of_tick(&mut self, shared: &SharedRef) -> Option<Subtick> {
        let first = self.next_due(shared)?;
        let timeline = shared.timeline();
        if first <= self.now || self.hurried > self.now || !timeline.is_the_systems() {
            return Some(first);
        }
        let last = self.wheel.last_due(first, timeline.scale().end_of_tick(first));
        Some(first.max(last.unwrap_or(first)))
    }

    /// Begins to go through the queues, up to the limit of each. Each queue is taken once, so that
    /// the turn ends. Entries that an earlier turn left over go first.
    fn begin_queues(&mut self, remote: &Remote) -> Queues {
        let counters = &remote.counters;
        take_rest(self.takes.cancelled(remote), &mut self.cancelled, &counters.cancelled_backlog);
        take_rest(self.takes.moved(remote), &mut self.moved, &counters.moved_backlog);
        let has_taken = self.inbox.is_gone_through();
        if has_taken {
            // Entries set aside come after new ones, so that neither kind waits for the other.
            self.inbox.put_back();
            self.take_inbox(remote);
        }
        let Limits { transfer, expiry } = self.limits;
        // It is a small part of the work of a transfer.
        let turned_round = transfer.saturating_mul(8).max(TURNED_ROUND);
        Queues { cancels: expiry, moves: expiry, transfers: transfer, turned_round, has_taken, has_linked: false }
    }

    /// Goes through a part of each queue, so that entries that a producer may be waiting for are
    /// given back all the time, however much has been scheduled. Returns false if that was the last
    /// part.
    fn step_queues(&mut self, shared: &SharedRef, remote: &Remote, queues: &mut Queues) -> bool {
        queues.cancels -= self.collect(shared, remote, queues.cancels.min(PART));
        let is_left = self.step_arrivals(shared, remote, queues, PART);
        if self.inbox.is_gone_through() && queues.transfers > 0 && !queues.has_taken {
            queues.has_taken = true;
            self.take_inbox(remote);
            return true;
        }
        is_left || (queues.cancels > 0 && !self.cancelled.is_empty())
    }

    /// Goes through a part of what has arrived, and of what was reset to an earlier deadline.
    /// Returns false if that was the last part.
    fn step_arrivals(&mut self, shared: &SharedRef, remote: &Remote, queues: &mut Queues, most: usize) -> bool {
        let relinked = self.relink(shared, remote, queues.moves.min(most));
        let turned_round = self.inbox.turn_round(queues.turned_round.min(TURNED_ROUND));
        remote.counters.turned_round.add(turned_round as u64);
        let transferred = self.link(shared, remote, queues.transfers.min(most));
        queues.moves -= relinked;
        queues.turned_round -= turned_round;
        queues.transfers -= transferred;
        queues.has_linked |= relinked + transferred > 0;
        let is_left = |may: usize, is_empty: bool| may > 0 && !is_empty;
        is_left(queues.moves, self.moved.is_empty())
            || is_left(queues.transfers, self.inbox.is_gone_through())
                && (self.inbox.is_turned_round() || queues.turned_round > 0)
    }

    /// Returns true if something was left over.
    fn end_queues(&mut self, remote: &Remote, queues: &Queues) -> bool {
        self.note_backlogs(remote);
        let is_left = !self.inbox.is_gone_through() || !self.cancelled.is_empty() || !self.moved.is_empty();
        // The moved queue is not taken while a part of it is left over from an earlier turn.
        let [pushed, _, moved] = remote.pushed();
        is_left || moved > 0 || (queues.transfers == 0 && pushed > 0)
    }

    /// Shows other threads how much of each queue the worker has taken and not gone through.
    pub(super) fn note_backlogs(&self, remote: &Remote) {
        let counters = &remote.counters;
        note(&counters.backlog, self.inbox.depth());
        note(&counters.cancelled_backlog, self.cancelled.depth());
        note(&counters.moved_backlog, self.moved.depth());
    }

    /// Takes the inbox. The backlog is noted before the queue is taken, and corrected after it. So
    /// a thread that adds up both, and reads the queue first, never finds too little.
    fn take_inbox(&mut self, remote: &Remote) {
        let backlog = &remote.counters.backlog;
        let inbox = self.takes.inbox(remote);
        note(backlog, inbox.depth());
        // After a command the inbox closes. Otherwise a thread's later timeouts would be fired or
        // returned apart from its earlier ones.
        let is_ending = remote.is_commanded();
        self.inbox.add(if is_ending { inbox.close() } else { inbox.take() });
        note(backlog, self.inbox.depth());
    }

    /// Gives up at most `most` of the entries that were taken out of the cancelled queue. Returns
    /// how many.
    #[inline(never)]
    fn collect(&mut self, shared: &SharedRef, remote: &Remote, most: usize) -> usize {
        let mut collected = 0;
        while collected < most {
            let Some(entry) = self.cancelled.pop() else { break };
            self.pop(shared, entry);
            collected += 1;
        }
        remote.counters.collected.add(collected as u64);
        collected
    }

    /// Moves at most `most` of the entries that were reset to an earlier deadline. Returns how many
    /// were popped.
    #[inline(never)]
    fn relink(&mut self, shared: &SharedRef, remote: &Remote, most: usize) -> usize {
        let (mut popped, mut relinked) = (0, 0);
        while popped < most {
            let Some(entry) = self.moved.pop() else { break };
            popped += 1;
            relinked += usize::from(self.pop(shared, entry));
        }
        remote.counters.relinked.add(relinked as u64);
        remote.counters.collected.add((popped - relinked) as u64);
        popped
    }

    /// Sees to an entry that came off a side queue. Returns whether it was moved in the wheel.
    #[inline(always)]
    pub(super) fn pop(&mut self, shared: &SharedRef, entry: FromQueue) -> bool {
        match entry.pop() {
            OutOfQueue::Cancelled(entry) => {
                if let Some(entry) = self.wheel.remove(entry) {
                    give_back(&self.free, shared, entry);
                }
            }
            OutOfQueue::Moved(entry) => {
                note_hurried(&mut self.hurried, self.now, entry.entry().snapshot().deadline());
                self.wheel.move_entry(entry);
                return true;
            }
            OutOfQueue::Last(entry) => give_back(&self.free, shared, entry),
            OutOfQueue::Elsewhere => {}
        }
        false
    }

    /// Links at most `most` of the entries that were taken out of the inbox, the oldest first.
    /// Returns how many were gone through: none as long as they are not all turned round.
    #[inline(never)]
    fn link(&mut self, shared: &SharedRef, remote: &Remote, most: usize) -> usize {
        let (mut gone_through, mut cancelled, mut has_room) = (0, 0, true);
        while gone_through < most {
            has_room = has_room && self.wheel.has_room();
            let Some(entry) = self.inbox.pop() else { break };
            gone_through += 1;
            if !has_room && !self.may_link_without_room(&entry) {
                self.inbox.set_aside(entry);
                continue;
            }
            debug_assert!(remote.is_home_of(&entry), "an entry goes to its own shard");
            let linked = unless_cancelled(&self.free, shared, entry, |entry| {
                self.wheel.insert(entry, |deadline| note_hurried(&mut self.hurried, self.now, deadline))
            });
            if linked.is_none() {
                cancelled += 1;
            }
        }
        if let Some(share) = (cancelled * WHOLE).checked_div(gone_through) {
            note(&remote.counters.cancelled_share, share);
        }
        remote.counters.transferred.add(gone_through as u64);
        gone_through
    }

    /// Returns whether an entry is looked at although there is no memory: if it was cancelled, or
    /// is due. There is a spare block of cells for entries that are due, as they leave their cells
    /// in this turn.
    #[cold]
    fn may_link_without_room(&mut self, entry: &Owned) -> bool {
        let seen = entry.snapshot();
        (!seen.is_pending() || seen.deadline() <= self.now) && self.wheel.has_spare()
    }

    /// Returns whether some arrivals wait for memory. The worker does not fall asleep over them.
    pub(crate) fn waits_for_memory(&self) -> bool {
        self.inbox.has_set_aside()
    }
}
