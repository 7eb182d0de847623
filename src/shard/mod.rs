//! A shard: inbox, cancelled queue, mail and wheel, and the turn that goes through them. No thread: whoever owns the
//! [`Shard`] turns it. The protocols between producers and owner are in `README.md` here, each with its proof.

mod backpressure;
mod batch;
mod counters;
mod gather;
mod hub;
mod in_flight;
mod inbox;
mod kept;
mod lateness;
mod mailbox;
mod producer;
mod running;
mod series;
mod side_queue;
mod stack;
mod stakes;
#[cfg(all(test, not(loom)))]
mod tests;
mod unfired;

use std::ptr::NonNull;

pub(crate) use batch::Batch;
pub(crate) use counters::Counts;
pub(crate) use hub::{Hub, HubPlan, HubRef, PanicHook, Wake};
pub use lateness::Lateness;
pub(crate) use lateness::Recorder;
pub(crate) use mailbox::{Mailbox, Order};
pub(crate) use producer::Producer;
pub(crate) use running::TASKS_A_LOOK;
pub(crate) use series::Ran;
#[cfg(loom)]
pub(crate) use series::SeriesRun;
pub(crate) use stakes::Stake;
pub(crate) use unfired::UnfiredList;

use crate::arena::Local;
use crate::entry::{EngineGone, Entry, Expire, Transfer, entry_ref};
use crate::time::Tick;
use crate::wheel::{Budget, LevelView, Wheel};
use batch::MAX_BATCH;
use counters::{Counter, Share};
use stack::Taken;

/// How many entries of one queue the owner goes through before it looks at the next: some 50 µs of work.
const PART: usize = 1_024;

/// How much one turn may do of each kind of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) transfer: usize,
    /// Entries looked at because their slot came up, entries moved by cascades, and cancelled entries: so many of each.
    pub(crate) expiry: usize,
}

/// What a turn has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) fired: usize,
    /// Something was left over: turn again at once.
    pub(crate) more: bool,
}

/// What the owner has noted last for others to see: what has not changed is not written again.
#[derive(Debug, Default)]
struct Noted {
    inbox: usize,
    cancelled: usize,
    share: usize,
}

fn note(shown: &Counter, noted: &mut usize, now: usize) {
    if std::mem::replace(noted, now) != now {
        shown.set(now as u64);
    }
}

/// The owner's side of a shard.
#[derive(Debug)]
pub(crate) struct Shard {
    index: usize,
    wheel: Wheel,
    limits: Limits,
    /// Taken out of the queues, and not gone through yet.
    inbox: Taken,
    cancelled: Taken,
    resets: Taken,
    noted: Noted,
    free: Local,
    /// Expired entries of futures that sleep: to be woken when the turn is over.
    wakes: Option<Batch>,
    /// The last tick that was turned to: the clock is not trusted to be monotonic.
    now: Tick,
}

// SAFETY: the entries in its lists belong to the shard's owner as far as their links go; the rest is plain data.
unsafe impl Send for Shard {}

impl Shard {
    pub(crate) fn new(index: usize, wheel: Wheel, limits: Limits) -> Self {
        let (inbox, cancelled, resets) = (Taken::NONE, Taken::NONE, Taken::NONE);
        Self {
            index,
            wheel,
            limits,
            inbox,
            cancelled,
            resets,
            noted: Noted::default(),
            free: Local::new(),
            wakes: None,
            now: Tick::ZERO,
        }
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The levels of its wheel, to be looked at by others.
    pub(crate) fn view(&self) -> Vec<LevelView> {
        self.wheel.view()
    }

    /// The tick of the last turn.
    pub(crate) fn turned_to(&self) -> Tick {
        self.now
    }

    /// Entries in the wheel.
    pub(crate) fn linked(&self) -> usize {
        self.wheel.len()
    }

    /// Does all that is due by `now`, within the limits, and hands what expired to `sink`, which must not panic: in the middle
    /// of a slot the wheel does not know where all of its entries are. The hub must be the one that this shard has always been
    /// turned with. Who is to be woken is left for [`take_wakes`](Self::take_wakes).
    pub(crate) fn turn(&mut self, hub: &HubRef, now: Tick, sink: &mut impl FnMut(Batch)) -> Turn {
        let mailbox = hub.mailbox(self.index);
        self.now = self.now.max(now);
        let mut more = self.empty_queues(hub, mailbox);
        let mut budget = Budget::new(self.limits.expiry);
        let fired = self.expire(hub, mailbox, &mut budget, sink);
        more |= budget.is_spent();
        let mut budget = Budget::new(self.limits.expiry);
        self.wheel.step_cascades(&mut budget);
        let counters = &mailbox.counters;
        counters.cascaded.set(self.wheel.cascaded());
        counters.linked.set(self.wheel.len() as u64);
        counters.turns.add(1);
        counters.over_budget.add(u64::from(more));
        Turn { fired, more }
    }

    /// Those whose sleep was over in the turns since this was last called. To be woken by whoever turns the shard, outside of the turn: a
    /// waker is the user's code, which may do anything, but is quick as a rule, so that the way through a pool would cost more.
    pub(crate) fn take_wakes(&mut self) -> Option<Batch> {
        self.wakes.take()
    }

    /// Goes through the queues, within the limits, without expiring anything: so that [`next_due`](Self::next_due) knows
    /// of all that has been brought. True if something was left over.
    pub(crate) fn sort_in(&mut self, hub: &HubRef) -> bool {
        let mailbox = hub.mailbox(self.index);
        let more = self.empty_queues(hub, mailbox);
        mailbox.counters.linked.set(self.wheel.len() as u64);
        more
    }

    /// When the shard has to be turned next, if nobody brings anything earlier: [`Tick::ZERO`] for at once, none for never.
    pub(crate) fn next_due(&self) -> Option<Tick> {
        if self.inbox.is_empty() && self.cancelled.is_empty() && self.resets.is_empty() {
            self.wheel.next_due()
        } else {
            Some(Tick::ZERO)
        }
    }

    /// Goes through the queues, up to the limit of each, and says whether something was left over. By parts in turn: what a
    /// producer may be waiting for comes back all the while, however much has been scheduled.
    fn empty_queues(&mut self, hub: &HubRef, mailbox: &Mailbox) -> bool {
        if self.wheel.is_swept() && mailbox.takes_rescan() {
            self.wheel.rescan(self.now);
        }
        let (mut cancels, mut resets) = (self.limits.expiry, self.limits.expiry);
        let mut transfers = self.limits.transfer;
        // What a turn before has left over goes first; and each queue is taken once, so that a turn has an end.
        if self.cancelled.is_empty() {
            self.take_cancelled(mailbox);
        }
        if self.resets.is_empty() {
            self.resets = mailbox.resets.take();
        }
        let mut has_taken = false;
        loop {
            cancels -= self.collect(hub, mailbox, cancels.min(PART));
            resets -= self.relink(hub, mailbox, resets.min(PART));
            transfers -= self.link(hub, mailbox, transfers.min(PART));
            if self.inbox.is_empty() && transfers > 0 && !has_taken {
                has_taken = true;
                self.take_inbox(mailbox);
                continue;
            }
            let is_done = |left: usize, rest: Taken| left == 0 || rest.is_empty();
            if is_done(cancels, self.cancelled) && is_done(resets, self.resets) && is_done(transfers, self.inbox) {
                break;
            }
        }
        note(&mailbox.counters.backlog, &mut self.noted.inbox, self.inbox.depth());
        note(&mailbox.counters.cancelled_backlog, &mut self.noted.cancelled, self.cancelled.depth());
        let is_left = !self.inbox.is_empty() || !self.cancelled.is_empty() || !self.resets.is_empty();
        is_left || (transfers == 0 && mailbox.inbox.depth() > 0)
    }

    /// The depth is noted before the queue is taken, and made exact after it: whoever adds up both, the queue first, never finds too
    /// little.
    fn take_inbox(&mut self, mailbox: &Mailbox) {
        let (backlog, noted) = (&mailbox.counters.backlog, &mut self.noted.inbox);
        note(backlog, noted, mailbox.inbox.depth());
        let is_draining = mailbox.drains_until().is_some();
        self.inbox = if is_draining { mailbox.inbox.close() } else { mailbox.inbox.take() };
        note(backlog, noted, self.inbox.depth());
    }

    /// As [`take_inbox`](Self::take_inbox).
    fn take_cancelled(&mut self, mailbox: &Mailbox) {
        let (backlog, noted) = (&mailbox.counters.cancelled_backlog, &mut self.noted.cancelled);
        let depth = mailbox.cancelled.depth();
        if depth > 0 {
            note(backlog, noted, depth);
            self.cancelled = mailbox.cancelled.take();
            note(backlog, noted, self.cancelled.depth());
        }
    }

    /// Lets go of up to `most` of the entries that were taken out of the cancelled queue. Returns of how many.
    #[inline(never)]
    fn collect(&mut self, hub: &HubRef, mailbox: &Mailbox, most: usize) -> usize {
        let mut collected = 0;
        while collected < most {
            // SAFETY: taken out of the queue, so they are the worker's.
            let Some(entry) = (unsafe { self.cancelled.pop(Entry::next_aside) }) else { break };
            self.unlink_and_let_go(hub, entry);
            collected += 1;
        }
        if collected > 0 {
            mailbox.counters.collected.add(collected as u64);
        }
        collected
    }

    /// Links anew up to `most` of the entries that were reset to an earlier deadline. Returns how many.
    #[inline(never)]
    fn relink(&mut self, hub: &HubRef, mailbox: &Mailbox, most: usize) -> usize {
        let (mut relinked, mut read) = (0, 0);
        while read < most {
            // SAFETY: taken out of the queue, so they are the worker's.
            let Some(node) = (unsafe { self.resets.pop(Entry::next_aside) }) else { break };
            read += 1;
            // SAFETY: the worker's.
            let entry = NonNull::new(unsafe { entry_ref(node) }.next()).expect("a node names an entry");
            // SAFETY: no timeout's, so that the worker is the sole owner; a shard's free list is only used with its own hub.
            unsafe { self.free.put(&hub.arena, node) };
            // SAFETY: while IN_MAIL is set the engine does not let go of the entry.
            match unsafe { entry_ref(entry) }.state.arrive() {
                Transfer::Pending(deadline) => {
                    self.unlink(entry);
                    // SAFETY: in no slot now, and the engine's until it comes out again.
                    unsafe { self.wheel.insert_again(entry, deadline) };
                    relinked += 1;
                }
                Transfer::Cancelled => self.unlink_and_let_go(hub, entry),
            }
        }
        if relinked > 0 {
            mailbox.counters.relinked.add(relinked);
        }
        read
    }

    /// Links up to `most` of the entries that were taken out of the inbox. Returns how many were gone through.
    #[inline(never)]
    fn link(&mut self, hub: &HubRef, mailbox: &Mailbox, most: usize) -> usize {
        let (mut gone_through, mut cancelled) = (0, 0);
        while gone_through < most {
            // SAFETY: taken out of the inbox, so they are the worker's.
            let Some(entry) = (unsafe { self.inbox.pop(Entry::next) }) else { break };
            gone_through += 1;
            // Again, if it was cancelled, and then armed again, in between.
            loop {
                // SAFETY: the engine has not let go of it.
                match unsafe { entry_ref(entry) }.state.link() {
                    Transfer::Pending(deadline) => {
                        // SAFETY: in no slot yet, and the engine's until it comes out again.
                        unsafe { self.wheel.insert(entry, deadline) };
                        break;
                    }
                    Transfer::Cancelled if let_go(&self.free, hub, entry) => {
                        cancelled += 1;
                        break;
                    }
                    Transfer::Cancelled => {}
                }
            }
        }
        if gone_through > 0 {
            note(&mailbox.counters.cancelled_share, &mut self.noted.share, Share::of(cancelled, gone_through));
            mailbox.counters.transferred.add(gone_through as u64);
        }
        gone_through
    }

    fn expire(&mut self, hub: &HubRef, mailbox: &Mailbox, budget: &mut Budget, sink: &mut impl FnMut(Batch)) -> usize {
        let (mut fired, mut relinked) = (0, 0);
        let mut batch: Option<Batch> = None;
        while let Some(entry) = self.wheel.pop_due(self.now, budget) {
            // SAFETY: the engine has not let go of it.
            match unsafe { entry_ref(entry) }.state.expire(self.now) {
                Expire::Fire => {
                    fired += 1;
                    // SAFETY: just won, and popped out of its slot.
                    unsafe { fire(&mut batch, &mut self.wakes, entry, hub, mailbox, sink) };
                }
                Expire::NotBefore(deadline) => {
                    relinked += 1;
                    // SAFETY: in no slot now, and the engine's until it comes out again.
                    unsafe { self.wheel.insert_again(entry, deadline) };
                }
                // SAFETY: as above. It stays linked, so that a shutdown before it arrives still finds it.
                Expire::InMail => unsafe { self.wheel.insert_again(entry, self.now.next()) },
                // The cancelled queue, or the mail, brings it, and finds it in no slot.
                Expire::Cancelled => {}
            }
        }
        hand_over(batch, hub, mailbox, sink);
        mailbox.counters.relinked.add(relinked);
        fired
    }

    fn unlink(&mut self, entry: NonNull<Entry>) {
        // SAFETY: the engine has not let go of it.
        if unsafe { entry_ref(entry) }.is_in_a_slot() {
            // SAFETY: it is in a slot, and only of this wheel.
            unsafe { self.wheel.remove(entry) };
        }
    }

    fn unlink_and_let_go(&mut self, hub: &HubRef, entry: NonNull<Entry>) {
        self.unlink(entry);
        let gone = let_go(&self.free, hub, entry);
        debug_assert!(gone, "only what was never linked is armed again");
    }

    /// Whether nothing is left in a shard whose inbox has been closed that will ever be due.
    pub(crate) fn is_drained(&self, hub: &HubRef) -> bool {
        hub.mailbox(self.index).is_closed() && self.next_due().is_none()
    }

    /// The earliest deadline of all that has been sorted in; [`Tick::NEVER`] if there is none. Looks at the entries of as many
    /// slots as it takes.
    pub(crate) fn earliest(&self) -> Tick {
        self.wheel.earliest()
    }

    /// Closes the shard for good and returns what was still pending in it. Whatever is scheduled afterwards is refused;
    /// whatever was accepted before is in the answer, or was cancelled, or has been handed to an executor. Futures that sleep are withdrawn,
    /// too, but not in the answer: they are to be woken ([`take_wakes`](Self::take_wakes)), as nobody will be there to wake them later.
    pub(crate) fn close(&mut self, hub: &HubRef) -> UnfiredList {
        let (mut left, mut wakes) = (UnfiredList::new(), self.wakes.take());
        let before = wakes.as_ref().map_or(0, Batch::len);
        let mailbox = hub.mailbox(self.index);
        self.empty(hub, mailbox, |free, entry| withdraw(free, hub, mailbox, entry, &mut left, &mut wakes));
        let withdrawn = left.len() + wakes.as_ref().map_or(0, Batch::len) - before;
        mailbox.counters.returned.add(withdrawn as u64);
        hub.give_places_back(withdrawn);
        self.wakes = wakes;
        left
    }

    /// Closes the shard for good, and hands all that was still pending in it to `sink`, whatever its deadline; but for who is to be woken
    /// ([`take_wakes`](Self::take_wakes)).
    pub(crate) fn close_and_fire(&mut self, hub: &HubRef, sink: &mut impl FnMut(Batch)) {
        let (mut batch, mut wakes) = (None, self.wakes.take());
        let mailbox = hub.mailbox(self.index);
        self.empty(hub, mailbox, |free, entry| {
            // Again, if it was cancelled, and then armed again, in between.
            loop {
                // SAFETY: the engine has not let go of it.
                if unsafe { entry_ref(entry) }.state.expire_early() {
                    // SAFETY: just won, and in no list.
                    break unsafe { fire(&mut batch, &mut wakes, entry, hub, mailbox, sink) };
                }
                // It was cancelled: as in `withdraw`.
                if let_go(free, hub, entry) {
                    break;
                }
            }
        });
        hand_over(batch, hub, mailbox, sink);
        self.wakes = wakes;
    }

    /// Closes the queues, and gives each entry that is left to `take`, in no list any more.
    fn empty(&mut self, hub: &HubRef, mailbox: &Mailbox, mut take: impl FnMut(&Local, NonNull<Entry>)) {
        let pushed = mailbox.inbox.close();
        let pushed_back = mailbox.cancelled.close();
        // First those that are known to be cancelled: some are in no slot any more.
        for mut list in [std::mem::replace(&mut self.cancelled, Taken::NONE), pushed_back] {
            // SAFETY: taken out of the queue, so they are the worker's.
            while let Some(entry) = unsafe { list.pop(Entry::next_aside) } {
                self.unlink_and_let_go(hub, entry);
            }
        }
        for mut list in [std::mem::replace(&mut self.inbox, Taken::NONE), pushed] {
            // SAFETY: taken out of the inbox, so they are the worker's.
            while let Some(entry) = unsafe { list.pop(Entry::next) } {
                take(&self.free, entry);
            }
        }
        let free = &self.free;
        self.wheel.drain(|entry| take(free, entry));
        // What the nodes name is not looked at: it was in the wheel.
        for mut nodes in [std::mem::replace(&mut self.resets, Taken::NONE), mailbox.resets.close()] {
            // SAFETY: taken out of the queue, so they are the worker's.
            while let Some(node) = unsafe { nodes.pop(Entry::next_aside) } {
                // SAFETY: as in `relink`.
                unsafe { self.free.put(&hub.arena, node) };
            }
        }
        mailbox.counters.linked.set(0);
        mailbox.ailment.set_closed();
        mailbox.answer_all();
    }
}

/// Adds an entry to those that are to be run, or woken, and hands a batch over that is full.
///
/// # Safety
/// The caller won the entry's way to EXPIRED, and it is in no list.
#[inline]
unsafe fn fire(
    batch: &mut Option<Batch>,
    wakes: &mut Option<Batch>,
    entry: NonNull<Entry>,
    hub: &HubRef,
    mailbox: &Mailbox,
    sink: &mut impl FnMut(Batch),
) {
    // SAFETY: the engine has not let go of it.
    if unsafe { entry_ref(entry) }.as_sleeper().is_some() {
        // At once, as a task of this very turn may want its place.
        count_fired(1, hub, mailbox);
        // SAFETY: handed on.
        return unsafe { wake_later(wakes, entry, hub, mailbox) };
    }
    let open = batch.get_or_insert_with(|| Batch::new(hub.clone(), mailbox.index()));
    // SAFETY: handed on.
    unsafe { open.push(entry) };
    if open.len() == MAX_BATCH {
        hand_over(batch.take(), hub, mailbox, sink);
    }
}

/// Adds an entry of a future that sleeps to those that are to be woken.
///
/// # Safety
/// The caller won the entry's way out of PENDING, and it is in no list.
unsafe fn wake_later(wakes: &mut Option<Batch>, entry: NonNull<Entry>, hub: &HubRef, mailbox: &Mailbox) {
    let open = wakes.get_or_insert_with(|| Batch::of_sleepers(hub.clone(), mailbox.index()));
    // SAFETY: handed on.
    unsafe { open.push(entry) };
}

fn hand_over(batch: Option<Batch>, hub: &HubRef, mailbox: &Mailbox, sink: &mut impl FnMut(Batch)) {
    let Some(batch) = batch else { return };
    count_fired(batch.once(), hub, mailbox);
    sink(batch);
}

/// Before they run: a task that schedules must find the room that it has made. (A series keeps its place.)
fn count_fired(once: usize, hub: &HubRef, mailbox: &Mailbox) {
    mailbox.counters.fired.add(once as u64);
    hub.give_places_back(once);
}

/// The engine lets go of an entry that is no longer pending and in no list. False if it is pending again (see
/// [`EngineGone::NotYet`]).
#[inline]
fn let_go(free: &Local, hub: &HubRef, entry: NonNull<Entry>) -> bool {
    // SAFETY: the engine has not let go of it before.
    match unsafe { entry_ref(entry) }.state.engine_lets_go() {
        EngineGone::OthersOwn => {}
        // SAFETY: the last owner is the sole owner; a shard's free list is only used with its own hub.
        EngineGone::Last => unsafe { free.put(&hub.arena, entry) },
        EngineGone::NotYet => return false,
    }
    true
}

/// Takes an entry that is in no list any more out of PENDING, if it still is, and puts it where it belongs then.
fn withdraw(
    free: &Local,
    hub: &HubRef,
    mailbox: &Mailbox,
    entry: NonNull<Entry>,
    left: &mut UnfiredList,
    wakes: &mut Option<Batch>,
) {
    // SAFETY: the engine has not let go of it.
    let this = unsafe { entry_ref(entry) };
    loop {
        if this.state.withdraw() {
            return if this.as_sleeper().is_some() {
                // SAFETY: just won, and in no list.
                unsafe { wake_later(wakes, entry, hub, mailbox) }
            } else {
                // SAFETY: just won, and in no list; the engine's part in it is given up.
                unsafe { left.push(hub, entry) }
            };
        }
        // A cancel that has won but not queued the entry yet still holds the handle, and finds the queue closed.
        if let_go(free, hub, entry) {
            return;
        }
    }
}
