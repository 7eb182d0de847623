//! Expired entries on their way to an executor: an intrusive list, so handing them over allocates
//! nothing.

use super::lifetime::SharedRef;
use super::periodic::PeriodicRun;
use super::run::Run;
use super::unfired::{hand_back, hand_back_run, withdraw_outside};
use crate::count::Counts;
use crate::entry::{Asleep, Expire, Fired, Marked, Owned, Parts, SeriesRun, TaskPlace, Won};
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
struct Entries {
    parts: Parts<PART>,
    kind: BatchKind,
}

/// A batch that a thread runs.
pub(crate) struct Opened<'a> {
    entries: &'a mut Entries,
    at: At<'a>,
}

impl Batch {
    fn new(shared: SharedRef, shard: usize, kind: BatchKind) -> Self {
        Self { entries: Entries { parts: Parts::new(), kind }, shared, shard }
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

    /// Takes over all of another batch, of the same shard and kind. It may then be larger than
    /// [`MAX_BATCH`], and can't be split.
    pub(crate) fn append(&mut self, other: Self) {
        let is_alike = self.shard == other.shard && self.entries.kind == other.entries.kind;
        assert!(is_alike && self.shared.id() == other.shared.id(), "batches of one shard and kind");
        self.entries.parts.append(other.entries.parts);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.parts.len()
    }

    /// Splits off all but the first part. Returns `None` if there is only one.
    pub(crate) fn split_off(&mut self) -> Option<Self> {
        let parts = self.entries.parts.split_off()?;
        let mut rest = Self::new(self.shared.clone(), self.shard, self.entries.kind);
        rest.entries.parts = parts;
        Some(rest)
    }

    /// Moves the first part to the batch that this one was split off. Its entries have all been
    /// taken off.
    pub(crate) fn move_part(&mut self, to: &mut Opened<'_>) {
        let (entries, is_its_own) = (&mut *to.entries, to.at.shared.id() == self.shared.id());
        assert!(is_its_own && entries.kind == self.entries.kind, "it was split off that batch");
        assert!(entries.parts.len() == 0, "all of the part was taken off");
        let rest = self.entries.parts.split_off().unwrap_or_else(Parts::new);
        entries.parts = std::mem::replace(&mut self.entries.parts, rest);
    }
}

/// A batch of timeouts that are due, while it is filled.
pub(super) struct DueBatch(Batch);

impl DueBatch {
    pub(super) fn new(shared: SharedRef, shard: usize, now: Subtick) -> Self {
        Self(Batch::new(shared, shard, BatchKind::Due(now)))
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Marked) {
        self.0.entries.parts.push(entry.into_owned());
    }

    #[inline]
    pub(super) fn push_run(&mut self, run: SeriesRun) {
        self.0.entries.parts.push(run.into_owned());
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_batch(self) -> Batch {
        self.0
    }
}

/// A batch of timeouts that a shutdown has expired, while it is filled.
pub(super) struct ExpiredBatch(Batch);

impl ExpiredBatch {
    pub(super) fn new(shared: SharedRef, shard: usize) -> Self {
        Self(Batch::new(shared, shard, BatchKind::Expired))
    }

    pub(super) fn push(&mut self, fired: Fired) {
        self.0.entries.parts.push(match fired {
            Fired::Once(won) => won.into_owned(),
            Fired::Run(run) => run.into_owned(),
            Fired::Sleeper(_) => unreachable!("a future is woken, not run"),
        });
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_batch(self) -> Batch {
        self.0
    }
}

/// A batch of sleeping futures, of any length, while it is filled.
#[derive(Debug)]
pub(super) struct SleeperBatch(Batch);

impl SleeperBatch {
    pub(super) fn new(shared: SharedRef, shard: usize) -> Self {
        Self(Batch::new(shared, shard, BatchKind::Sleepers))
    }

    /// Such a batch is not split: its futures may drop their entries meanwhile. A future whose
    /// sleep a shutdown has ended leaves a tombstone, whose link is in the place of a part's.
    #[inline]
    pub(super) fn push(&mut self, entry: Asleep) {
        self.0.entries.parts.push_whole(entry.into_owned());
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

    /// Runs the entries, one after the other.
    #[inline(always)]
    pub(crate) fn run(&mut self, runner: &mut impl Run) {
        let (at, kind) = (self.at, self.entries.kind);
        let entries = self.entries.parts.cut();
        if kind == BatchKind::Sleepers {
            while let Some(entry) = entries.pop() {
                // SAFETY: into such a batch come only sleepers, and they come off it once.
                wake(unsafe { Asleep::new(entry) }, at, runner);
            }
            return;
        }
        while let Some(entry) = entries.pop() {
            run(entry, kind, at, runner);
        }
    }
}

/// Claims the timeout and runs it, if it is still to be run. Otherwise does with it what its word
/// says: it was cancelled or put off, or a shutdown wants it back.
#[inline(always)]
fn run(entry: Owned, kind: BatchKind, at: At<'_>, runner: &mut impl Run) {
    let once = match entry.look().once() {
        Ok(once) => once,
        Err(periodic) => {
            // SAFETY: a periodic timeout comes into a batch only as a run, and off it once.
            return run_again(unsafe { SeriesRun::new(periodic.into_owned()) }, at, runner);
        }
    };
    let BatchKind::Due(now) = kind else {
        // SAFETY: into such a batch others come only as `Won`, and they come off it once.
        return run_expired(unsafe { Won::new(once.into_owned()) }, at, runner);
    };
    let once = if at.may_go_back && at.remote.wants_back() {
        match hand_back(at.shared, at.remote, once) {
            Ok(dropped) => return dropped.unwrap_or_else(|panic| runner.report(panic)),
            Err(once) => once,
        }
    } else {
        once
    };
    let mut place = TaskPlace::new();
    match once.claim(now, &mut place, |entry| at.shared.put_entry(entry)) {
        Ok((deadline, task)) => {
            at.count();
            runner.once(deadline, task);
        }
        Err((entry, found)) => pass_over(entry, at, found, runner),
    }
}

#[inline(always)]
fn wake(entry: Asleep, at: At<'_>, runner: &mut impl Run) {
    let fired = entry.fired();
    let (waker, entry) = entry.take_waker();
    at.shared.let_go(entry);
    runner.wake(fired, waker);
}

/// Runs a periodic timeout, unless it goes back: in a drain, too, its runs do not go on.
#[inline]
fn run_again(mut run: SeriesRun, at: At<'_>, runner: &mut impl Run) {
    if at.may_go_back && (at.remote.wants_back() || at.remote.drains_until().is_some()) {
        run = match hand_back_run(at.shared, at.remote, run) {
            Ok(dropped) => return dropped.unwrap_or_else(|panic| runner.report(panic)),
            Err(run) => run,
        };
    }
    runner.periodic(PeriodicRun::new(run));
}

/// Runs a timeout that was taken out of PENDING, and counted then.
fn run_expired(entry: Won, at: At<'_>, runner: &mut impl Run) {
    let deadline = entry.deadline();
    entry.run_in_place(|entry| at.shared.let_go(entry), |task| runner.once(deadline, task));
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
            Ok(Fired::Once(expired)) => {
                at.count();
                return run_expired(expired, at, runner);
            }
            Ok(_) => unreachable!("a timeout that runs once"),
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
