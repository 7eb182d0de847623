//! The timeouts that were still pending when a shard was closed, on their way to the caller of a
//! shutdown.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::lifetime::SharedRef;
use crate::entry::{Chain, EndedEarly, Marked, Task, Won};
use crate::panics::{self, Ran};
use crate::shard::Remote;
use crate::sync::{MutexGuard, lock};
use crate::time::Subtick;

/// Withdrawn entries, with their tasks in them. The list allocates nothing, so a shutdown can't
/// fail half way. It holds the engine's ownership of the entries. Dropping it drops the tasks, each
/// separately.
#[derive(Debug)]
pub(crate) struct UnfiredList {
    entries: Chain<Won>,
    shared: SharedRef,
}

impl UnfiredList {
    pub(crate) fn new(shared: &SharedRef) -> Self {
        Self { entries: Chain::default(), shared: shared.clone() }
    }

    /// From here on a shutdown waits for what is [handed in](Self::hand_in).
    pub(crate) fn begin(shared: &SharedRef) {
        *lock(&shared.unfired) = Some(Chain::default());
    }

    /// Returns all that was handed in. No shutdown waits any more.
    pub(crate) fn take(shared: &SharedRef) -> Self {
        let entries = lock(&shared.unfired).take().unwrap_or_default();
        Self { entries, shared: shared.clone() }
    }

    /// Gives the list to the shutdown that waits. If none does, the tasks are dropped here.
    pub(crate) fn hand_in(mut self) {
        if let Some(left) = &mut *lock(&self.shared.unfired) {
            left.append(std::mem::take(&mut self.entries));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds an entry that was withdrawn.
    pub(super) fn push(&mut self, entry: Won) {
        assert!(self.shared.has(&entry), "a list of one engine");
        self.entries.push(entry);
    }

    /// Appends all entries of another list.
    pub(crate) fn append(&mut self, mut other: Self) {
        assert!(self.shared.id() == other.shared.id(), "lists of one engine");
        self.entries.append(std::mem::take(&mut other.entries));
    }

    /// Takes off the entry that was pushed first, and returns its deadline and task.
    pub(crate) fn pop(&mut self) -> Option<(Subtick, Task)> {
        let entry = self.entries.pop()?;
        let deadline = entry.snapshot().deadline();
        let (task, entry) = entry.take_task();
        self.shared.let_go(entry);
        Some((deadline, task))
    }
}

/// Gives a timeout of a batch that has not begun to the shutdown that waits, or drops it if the
/// engine's last `Timer` has gone. Returns it if no shutdown wants it any more: it is to be run.
#[cold]
#[inline(never)]
pub(super) fn hand_back(shared: &SharedRef, remote: &Remote, entry: Marked) -> Result<Ran, Marked> {
    // Locked until the timeout is in the list: a shutdown that takes the list does not miss it.
    let outside = lock(&shared.unfired);
    if outside.is_none() && !remote.is_unwanted() {
        return Err(entry);
    }
    Ok(withdraw(outside, shared, remote, entry))
}

/// Withdraws a timeout outside of its shard, which has been closed. It goes into the answer of the
/// shutdown that waits. If none does, its task is dropped; a panic of that is returned.
pub(super) fn withdraw_outside(shared: &SharedRef, remote: &Remote, entry: Marked) -> Ran {
    withdraw(lock(&shared.unfired), shared, remote, entry)
}

/// The list of what belongs into the answer, if a shutdown waits for it.
type Outside<'a> = MutexGuard<'a, Option<Chain<Won>>>;

/// Keeps what it withdraws for the answer, or drops its task.
fn withdraw(mut outside: Outside<'_>, shared: &SharedRef, remote: &Remote, entry: Marked) -> Ran {
    let Some(entry) = take_out(shared, entry) else { return Ok(()) };
    shared.give_places_back(1);
    // It counts as if it had waited in the shard.
    shared.count(remote, |counts| counts.returned.add(1));
    if let Some(left) = &mut *outside {
        assert!(shared.has(&entry), "a list of one engine");
        left.push(entry);
        return Ok(());
    }
    // Not under the lock: the task's destructor may come here again.
    drop(outside);
    clear_away(shared, entry)
}

/// Takes a timeout out of PENDING. Gives the entry up if a cancel was first, which has taken the
/// task.
pub(super) fn take_out(shared: &SharedRef, entry: Marked) -> Option<Won> {
    match entry.into_owned().withdraw() {
        Ok(EndedEarly::Task(entry)) => Some(entry),
        Ok(EndedEarly::Wake(_)) => unreachable!("what is marked is no future's"),
        Err(cancelled) => {
            shared.let_go(cancelled);
            None
        }
    }
}

/// Drops the task of an entry, and gives the entry up. Returns a panic of the task's destructor.
pub(super) fn clear_away(shared: &SharedRef, entry: Won) -> Ran {
    let (task, entry) = entry.take_task();
    shared.let_go(entry);
    catch_unwind(AssertUnwindSafe(|| drop(task)))
}

impl Drop for UnfiredList {
    fn drop(&mut self) {
        while let Some((_, task)) = self.pop() {
            panics::catch(move || drop(task));
        }
    }
}
