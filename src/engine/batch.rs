//! Expired entries on their way to an executor: an intrusive list, so handing them over allocates
//! nothing.

use std::ptr::NonNull;

use super::chain::Chain;
use super::lifetime::SharedRef;
use super::periodic::PeriodicRun;
use super::run::Run;
use super::unfired::{HandBack, hand_back, withdraw_outside};
use crate::count::Counts;
use crate::entry::{Entry, Expire, Kind, entry_ref};
use crate::shard::Remote;
use crate::time::Subtick;

/// How many entries go to the executor at a time. With so many its queue costs little per timeout,
/// and with so few two threads can share a burst of some thousands.
pub(crate) const MAX_BATCH: usize = 256;

/// How many entries a thread of a pool takes out of its batch at a time: a *part*. A task that
/// blocks holds up the others of its part.
pub(crate) const PART: usize = if cfg!(loom) { 1 } else { 8 };

/// Up to [`MAX_BATCH`] expired entries, in the order in which they expired. The batch holds the
/// engine's ownership of them.
#[derive(Debug)]
pub(crate) struct Batch {
    entries: Entries,
    /// The first entry of the last part. The first entry of each other part names that of the next
    /// one, so that a thread can leave the rest to others without going through its own part.
    last_part: Option<NonNull<Entry>>,
    shared: SharedRef,
    shard: usize,
}

/// What all entries of a batch have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchKind {
    /// They were due at this time. Those that run once are still pending, and the runner claims
    /// each of them.
    Due(Subtick),
    /// A shutdown has expired them, whatever their deadlines.
    Expired,
    /// They are those of sleeping futures, and expired.
    Sleepers,
}

/// The list itself.
#[derive(Debug)]
pub(crate) struct Entries {
    chain: Chain,
    kind: BatchKind,
}

/// An entry that was taken off a batch. It holds the engine's ownership of the entry.
pub(crate) struct Batched {
    entry: NonNull<Entry>,
    kind: BatchKind,
}

// SAFETY: expired entries belong to the thread that holds the batch, and their tasks are `Send`.
unsafe impl Send for Batch {}

impl Batch {
    fn new(shared: SharedRef, shard: usize, kind: BatchKind) -> Self {
        Self { entries: Entries { chain: Chain::new(), kind }, last_part: None, shared, shard }
    }

    /// Makes a batch for entries that are due at `now`.
    pub(super) fn due(shared: SharedRef, shard: usize, now: Subtick) -> Self {
        Self::new(shared, shard, BatchKind::Due(now))
    }

    /// Makes a batch for entries that a shutdown has expired.
    pub(super) fn expired(shared: SharedRef, shard: usize) -> Self {
        Self::new(shared, shard, BatchKind::Expired)
    }

    /// Makes a batch for entries of sleeping futures, of any length.
    pub(super) fn of_sleepers(shared: SharedRef, shard: usize) -> Self {
        Self::new(shared, shard, BatchKind::Sleepers)
    }

    pub(crate) fn is_of_sleepers(&self) -> bool {
        self.entries.kind == BatchKind::Sleepers
    }

    /// Returns the entries, and the engine that `Batched`'s functions need.
    pub(crate) fn open(&mut self) -> (&mut Entries, &SharedRef) {
        (&mut self.entries, &self.shared)
    }

    pub(crate) fn shared(&self) -> &SharedRef {
        &self.shared
    }

    /// Returns the shard that expired it.
    pub(crate) fn shard(&self) -> usize {
        self.shard
    }

    /// Takes over all of another batch, of the same shard and kind. It may then be larger than
    /// [`MAX_BATCH`], and can't be split.
    pub(crate) fn append(&mut self, other: Self) {
        debug_assert!(self.shard == other.shard && self.entries.kind == other.entries.kind);
        self.entries.chain.append(other.entries.chain);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.chain.len()
    }

    /// Splits off all but the first part. Returns `None` if there is only one.
    pub(crate) fn split_off(&mut self) -> Option<Self> {
        let chain = self.entries.split_off()?;
        let mut rest = Self::new(self.shared.clone(), self.shard, self.entries.kind);
        rest.entries.chain = chain;
        Some(rest)
    }

    /// Moves the first part to the entries of a batch that this one was split off. Those have all
    /// been taken off.
    pub(crate) fn move_part(&mut self, entries: &mut Entries) {
        debug_assert!(self.entries.kind == entries.kind && entries.chain.len() == 0);
        let rest = self.entries.split_off().unwrap_or_else(Chain::new);
        entries.chain = std::mem::replace(&mut self.entries.chain, rest);
    }

    /// # Safety
    /// The entry is the engine's, and in no list. It is in the state that the batch's kind says, or
    /// the caller has expired it, and it is periodic.
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: NonNull<Entry>) {
        // A batch of sleepers is never split. And their futures may drop them meanwhile: a future
        // whose sleep a shutdown has ended leaves a tombstone, whose link is in the same place.
        if !self.is_of_sleepers()
            && self.len().is_multiple_of(PART)
            && let Some(before) = self.last_part.replace(entry)
        {
            // SAFETY: entries of the batch are the caller's.
            unsafe { entry_ref(before) }.set_next_part(entry.as_ptr());
        }
        // SAFETY: the caller says that it is in no list; it is the batch's from here on.
        unsafe { self.entries.chain.push(entry) };
    }
}

impl Entries {
    /// Splits off all but the first part. Returns `None` if there is only one.
    fn split_off(&mut self) -> Option<Chain> {
        if self.chain.len() <= PART {
            return None;
        }
        // SAFETY: the entries are the batch's.
        let next = unsafe { entry_ref(self.chain.first()?) }.next_part();
        Some(self.chain.split_off(PART, NonNull::new(next)?))
    }

    /// Takes the next entry off.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Batched> {
        self.chain.pop().map(|entry| Batched { entry, kind: self.kind })
    }
}

impl Batched {
    fn entry(&self) -> &Entry {
        // SAFETY: this value holds the engine's ownership of it.
        unsafe { entry_ref(self.entry) }
    }

    /// Wakes the sleeping future, whose entry was expired for this batch.
    #[inline(always)]
    pub(crate) fn wake(self, at: At<'_>, runner: &mut impl Run) {
        let this = self.entry();
        let deadline = this.state.deadline();
        // SAFETY: the entry was taken out of PENDING for this batch, and was taken off once.
        let waker = unsafe { this.take_waker() };
        // SAFETY: this value holds the engine's ownership, and ends with it.
        unsafe { at.shared.let_go(self.entry) };
        runner.wake(deadline, waker);
    }

    /// Claims the timeout and runs it, if it is still to be run. Otherwise does with it what its
    /// word says: it was cancelled or put off, or a shutdown wants it back.
    #[inline(always)]
    pub(crate) fn run(self, at: At<'_>, runner: &mut impl Run) {
        let this = self.entry();
        let seen = this.state.load();
        let deadline = seen.deadline();
        if at.may_go_back && at.remote.wants_back() {
            // SAFETY: this value holds the engine's ownership, and ends with it.
            if let HandBack::Done(dropped) = unsafe { hand_back(at.shared, at.remote, self.entry) } {
                return dropped.unwrap_or_else(|panic| runner.report(panic));
            }
        }
        if seen.kind() == Kind::Series {
            // SAFETY: the worker has expired it, and it was taken off the batch once.
            return runner.periodic(deadline, unsafe { PeriodicRun::new(self.entry) });
        }
        let BatchKind::Due(now) = self.kind else { return self.run_expired(at, deadline, runner) };
        // SAFETY: this value holds the engine's ownership, and the entry has no sleeper.
        let mut copy = unsafe { this.copy_task() };
        match this.state.claim(seen, now) {
            Expire::Fire => {}
            // SAFETY: the engine was the last owner, so this thread is the sole owner.
            Expire::FireLast => unsafe { at.shared.put_entry(self.entry) },
            other => return self.pass_over(at, other, runner),
        }
        at.count();
        // SAFETY: this call has claimed the entry after it made the copy.
        runner.once(deadline, unsafe { copy.as_task() });
    }

    /// Runs a timeout that was taken out of PENDING, and counted then.
    fn run_expired(self, at: At<'_>, deadline: Subtick, runner: &mut impl Run) {
        // SAFETY: the entry was taken out of PENDING for this batch, and was taken off once.
        let mut copy = unsafe { self.entry().copy_task() };
        // SAFETY: this value holds the engine's ownership, and ends with it.
        unsafe { at.shared.let_go(self.entry) };
        // SAFETY: as for the copy.
        runner.once(deadline, unsafe { copy.as_task() });
    }

    /// Does what is to be done with a timeout that could not be claimed.
    #[cold]
    #[inline(never)]
    fn pass_over(self, at: At<'_>, found: Expire, runner: &mut impl Run) {
        let Expire::NotBefore(_) = found else {
            // It was cancelled.
            // SAFETY: this value holds the engine's ownership, and ends with it.
            return unsafe { at.shared.let_go(self.entry) };
        };
        // It was put off: from here on it is the worker's again.
        // SAFETY: the entry is in no list, and this value may give it to the worker.
        if unsafe { at.remote.push_again(self.entry, at.shared.timeline()) }.is_ok() {
            return;
        }
        // The shard has been closed.
        if at.remote.is_to_fire() && self.entry().state.expire_early() {
            at.count();
            let deadline = self.entry().state.deadline();
            return self.run_expired(at, deadline, runner);
        }
        // SAFETY: this value holds the engine's ownership, and ends with it.
        match unsafe { withdraw_outside(at.shared, at.remote, self.entry) } {
            Some(dropped) => dropped.unwrap_or_else(|panic| runner.report(panic)),
            // A cancel was first, and has taken the task.
            // SAFETY: this value holds the engine's ownership, and ends with it.
            None => unsafe { at.shared.let_go(self.entry) },
        }
    }
}

/// Where a batch runs.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    shared: &'a SharedRef,
    remote: &'a Remote,
    /// What the thread counts for the shard, if it has a state of its own.
    counts: Option<&'a Counts>,
    may_go_back: bool,
}

impl<'a> At<'a> {
    /// `shard` is the batch's. With `may_go_back` a shutdown gets what has not begun.
    pub(crate) fn new(shared: &'a SharedRef, shard: usize, may_go_back: bool) -> Self {
        let remote = shared.remote(shard);
        let counts = shared.thread_state().map(|mine| shared.counts_of(mine, remote));
        Self { shared, remote, counts, may_go_back }
    }

    /// Counts a timeout as fired. Before it runs, because a task that schedules must find the place
    /// under the limit that it has freed.
    #[inline]
    fn count(self) {
        match self.counts {
            Some(counts) => counts.fired.add(1),
            None => self.shared.count(self.remote, |counts| counts.fired.add(1)),
        }
        self.shared.give_places_back(1);
    }
}
