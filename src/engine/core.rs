//! The half of a shard that only its worker touches: the wheel, and the entries taken out of the
//! queues.

use super::arrivals::Arrivals;
use super::batch::{Batch, ExpiredBatch, MAX_BATCH, SleeperBatch};
use super::lifetime::SharedRef;
use super::shared::Shared;
use super::unfired::UnfiredList;
use crate::arena::EntryCache;
use crate::entry::{Asleep, Fired, LetGo, Linkable, MaybeLinked, Node, Owned, Sole, Withdrawn};
use crate::shard::{Remote, Taken};
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

/// What a turn has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnResult {
    pub(crate) fired: usize,
    /// Something was left over: turn again at once.
    pub(crate) more: bool,
}

/// What the owner has noted last for other threads. Unchanged values are not written again.
#[derive(Debug, Default)]
pub(super) struct Noted {
    pub(super) inbox: usize,
    pub(super) cancelled: usize,
    pub(super) resets: usize,
    pub(super) share: usize,
}

/// The owner's side of a shard.
#[derive(Debug)]
pub(crate) struct Core {
    /// The engine's id.
    engine: u64,
    index: usize,
    pub(super) wheel: Wheel,
    pub(super) limits: Limits,
    /// Taken out of the queues, and not gone through yet.
    pub(super) inbox: Arrivals,
    pub(super) cancelled: Taken<MaybeLinked>,
    pub(super) resets: Taken<Node>,
    pub(super) noted: Noted,
    pub(super) free: EntryCache,
    /// Expired entries of sleeping futures, which are woken when the turn is over.
    pub(super) wakes: Option<SleeperBatch>,
    /// What the end of a driven engine has expired, and runs when the shards are unlocked. It is
    /// kept here because it must need no memory.
    held: Option<Batch>,
    /// The time of the last turn: the clock is not trusted to be monotonic.
    pub(super) now: Subtick,
}

// SAFETY: the links of the entries in its lists belong to the shard's owner; the rest is plain
// data.
unsafe impl Send for Core {}

impl Core {
    /// Makes the worker's half of a shard, once.
    pub(crate) fn new(shared: &SharedRef, index: usize, wheel: Wheel, limits: Limits) -> Self {
        shared.remote(index).begin_core();
        Self {
            engine: shared.id(),
            index,
            wheel,
            limits,
            inbox: Arrivals::NONE,
            cancelled: Taken::NONE,
            resets: Taken::NONE,
            noted: Noted::default(),
            free: EntryCache::new(),
            wakes: None,
            held: None,
            now: Subtick::ZERO,
        }
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns the other half of the shard. Its entries go into this wheel, and those of no other.
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

    #[inline]
    pub(super) fn unlink(&mut self, entry: MaybeLinked) -> Linkable {
        // SAFETY: `collect`, `relink` and `empty` took the entry out of the cancelled queue or the
        // reset queue of this shard. Both name only entries that are marked as linked, which this
        // worker links in this wheel and nowhere else, and in no open slot now.
        unsafe { self.wheel.unlink(entry) }
    }

    #[inline(always)] // Its callers are loops of few instructions.
    pub(super) fn unlink_and_let_go(&mut self, shared: &SharedRef, entry: MaybeLinked) {
        // SAFETY: it was cancelled, and the queue that named it has given it up.
        let entry = unsafe { self.unlink(entry).into_owned() };
        let gone = let_go(&self.free, shared, entry);
        debug_assert!(gone.is_ok(), "only an entry that was never linked is revived");
    }

    /// Returns whether the inbox has been closed and nothing is left that will ever be due.
    pub(crate) fn is_drained(&self, shared: &SharedRef) -> bool {
        self.remote(shared).is_closed() && self.next_due().is_none()
    }

    /// Returns the earliest deadline of all linked entries, or [`Subtick::NEVER`] if there is none.
    /// Looks at the entries of as many slots as necessary.
    pub(crate) fn earliest(&self) -> Subtick {
        self.wheel.earliest()
    }

    /// Closes the shard for good and returns the timeouts that were still pending. Timeouts
    /// scheduled afterwards are refused. Each timeout that was accepted before is returned, or was
    /// cancelled, or has been handed to an executor.
    ///
    /// Sleeping futures are withdrawn too, but not returned. The caller has to wake them
    /// ([`take_wakes`](Self::take_wakes)), because nobody could wake them later.
    pub(crate) fn close(&mut self, shared: &SharedRef) -> UnfiredList {
        let (mut left, mut wakes) = (UnfiredList::new(), self.wakes.take());
        let before = wakes.as_ref().map_or(0, SleeperBatch::len);
        let remote = self.remote(shared);
        self.empty(shared, remote, |free, entry| match take_back(free, shared, entry, Owned::withdraw) {
            Some(Withdrawn::Sleeper(entry)) => wake_later(&mut wakes, entry, shared, remote),
            Some(Withdrawn::Task(entry)) => left.push(shared, entry),
            None => {}
        });
        let withdrawn = left.len() + wakes.as_ref().map_or(0, SleeperBatch::len) - before;
        remote.counters.returned.add(withdrawn as u64);
        shared.give_places_back(withdrawn);
        self.wakes = wakes;
        left
    }

    /// Closes the shard for good, and hands all timeouts that were still pending to `sink`,
    /// whatever their deadlines. Sleeping futures are left for [`take_wakes`](Self::take_wakes).
    pub(crate) fn close_and_fire(&mut self, shared: &SharedRef, sink: &mut impl FnMut(Batch)) {
        let (mut batch, mut wakes) = (None, self.wakes.take());
        let remote = self.remote(shared);
        self.empty(shared, remote, |free, entry| {
            if let Some(entry) = take_back(free, shared, entry, Owned::expire_early) {
                fire(&mut batch, &mut wakes, entry, shared, remote, sink);
            }
        });
        batch.map(ExpiredBatch::into_batch).into_iter().for_each(sink);
        self.wakes = wakes;
    }

    /// Closes the shard as [`close_and_fire`](Self::close_and_fire) does, and holds what it fires.
    pub(crate) fn close_and_hold(&mut self, shared: &SharedRef) {
        let mut held = self.held.take();
        self.close_and_fire(shared, &mut |batch| hold(&mut held, batch));
        self.held = held;
    }

    /// Turns the shard until nothing due is left, and holds what expires. This is the last turn, so
    /// nothing that is due waits for others of its tick.
    pub(crate) fn turn_and_hold(&mut self, shared: &SharedRef, now: Subtick) {
        let mut held = self.held.take();
        self.wheel.bring_up_by(now);
        while self.turn(shared, now, || None, |due| due.hand_over(&mut |batch| hold(&mut held, batch))).more {}
        self.held = held;
    }

    /// Returns what it holds, once.
    pub(crate) fn take_held(&mut self) -> Option<Batch> {
        self.held.take()
    }

    /// Closes the queues, and gives each entry that is left, in no list any more, to `take`.
    fn empty(&mut self, shared: &SharedRef, remote: &Remote, mut take: impl FnMut(&EntryCache, Owned)) {
        let pushed = remote.inbox.close();
        let pushed_back = remote.cancelled.close();
        // First the entries that are known to be cancelled: some are in no slot any more.
        for mut list in [std::mem::replace(&mut self.cancelled, Taken::NONE), pushed_back] {
            while let Some(entry) = list.pop() {
                self.unlink_and_let_go(shared, entry);
            }
        }
        for mut list in [std::mem::replace(&mut self.inbox, Arrivals::NONE), Arrivals::new(pushed)] {
            list.turn_round(usize::MAX);
            while let Some(entry) = list.pop() {
                take(&self.free, entry);
            }
        }
        for entry in self.wheel.drain() {
            // SAFETY: both queues are closed. The cancelled one is empty, and the nodes of the
            // other are not opened.
            take(&self.free, unsafe { entry.into_owned() });
        }
        // The entries that the nodes name are not looked at: they were in the wheel.
        for mut nodes in [std::mem::replace(&mut self.resets, Taken::NONE), remote.resets.close()] {
            while let Some(node) = nodes.pop() {
                give_back(&self.free, shared, node.into_sole());
            }
        }
        // Producers that wait for the worker go by these.
        self.note_backlogs(remote);
        remote.counters.linked.set(0);
        remote.fault.set_closed();
        remote.complete_all_turns();
    }
}

/// Adds an expired entry to the batch that is to be run, or to those that are to be woken. Hands a
/// full batch over.
#[inline]
fn fire(
    batch: &mut Option<ExpiredBatch>,
    wakes: &mut Option<SleeperBatch>,
    fired: Fired,
    shared: &SharedRef,
    remote: &Remote,
    sink: &mut impl FnMut(Batch),
) {
    if !matches!(fired, Fired::Run(_)) {
        count_fired(1, shared, remote);
    }
    if let Fired::Sleeper(entry) = fired {
        return wake_later(wakes, entry, shared, remote);
    }
    let open = batch.get_or_insert_with(|| ExpiredBatch::new(shared.clone(), remote.index()));
    open.push(fired);
    if open.len() == MAX_BATCH {
        batch.take().map(ExpiredBatch::into_batch).into_iter().for_each(sink);
    }
}

/// Adds an entry of a sleeping future to those that are to be woken.
pub(super) fn wake_later(wakes: &mut Option<SleeperBatch>, entry: Asleep, shared: &SharedRef, remote: &Remote) {
    wakes.get_or_insert_with(|| SleeperBatch::new(shared.clone(), remote.index())).push(entry);
}

/// Counts timeouts as fired, on the worker, before they run. A periodic timeout keeps its place
/// under the limit.
#[inline]
pub(super) fn count_fired(once: usize, shared: &SharedRef, remote: &Remote) {
    remote.counters.fired.add(once as u64);
    shared.give_places_back(once);
}

/// Gives up the engine's ownership of an entry that is no longer pending. Returns the entry if it
/// is pending again, see [`LetGo::NotYet`].
#[inline]
pub(super) fn let_go(free: &EntryCache, shared: &SharedRef, entry: Owned) -> Result<(), Owned> {
    match entry.let_go() {
        LetGo::OthersOwn => Ok(()),
        LetGo::Last(entry) => {
            give_back(free, shared, entry);
            Ok(())
        }
        LetGo::NotYet(entry) => Err(entry),
    }
}

/// Puts an entry into the worker's free list.
#[inline]
pub(super) fn give_back(free: &EntryCache, shared: &SharedRef, entry: Sole) {
    debug_assert!(entry.home().is_none_or(|home| std::ptr::eq(Shared::of_remote(Remote::at(home)), &**shared)));
    // SAFETY: a shard's free list is only used with its own engine, by the thread that turns it.
    unsafe { free.with(&shared.arena) }.put(entry);
}

/// Takes an entry out of PENDING by `win`. Gives it up if it was cancelled.
fn take_back<W>(
    free: &EntryCache,
    shared: &SharedRef,
    mut entry: Owned,
    win: impl Fn(Owned) -> Result<W, Owned>,
) -> Option<W> {
    // Repeats if the entry was revived after it was found cancelled.
    loop {
        entry = match win(entry) {
            Ok(won) => return Some(won),
            // A cancel that has won but not queued the entry yet still holds the handle, and finds
            // the queue closed.
            Err(cancelled) => let_go(free, shared, cancelled).err()?,
        };
    }
}

fn hold(held: &mut Option<Batch>, batch: Batch) {
    match held {
        Some(held) => held.append(batch),
        None => *held = Some(batch),
    }
}
