//! The half of a shard that only its worker touches: the wheel, and the entries taken out of the
//! queues.

use super::arrivals::Arrivals;
use super::batch::{Batch, Entries, MAX_BATCH};
use super::lifetime::SharedRef;
use super::unfired::UnfiredList;
use crate::arena::EntryCache;
use crate::count::ENDED;
use crate::entry::{Chain, EndedEarly, FromQueue, Owned, Sole, Won};
use crate::shard::{Remote, Taken, Takes};
use crate::time::Subtick;
use crate::wheel::Wheel;

/// How much one turn may do of each kind of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) transfer: usize,
    /// Limits separately: entries looked at because their slot came up, entries moved by cascades,
    /// and cancelled entries.
    pub(crate) expiry: usize,
}

/// The outcome of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnResult {
    pub(crate) fired: usize,
    /// Something was left over: turn again at once.
    pub(crate) more: bool,
}

/// The owner's side of a shard.
#[derive(Debug)]
pub(crate) struct Core {
    /// The engine's id.
    engine: u64,
    index: usize,
    pub(super) takes: Takes,
    pub(super) wheel: Wheel,
    pub(super) limits: Limits,
    /// Taken out of the queues, and not gone through yet.
    pub(super) inbox: Arrivals,
    pub(super) cancelled: Taken<FromQueue>,
    pub(super) moved: Taken<FromQueue>,
    pub(super) free: EntryCache,
    /// Expired entries of sleeping futures, which are woken when the turn is over.
    pub(super) wakes: Chain<Won>,
    /// The timeouts that the end of a driven engine has expired, and runs when the shards are
    /// unlocked. They are kept here because that must need no memory.
    pub(crate) held: Option<Batch>,
    /// The time of the last turn: the clock is not trusted to be monotonic.
    pub(super) now: Subtick,
    /// The latest deadline that had come when it was taken in, or is next. Until it has come, it
    /// does not wait for others of its tick.
    pub(super) hurried: Subtick,
}

impl Core {
    /// Makes the worker's half of a shard, once.
    pub(crate) fn new(shared: &SharedRef, index: usize, wheel: Wheel, limits: Limits) -> Self {
        Self {
            engine: shared.id(),
            index,
            takes: shared.remote(index).begin_core(),
            wheel,
            limits,
            inbox: Arrivals::NONE,
            cancelled: Taken::NONE,
            moved: Taken::NONE,
            free: EntryCache::default(),
            wakes: Chain::default(),
            held: None,
            now: Subtick::ZERO,
            hurried: Subtick::ZERO,
        }
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns the other half of the shard. Its entries go into this wheel, and those of no other.
    /// The entries live as long as the engine of `shared`.
    pub(super) fn remote<'a>(&self, shared: &'a SharedRef) -> &'a Remote {
        assert!(self.engine == shared.id(), "a shard is turned with its own engine");
        shared.remote(self.index)
    }

    /// Returns the time of the last turn.
    pub(crate) fn turned_to(&self) -> Subtick {
        self.now
    }

    /// Returns how many entries are in the wheel.
    pub(crate) fn linked(&self) -> usize {
        self.wheel.len()
    }

    /// Returns the earliest deadline of all linked entries, or [`Subtick::NEVER`] if there is none.
    /// Looks at the entries of as many slots as necessary.
    pub(crate) fn earliest(&self, shared: &SharedRef) -> Subtick {
        let _is_there = self.remote(shared);
        self.wheel.earliest()
    }

    /// Closes the shard for good and returns the timeouts that were still pending. Timeouts
    /// scheduled afterwards are refused. Each timeout that was accepted before is returned, or was
    /// cancelled, or has been handed to an executor.
    ///
    /// Sleeping futures are withdrawn too, but not returned. The caller has to wake them
    /// ([`take_wakes`](Self::take_wakes)), because nobody could wake them later.
    pub(crate) fn close(&mut self, shared: &SharedRef) -> UnfiredList {
        let (mut left, mut wakes) = (UnfiredList::new(shared), std::mem::take(&mut self.wakes));
        let before = wakes.len();
        let remote = self.remote(shared);
        let mut awake = 0;
        self.empty(shared, remote, false, |free, entry| match unless_cancelled(free, shared, entry, Owned::withdraw) {
            Some(EndedEarly::Wake(Some(entry))) => wakes.push(entry),
            Some(EndedEarly::Wake(None)) => awake += 1,
            Some(EndedEarly::Task(entry)) => left.push(entry),
            None => {}
        });
        let withdrawn = left.len() + awake + wakes.len() - before;
        remote.counters.returned.add(withdrawn as u64);
        shared.give_places_back(withdrawn);
        self.wakes = wakes;
        left
    }

    /// Closes the shard for good, and hands all timeouts that were still pending to `sink`, to run
    /// whatever their deadlines. Sleeping futures are left for [`take_wakes`](Self::take_wakes).
    pub(crate) fn close_and_fire(&mut self, shared: &SharedRef, sink: &mut impl FnMut(Batch)) {
        // All arrivals go into the wheel, so that they come out in the order of deadlines. Without
        // memory some stay where they are. Those that found none in a turn before go first.
        self.inbox.put_back();
        self.limits = Limits { transfer: usize::MAX, expiry: usize::MAX };
        self.sort_in(shared, self.now);
        let (mut tasks, mut wakes) = (Chain::default(), std::mem::take(&mut self.wakes));
        let remote = self.remote(shared);
        let mut fire = |tasks| sink(Batch::new(Entries::Tasks(tasks, Subtick::NEVER), shared, remote));
        self.empty(shared, remote, true, |free, entry| match unless_cancelled(free, shared, entry, Owned::fire) {
            Some(EndedEarly::Task(marked)) => {
                tasks.push(marked);
                if tasks.len() == MAX_BATCH {
                    fire(std::mem::take(&mut tasks));
                }
            }
            Some(EndedEarly::Wake(entry)) => end_sleep(&mut wakes, entry, shared, remote),
            None => {}
        });
        if tasks.len() > 0 {
            fire(tasks);
        }
        self.wakes = wakes;
    }

    /// Holds what `work` gives to the sink that it is called with.
    pub(crate) fn hold(&mut self, work: impl FnOnce(&mut Self, &mut dyn FnMut(Batch))) {
        let mut held = self.held.take();
        work(self, &mut |batch| match &mut held {
            Some(held) => held.append(batch),
            none => *none = Some(batch),
        });
        self.held = held;
    }

    /// Closes the queues, and gives each entry that is left, in no list any more, to `take`. With
    /// `by_deadline` those of the wheel come in that order.
    fn empty(
        &mut self,
        shared: &SharedRef,
        remote: &Remote,
        by_deadline: bool,
        mut take: impl FnMut(&EntryCache, Owned),
    ) {
        let pushed = self.takes.inbox(remote).close();
        let queued = [
            std::mem::replace(&mut self.cancelled, Taken::NONE),
            self.takes.cancelled(remote).close(),
            std::mem::replace(&mut self.moved, Taken::NONE),
            self.takes.moved(remote).close(),
        ];
        // First the entries of the side queues: some are cancelled, and in no slot any more.
        for mut list in queued {
            while let Some(entry) = list.pop() {
                self.pop(shared, entry);
            }
        }
        let free = &self.free;
        // SAFETY: the queues are closed, and were gone through.
        unsafe { self.wheel.empty(by_deadline, |entry| take(free, entry)) };
        self.inbox.put_back();
        for mut list in [std::mem::replace(&mut self.inbox, Arrivals::NONE), Arrivals::new(pushed)] {
            list.turn_round(usize::MAX);
            while let Some(entry) = list.pop() {
                take(&self.free, entry);
            }
        }
        // Producers that wait for the worker look at the backlogs.
        self.note_backlogs(remote);
        remote.counters.linked.set(0);
        remote.fault.set(ENDED);
        remote.complete_all_turns();
    }
}

/// Counts a timeout as fired, on the worker, before it runs.
#[inline]
pub(super) fn count_fired(shared: &SharedRef, remote: &Remote) {
    remote.counters.fired.add(1);
    shared.give_places_back(1);
}

/// Counts a sleeping future as fired, and has it woken when the turn is over. Without an entry it
/// is awake already, and so is done.
#[inline]
pub(super) fn end_sleep(wakes: &mut Chain<Won>, entry: Option<Won>, shared: &SharedRef, remote: &Remote) {
    // First, because a timeout that has completed must have fired before.
    count_fired(shared, remote);
    match entry {
        Some(entry) => wakes.push(entry),
        None => count_awake(shared, remote),
    }
}

#[cold]
#[inline(never)]
fn count_awake(shared: &SharedRef, remote: &Remote) {
    shared.count(remote, |counts| counts.completed.add(1));
}

/// Puts an entry into the worker's free list.
#[inline]
pub(super) fn give_back(free: &EntryCache, shared: &SharedRef, entry: Sole) {
    debug_assert!(shared.has(&entry), "of this engine");
    // SAFETY: a shard's free list is used with its own engine only, which `Core::remote` has
    // checked as the step began, and by the thread that has the `Core`.
    unsafe { free.with(&shared.arena) }.put(entry);
}

/// Goes a step with an entry that is in no list. Lets it go if it was cancelled.
#[inline(always)] // It is called in a loop of few instructions.
pub(super) fn unless_cancelled<T>(
    free: &EntryCache,
    shared: &SharedRef,
    mut entry: Owned,
    mut step: impl FnMut(Owned) -> Result<T, Owned>,
) -> Option<T> {
    loop {
        // After a close, a cancel that has not pushed the entry yet still holds the handle, and
        // finds the queue closed.
        entry = match step(entry).map_err(Owned::let_go) {
            Ok(done) => return Some(done),
            // It was revived after it was found cancelled.
            Err(Err(revived)) => revived,
            Err(Ok(last)) => {
                last.into_iter().for_each(|entry| give_back(free, shared, entry));
                return None;
            }
        };
    }
}
