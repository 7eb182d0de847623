//! Expired entries on their way to an executor: an intrusive list, so handing them over allocates
//! nothing.

use std::ptr::NonNull;

use super::chain::Chain;
use super::lifetime::SharedRef;
use super::periodic::PeriodicRun;
use super::run::Run;
use super::unfired::{HandBack, hand_back, withdraw_outside};
use crate::count::Counts;
use crate::entry::{Entry, Expire, Kind, Owned, Won, entry_ref};
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
    entry: Owned,
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
        let is_alike = self.shard == other.shard && self.entries.kind == other.entries.kind;
        assert!(is_alike && self.shared.id() == other.shared.id(), "batches of one shard and kind");
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
        assert!(self.entries.kind == entries.kind && entries.chain.len() == 0, "all of the part was taken off");
        let rest = self.entries.split_off().unwrap_or_else(Chain::new);
        entries.chain = std::mem::replace(&mut self.entries.chain, rest);
    }

    /// Adds an entry that was taken out of PENDING for this batch.
    #[inline]
    pub(super) fn push_won(&mut self, entry: Won) {
        self.push(entry.into_owned());
    }

    /// Adds a timeout that runs once, and is claimed by the runner.
    ///
    /// # Safety
    /// The batch is [`due`](Self::due), and the timeout is no periodic one.
    #[inline]
    pub(super) unsafe fn push_due(&mut self, entry: Owned) {
        self.push(entry);
    }

    #[inline]
    fn push(&mut self, entry: Owned) {
        // A batch of sleepers is never split. And their futures may drop them meanwhile: a future
        // whose sleep a shutdown has ended leaves a tombstone, whose link is in the same place.
        if !self.is_of_sleepers()
            && self.len().is_multiple_of(PART)
            && let Some(before) = self.last_part.replace(NonNull::from(&*entry))
        {
            // SAFETY: entries of the batch are its own.
            unsafe { entry_ref(before) }.set_next_part(entry.as_link());
        }
        self.entries.chain.push(entry);
    }
}

impl Entries {
    /// Splits off all but the first part. Returns `None` if there is only one.
    fn split_off(&mut self) -> Option<Chain> {
        if self.chain.len() <= PART {
            return None;
        }
        let next = NonNull::new(self.chain.first()?.next_part())?;
        // SAFETY: the first entry of a part names that of the next one.
        Some(unsafe { self.chain.split_off(PART, next) })
    }

    /// Takes the next entry off.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Batched> {
        self.chain.pop().map(|entry| Batched { entry, kind: self.kind })
    }
}

impl Batched {
    /// Wakes the sleeping future, whose entry was expired for this batch.
    #[inline(always)]
    pub(crate) fn wake(self, at: At<'_>, runner: &mut impl Run) {
        assert!(self.kind == BatchKind::Sleepers, "a future");
        let deadline = self.entry.state.deadline();
        // SAFETY: the entry was taken out of PENDING for this batch, and was taken off once.
        let waker = unsafe { self.entry.take_waker() };
        at.shared.let_go(self.entry);
        runner.wake(deadline, waker);
    }

    /// Claims the timeout and runs it, if it is still to be run. Otherwise does with it what its
    /// word says: it was cancelled or put off, or a shutdown wants it back.
    #[inline(always)]
    pub(crate) fn run(self, at: At<'_>, runner: &mut impl Run) {
        let Self { mut entry, kind } = self;
        let seen = entry.state.load();
        let deadline = seen.deadline();
        let is_periodic = seen.kind() == Kind::Series;
        // In a drain the runs of a periodic timeout do not go on.
        if at.may_go_back && (at.remote.wants_back() || is_periodic && at.remote.drains_until().is_some()) {
            entry = match hand_back(at.shared, at.remote, entry) {
                HandBack::Done(dropped) => return dropped.unwrap_or_else(|panic| runner.report(panic)),
                HandBack::NotWanted(entry) => entry,
            };
        }
        if is_periodic {
            // SAFETY: a periodic timeout comes into a batch by `push_won`.
            return runner.periodic(deadline, PeriodicRun::new(unsafe { Won::new(entry) }));
        }
        let BatchKind::Due(now) = kind else {
            // SAFETY: into such a batch entries come by `push_won`.
            return run_expired(unsafe { Won::new(entry) }, at, deadline, runner);
        };
        // SAFETY: the entry is the engine's, and has no sleeper.
        let mut copy = unsafe { entry.copy_task() };
        match entry.state.claim(seen, now) {
            Expire::Fire => {}
            // SAFETY: the engine was the last owner.
            Expire::FireLast => at.shared.put_entry(unsafe { entry.into_sole() }),
            other => return pass_over(entry, at, other, runner),
        }
        at.count();
        // SAFETY: this call has claimed the entry after it made the copy.
        runner.once(deadline, unsafe { copy.as_task() });
    }
}

/// Runs a timeout that was taken out of PENDING, and counted then.
fn run_expired(entry: Won, at: At<'_>, deadline: Subtick, runner: &mut impl Run) {
    // SAFETY: the task is the caller's, and there is no sleeper.
    let mut copy = unsafe { entry.copy_task() };
    at.shared.let_go(entry.into_owned());
    // SAFETY: the task is the caller's.
    runner.once(deadline, unsafe { copy.as_task() });
}

/// Does what is to be done with a timeout that could not be claimed.
#[cold]
#[inline(never)]
fn pass_over(entry: Owned, at: At<'_>, found: Expire, runner: &mut impl Run) {
    let Expire::NotBefore(_) = found else {
        // It was cancelled.
        return at.shared.let_go(entry);
    };
    // It was put off: from here on it is the worker's again.
    // SAFETY: `at` has a reference to the engine.
    let Err(mut entry) = (unsafe { at.remote.push_again(entry, at.shared.timeline()) }) else { return };
    // The shard has been closed.
    if at.remote.is_to_fire() {
        entry = match entry.expire_early() {
            Ok(expired) => {
                at.count();
                let deadline = expired.state.deadline();
                return run_expired(expired, at, deadline, runner);
            }
            Err(cancelled) => cancelled,
        };
    }
    match withdraw_outside(at.shared, at.remote, entry) {
        Ok(dropped) => dropped.unwrap_or_else(|panic| runner.report(panic)),
        // A cancel was first, and has taken the task.
        Err(cancelled) => at.shared.let_go(cancelled),
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
