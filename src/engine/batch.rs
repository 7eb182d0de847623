//! Timeouts that are due, on their way to an executor: an intrusive list, so handing them over
//! allocates nothing.

use super::lifetime::SharedRef;
use super::periodic::PeriodicRun;
use super::run::Run;
use super::unfired::{hand_back, withdraw_outside};
use crate::count::Counts;
use crate::entry::{Chain, Claimed, Expire, Kind, Marked, Part, TaskPlace, Token, Won};
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
pub(crate) enum Entries {
    /// They are still pending, and due by this time. The runner claims each of them.
    Tasks(Chain<Marked>, Subtick),
    /// They are those of sleeping futures, out of PENDING.
    Wakes(Chain<Won>),
}

/// A batch that a thread runs.
pub(crate) struct Opened<'a> {
    entries: &'a mut Entries,
    at: At<'a>,
}

impl Batch {
    pub(super) fn new(entries: Entries, shared: &SharedRef, remote: &Remote) -> Self {
        Self { entries, shared: shared.clone(), shard: remote.index() }
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
        assert!(self.shard == other.shard && self.shared.id() == other.shared.id(), "batches of one shard");
        match (&mut self.entries, other.entries) {
            (Entries::Tasks(chain, due_by), Entries::Tasks(others, by)) => {
                *due_by = by.max(*due_by);
                chain.append(others);
            }
            (Entries::Wakes(chain), Entries::Wakes(others)) => chain.append(others),
            _ => panic!("batches of one kind"),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.entries {
            Entries::Tasks(chain, _) => chain.len(),
            Entries::Wakes(chain) => chain.len(),
        }
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
        let entries = match &mut self.entries {
            Entries::Tasks(chain, due_by) => Entries::Tasks(chain.split_off_front(len), *due_by),
            Entries::Wakes(chain) => Entries::Wakes(chain.split_off_front(len)),
        };
        Self { entries, shared: self.shared.clone(), shard: self.shard }
    }

    /// Returns the timeouts that are due.
    fn tasks(&mut self) -> &mut Chain<Marked> {
        match &mut self.entries {
            Entries::Tasks(chain, _) => chain,
            Entries::Wakes(_) => panic!("futures are woken by one thread"),
        }
    }

    /// Moves the first part to where a thread takes its entries from.
    ///
    /// # Safety
    /// None is left there, and no other thread uses it during the call.
    pub(crate) unsafe fn move_part(&mut self, to: &Part<PART>) {
        // SAFETY: the caller says so.
        unsafe { to.fill(self.tasks()) };
    }

    /// Puts back in front what is left of a part of this batch.
    pub(crate) fn put_back(&mut self, from: &Part<PART>) {
        let mut rest = Chain::new();
        for entry in from.take_rest() {
            assert!(self.shared.remote(self.shard).is_home_of(entry.entry()), "a part of this batch");
            rest.push(entry);
        }
        rest.append(std::mem::take(self.tasks()));
        *self.tasks() = rest;
    }
}

impl<'a> Opened<'a> {
    pub(crate) fn shared(&self) -> &'a SharedRef {
        self.at.shared
    }

    /// Runs the timeouts that `next` gives, one after the other. The batch is one of tasks.
    ///
    /// # Safety
    /// They were all in this batch.
    #[inline(always)]
    pub(crate) unsafe fn run_from(&mut self, mut next: impl FnMut() -> Option<Marked>, runner: &mut impl Run) {
        let Entries::Tasks(_, due_by) = *self.entries else { panic!("futures are woken by one thread") };
        while let Some(entry) = next() {
            run(entry, due_by, self.at, runner);
        }
    }

    /// Runs the entries, one after the other.
    #[inline(always)]
    pub(crate) fn run(&mut self, runner: &mut impl Run) {
        let Self { entries, at } = self;
        match entries {
            Entries::Tasks(chain, due_by) => {
                while let Some(entry) = chain.pop() {
                    run(entry, *due_by, *at, runner);
                }
            }
            Entries::Wakes(chain) => {
                while let Some(entry) = chain.pop() {
                    wake(entry, *at, runner);
                }
            }
        }
    }
}

/// Claims the timeout and runs it, if it is still to be run. Otherwise does with it what its word
/// says: it was cancelled or put off, or a shutdown wants it back.
#[inline(always)]
fn run(entry: Marked, due_by: Subtick, at: At<'_>, runner: &mut impl Run) {
    let mut entry = entry.look();
    // In a drain the runs of periodic timeouts do not go on.
    let is_wanted_back = |kind| at.remote.wants_back() || (kind == Kind::Series && at.remote.drains_until().is_some());
    if at.may_go_back && is_wanted_back(entry.kind()) {
        entry = match hand_back(at.shared, at.remote, entry) {
            Ok(dropped) => return dropped.unwrap_or_else(|panic| runner.report(panic)),
            Err(entry) => entry,
        };
    }
    let mut place = TaskPlace::uninit();
    match entry.claim(due_by, &mut place, |entry| at.shared.put_entry(entry)) {
        Ok(Claimed::Once(deadline, task)) => {
            at.count();
            runner.once(Some(deadline), task);
        }
        Ok(Claimed::Run(deadline, run)) => runner.periodic(PeriodicRun { deadline, run }),
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
fn pass_over(entry: Marked, at: At<'_>, found: Expire, runner: &mut impl Run) {
    let Expire::NotBefore(_) = found else {
        // It was cancelled.
        return at.shared.let_go(entry.into_owned());
    };
    // It was put off: from here on it is the worker's again.
    // SAFETY: `at` has a reference to the engine.
    let Err(entry) = (unsafe { at.remote.push_again(entry, at.shared.timeline()) }) else { return };
    // The shard has been closed.
    if at.remote.is_to_fire() {
        return run(entry, Subtick::NEVER, At { may_go_back: false, ..at }, runner);
    }
    withdraw_outside(at.shared, at.remote, entry.into_owned()).unwrap_or_else(|panic| runner.report(panic));
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
