//! Timeouts that are due, on their way to an executor: an intrusive list, so handing them over
//! allocates nothing.

use super::lifetime::SharedRef;
use super::runs::Runs;
use super::unfired::{hand_back, withdraw_outside};
use crate::entry::{Chain, Claimed, Expire, Kind, Marked, Part, TaskPlace, Won};
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

impl Batch {
    pub(super) fn new(entries: Entries, shared: &SharedRef, remote: &Remote) -> Self {
        Self { entries, shared: shared.clone(), shard: remote.index() }
    }

    pub(crate) fn shared(&self) -> &SharedRef {
        &self.shared
    }

    /// Returns the remote of the shard that expired it.
    pub(crate) fn remote(&self) -> &Remote {
        self.shared.remote(self.shard)
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

    /// Splits off the first `len` entries, or all that there are.
    pub(crate) fn split_off(&mut self, len: usize) -> Self {
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
        let mut rest = Chain::default();
        for entry in from.take_rest() {
            assert!(self.remote().is_home_of(&entry), "a part of this batch");
            rest.push(entry);
        }
        rest.append(std::mem::take(self.tasks()));
        *self.tasks() = rest;
    }

    /// Runs the entries, one after the other, on this thread. With `may_go_back` a shutdown gets
    /// those that have not begun.
    #[inline(always)]
    pub(crate) fn run(&mut self, may_go_back: bool) {
        let mut runs = Runs::begin(&self.shared, self.shared.remote(self.shard));
        match &mut self.entries {
            Entries::Tasks(chain, due_by) => {
                while let Some(entry) = chain.pop() {
                    run(entry, *due_by, may_go_back, &mut runs);
                }
            }
            Entries::Wakes(chain) => {
                while let Some(entry) = chain.pop() {
                    wake(entry, &mut runs);
                }
            }
        }
    }

    /// Like [`run`](Self::run), but runs the timeouts that `next` gives. The batch is one of tasks.
    ///
    /// # Safety
    /// They were all in this batch.
    #[inline(always)]
    pub(crate) unsafe fn run_from(&self, mut next: impl FnMut() -> Option<Marked>, may_go_back: bool) {
        let Entries::Tasks(_, due_by) = self.entries else { panic!("futures are woken by one thread") };
        let mut runs = Runs::begin(&self.shared, self.remote());
        while let Some(entry) = next() {
            run(entry, due_by, may_go_back, &mut runs);
        }
    }
}

/// Claims the timeout and runs it, if it is still to be run. Otherwise does with it what its word
/// says: it was cancelled or put off, or a shutdown wants it back.
#[inline(always)]
fn run(entry: Marked, due_by: Subtick, may_go_back: bool, runs: &mut Runs<'_>) {
    let Runs { shared, remote, .. } = *runs;
    let mut entry = entry.look();
    // In a drain the runs of periodic timeouts do not go on.
    let is_wanted_back = |kind| remote.wants_back() || (kind == Kind::Series && remote.drains_until().is_some());
    if may_go_back && is_wanted_back(entry.kind()) {
        entry = match hand_back(shared, remote, entry.into_held()) {
            Ok(dropped) => return runs.report(dropped),
            Err(entry) => entry.look(),
        };
    }
    let mut place = TaskPlace::uninit();
    match entry.claim(due_by, &mut place, |entry| shared.put_entry(entry)) {
        Ok(Claimed::Once(deadline, task)) => {
            // Before it runs, because a task that schedules must find the place under the limit
            // that it has freed.
            runs.count(|counts| counts.fired.add(1));
            shared.give_places_back(1);
            runs.once(Some(deadline), task);
        }
        Ok(Claimed::Run(deadline, run)) => runs.periodic(deadline, run),
        Err((entry, found)) => pass_over(entry, found, due_by, may_go_back, runs),
    }
}

/// Wakes a sleeping future, which was counted when it left PENDING.
#[inline(always)]
fn wake(entry: Won, runs: &mut Runs<'_>) {
    let (shared, deadline) = (runs.shared, entry.expired());
    entry.run_in_place(|entry| shared.let_go(entry), |waker| runs.once(deadline, waker));
}

/// Sees to a timeout that could not be claimed.
#[cold]
#[inline(never)]
fn pass_over(entry: Marked, found: Expire, due_by: Subtick, may_go_back: bool, runs: &mut Runs<'_>) {
    let Runs { shared, remote, .. } = *runs;
    match found {
        Expire::NotYetDue => {}
        // Another thread was faster.
        Expire::Changed => return run(entry, due_by, may_go_back, runs),
        // It was cancelled.
        _ => return shared.let_go(entry.into_owned()),
    }
    // It was put off: from here on it is the worker's again.
    // SAFETY: `runs` has a reference to the engine.
    let Err(entry) = (unsafe { remote.push_again(entry, shared.timeline()) }) else { return };
    // The shard has been closed.
    if remote.is_to_fire() {
        return run(entry, Subtick::NEVER, false, runs);
    }
    runs.report(withdraw_outside(shared, remote, entry));
}
