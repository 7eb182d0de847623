//! Timeouts that are due, on their way to an executor: an intrusive list, so handing them over
//! allocates nothing.

use super::lifetime::SharedRef;
use super::periodic::PeriodicRun;
use super::run::Run;
use super::unfired::{hand_back, withdraw_outside};
use crate::count::Counts;
use crate::entry::{Chain, Claimed, Expire, Kind, Marked, Owned, Part, TaskPlace, Won};
use crate::shard::Remote;
use crate::time::Subtick;

/// How many entries go to the executor at a time. With so many its queue costs little per timeout,
/// and with so few two threads can share a burst of some thousands.
pub(crate) const MAX_BATCH: usize = 256;

/// How many entries a thread of a pool takes out of its batch at a time: a *part*.
pub(crate) const PART: usize = if cfg!(loom) { 2 } else { 8 };

/// Up to [`MAX_BATCH`] timeouts that are due, in the order in which they came up, or the sleeping
/// futures of a turn. The batch holds the engine's ownership of them.
#[derive(Debug)]
pub(crate) struct Batch {
    entries: Entries,
    shared: SharedRef,
    shard: usize,
}

/// The list itself.
#[derive(Debug)]
struct Entries {
    chain: Chain,
    /// The time by which they are due: they are still pending, and the runner claims each of them.
    /// `None` if they are those of sleeping futures, out of PENDING.
    due_by: Option<Subtick>,
}

/// A batch that a thread runs.
pub(crate) struct Opened<'a> {
    entries: &'a mut Entries,
    at: At<'a>,
}

impl Batch {
    fn new(shared: SharedRef, shard: usize, due_by: Option<Subtick>) -> Self {
        Self { entries: Entries { chain: Chain::new(), due_by }, shared, shard }
    }

    /// Opens the batch, to run it on this thread. With `may_go_back` a shutdown gets what has not
    /// begun.
    pub(crate) fn open(&mut self, may_go_back: bool) -> Opened<'_> {
        let remote = self.shared.remote(self.shard);
        let counts = self.shared.thread_state().map(|mine| self.shared.counts_of(mine, remote));
        let at = At { shared: &self.shared, remote, counts, may_go_back };
        Opened { entries: &mut self.entries, at }
    }

    pub(crate) fn shared(&self) -> &SharedRef {
        &self.shared
    }

    /// Returns the shard that expired it.
    pub(crate) fn shard(&self) -> usize {
        self.shard
    }

    /// Takes over all of another batch, of the same shard, with the later of both times. It may
    /// then be larger than [`MAX_BATCH`].
    pub(crate) fn append(&mut self, other: Self) {
        let is_alike = self.shard == other.shard && self.entries.due_by.is_some() == other.entries.due_by.is_some();
        assert!(is_alike && self.shared.id() == other.shared.id(), "batches of one shard and kind");
        self.entries.due_by = self.entries.due_by.max(other.entries.due_by);
        self.entries.chain.append(other.entries.chain);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.chain.len()
    }

    /// Splits off the first part, which may be all of it.
    pub(crate) fn split_off_part(&mut self) -> Self {
        self.split_off(PART)
    }

    /// Takes all entries out.
    pub(crate) fn take_all(&mut self) -> Self {
        self.split_off(usize::MAX)
    }

    fn split_off(&mut self, len: usize) -> Self {
        let mut front = Self::new(self.shared.clone(), self.shard, self.entries.due_by);
        front.entries.chain = self.entries.chain.split_off_front(len);
        front
    }

    /// Moves the first part to where a thread takes its entries from.
    ///
    /// # Safety
    /// None is left there, and no other thread uses it during the call.
    pub(crate) unsafe fn move_part(&mut self, to: &Part<PART>) {
        // SAFETY: the caller says so.
        unsafe { to.fill(&mut self.entries.chain) };
    }

    /// Puts back in front what is left of a part of this batch.
    pub(crate) fn put_back(&mut self, from: &Part<PART>) {
        let mut rest = from.take_rest();
        rest.append(std::mem::replace(&mut self.entries.chain, Chain::new()));
        self.entries.chain = rest;
    }
}

/// A batch of timeouts that are due, while it is filled.
pub(super) struct TaskBatch(Batch);

impl TaskBatch {
    pub(super) fn new(shared: SharedRef, shard: usize, due_by: Subtick) -> Self {
        Self(Batch::new(shared, shard, Some(due_by)))
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Marked) {
        self.0.entries.chain.push(entry.into_owned());
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_batch(self) -> Batch {
        self.0
    }
}

/// A batch of sleeping futures, of any length, while it is filled.
#[derive(Debug)]
pub(super) struct WakeBatch(Batch);

impl WakeBatch {
    pub(super) fn new(shared: SharedRef, shard: usize) -> Self {
        Self(Batch::new(shared, shard, None))
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Won) {
        self.0.entries.chain.push(entry.into_owned());
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_batch(self) -> Batch {
        self.0
    }
}

impl<'a> Opened<'a> {
    pub(crate) fn shared(&self) -> &'a SharedRef {
        self.at.shared
    }

    /// Runs the timeouts that `next` gives, one after the other. They are all of this batch, which
    /// is one of tasks.
    #[inline(always)]
    pub(crate) fn run_from(&mut self, mut next: impl FnMut() -> Option<Owned>, runner: &mut impl Run) {
        let due_by = self.entries.due_by.expect("futures are woken by one thread");
        while let Some(entry) = next() {
            run(entry, due_by, self.at, runner);
        }
    }

    /// Runs the entries, one after the other.
    #[inline(always)]
    pub(crate) fn run(&mut self, runner: &mut impl Run) {
        let Self { entries: Entries { chain, due_by }, at } = self;
        match due_by {
            Some(due_by) => {
                while let Some(entry) = chain.pop() {
                    run(entry, *due_by, *at, runner);
                }
            }
            None => {
                while let Some(entry) = chain.pop() {
                    // SAFETY: into such a batch entries come only as `Won`, and off it once.
                    wake(unsafe { Won::new(entry) }, *at, runner);
                }
            }
        }
    }
}

/// Claims the timeout and runs it, if it is still to be run. Otherwise does with it what its word
/// says: it was cancelled or put off, or a shutdown wants it back.
#[inline(always)]
fn run(entry: Owned, due_by: Subtick, at: At<'_>, runner: &mut impl Run) {
    let mut entry = entry.look();
    // In a drain the runs of periodic timeouts do not go on.
    let is_wanted_back = |kind| at.remote.wants_back() || (kind == Kind::Series && at.remote.drains_until().is_some());
    if at.may_go_back && is_wanted_back(entry.kind()) {
        entry = match hand_back(at.shared, at.remote, entry) {
            Ok(dropped) => return dropped.unwrap_or_else(|panic| runner.report(panic)),
            Err(entry) => entry,
        };
    }
    let mut place = TaskPlace::new();
    match entry.claim(due_by, &mut place, |entry| at.shared.put_entry(entry)) {
        Ok(Claimed::Once(deadline, task)) => {
            at.count();
            runner.once(Some(deadline), task);
        }
        Ok(Claimed::Run(deadline, run)) => runner.periodic(PeriodicRun::new(deadline, run)),
        Err((entry, found)) => pass_over(entry, at, found, runner),
    }
}

/// Wakes a sleeping future, which was counted when it left PENDING.
#[inline(always)]
fn wake(entry: Won, at: At<'_>, runner: &mut impl Run) {
    let deadline = entry.expired();
    entry.run_in_place(|entry| at.shared.let_go(entry), |waker| runner.once(deadline, waker));
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
    let Err(entry) = (unsafe { at.remote.push_again(entry, at.shared.timeline()) }) else { return };
    // The shard has been closed.
    if at.remote.is_to_fire() {
        return run(entry, Subtick::NEVER, At { may_go_back: false, ..at }, runner);
    }
    match withdraw_outside(at.shared, at.remote, entry) {
        Ok(dropped) => dropped.unwrap_or_else(|panic| runner.report(panic)),
        // A cancel was first, and has taken the task.
        Err(cancelled) => at.shared.let_go(cancelled),
    }
}

/// Where a batch runs.
#[derive(Clone, Copy)]
struct At<'a> {
    shared: &'a SharedRef,
    remote: &'a Remote,
    /// What the thread counts for the shard, if it has a state of its own.
    counts: Option<&'a Counts>,
    /// A shutdown gets what has not begun.
    may_go_back: bool,
}

impl At<'_> {
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
