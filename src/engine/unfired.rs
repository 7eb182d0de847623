//! The timeouts that were still pending when a shard was closed, on their way to the caller of a
//! shutdown.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::chain::Chain;
use super::lifetime::SharedRef;
use crate::entry::{Entry, Kind, Task, entry_ref};
use crate::panics::{self, Ran};
use crate::shard::Remote;
use crate::sync::{MutexGuard, lock};
use crate::time::Subtick;

/// Withdrawn entries, with their tasks in them. The list allocates nothing, so a shutdown can't
/// fail half way. It holds the engine's ownership of the entries. Dropping it drops the tasks, each
/// separately.
pub(crate) struct UnfiredList {
    entries: Chain,
    /// `None` if it is empty.
    shared: Option<SharedRef>,
}

impl UnfiredList {
    pub(crate) const fn new() -> Self {
        Self { entries: Chain::new(), shared: None }
    }

    /// From here on, collects timeouts that are withdrawn outside of their shards.
    pub(crate) fn begin_outside(shared: &SharedRef) {
        *lock(&shared.unfired_outside) = Some(Chain::new());
    }

    /// Stops collecting them, and returns those that were collected.
    pub(crate) fn take_outside(shared: &SharedRef) -> Self {
        let entries = lock(&shared.unfired_outside).take().unwrap_or(Chain::new());
        Self { entries, shared: Some(shared.clone()) }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// # Safety
    /// The caller has withdrawn the entry, which is the engine's, has not taken its task, and gives
    /// up the engine's ownership. The entry is in no list.
    pub(super) unsafe fn push(&mut self, shared: &SharedRef, entry: NonNull<Entry>) {
        self.shared.get_or_insert_with(|| shared.clone());
        // SAFETY: the caller says that it is in no list.
        unsafe { self.entries.push(entry) };
    }

    /// Appends all entries of another list.
    pub(crate) fn append(&mut self, mut other: Self) {
        let shared = other.shared.take();
        if !other.is_empty() {
            self.shared = self.shared.take().or(shared);
            self.entries.append(std::mem::replace(&mut other.entries, Chain::new()));
        }
    }

    /// Takes off the entry that was pushed first, and returns its deadline and task.
    pub(crate) fn pop(&mut self) -> Option<(Subtick, Task)> {
        let (entry, shared) = (self.entries.pop()?, self.shared.as_ref()?);
        // SAFETY: the list holds the engine's ownership of its entries.
        let this = unsafe { entry_ref(entry) };
        // SAFETY: it was withdrawn for the list, and is taken off once.
        let (deadline, task) = (this.state.deadline(), unsafe { this.take_task() });
        // SAFETY: the list holds the engine's ownership, of entries of this engine.
        unsafe { shared.let_go(entry) };
        Some((deadline, task))
    }
}

/// What became of a timeout that a shutdown may want back.
pub(super) enum HandBack {
    /// No shutdown waits for it any more: it is to be run.
    NotWanted,
    /// It is in the answer, or was dropped, or had been cancelled.
    Done(Ran),
}

/// Gives a timeout that has not begun to the shutdown that waits, or drops it if the engine's last
/// `Timer` has gone.
///
/// # Safety
/// The caller holds the engine's ownership of the entry, which is in no list, and not a sleeper's.
/// It gives it up if the answer is [`HandBack::Done`].
#[cold]
#[inline(never)]
pub(super) unsafe fn hand_back(shared: &SharedRef, remote: &Remote, entry: NonNull<Entry>) -> HandBack {
    // Until the timeout is in the list: a shutdown that takes the list does not miss it.
    let outside = lock(&shared.unfired_outside);
    if outside.is_none() && !remote.is_unwanted() {
        return HandBack::NotWanted;
    }
    // SAFETY: the caller holds the engine's ownership, and gives it up.
    if let Some(ran) = unsafe { withdraw_into(outside, shared, remote, entry) } {
        return HandBack::Done(ran);
    }
    // A cancel was first. It has taken the task, but not that of a periodic timeout, which had
    // expired.
    // SAFETY: the caller holds the engine's ownership.
    if unsafe { entry_ref(entry) }.state.load().kind() == Kind::Series {
        // SAFETY: the task is the runner's, which is the caller, and gives the ownership up.
        return HandBack::Done(unsafe { clear_away(shared, entry) });
    }
    // SAFETY: the caller gives the ownership up.
    unsafe { shared.let_go(entry) };
    HandBack::Done(Ok(()))
}

/// Withdraws a timeout outside of its shard, which has been closed. It goes into the answer of the
/// shutdown that waits. If none does, its task is dropped; a panic of that is returned. Returns
/// `None`, and changes nothing, if a cancel was first.
///
/// # Safety
/// The caller holds the engine's ownership of the entry, which is in no list, and not a sleeper's.
/// It gives it up if this does not return `None`.
pub(super) unsafe fn withdraw_outside(shared: &SharedRef, remote: &Remote, entry: NonNull<Entry>) -> Option<Ran> {
    // SAFETY: the same as this function's.
    unsafe { withdraw_into(lock(&shared.unfired_outside), shared, remote, entry) }
}

/// # Safety
/// As for [`withdraw_outside`].
unsafe fn withdraw_into(
    mut outside: MutexGuard<'_, Option<Chain>>,
    shared: &SharedRef,
    remote: &Remote,
    entry: NonNull<Entry>,
) -> Option<Ran> {
    // SAFETY: the caller holds the engine's ownership of it.
    if !unsafe { entry_ref(entry) }.state.withdraw() {
        return None;
    }
    shared.give_places_back(1);
    // It counts as if it had waited in the shard.
    shared.count(remote, |counts| counts.returned.add(1));
    if let Some(left) = &mut *outside {
        // SAFETY: this call has just withdrawn it, it is in no list, and the list takes over the
        // engine's ownership.
        unsafe { left.push(entry) };
        return Some(Ok(()));
    }
    // Not under the lock: the task's destructor may come here again.
    drop(outside);
    // SAFETY: this call has withdrawn the entry, so the task is its own.
    Some(unsafe { clear_away(shared, entry) })
}

/// Drops the task of an entry, and gives the entry up. Returns a panic of the task's destructor.
///
/// # Safety
/// The task is the caller's, and so is the engine's ownership of the entry, which it gives up.
pub(super) unsafe fn clear_away(shared: &SharedRef, entry: NonNull<Entry>) -> Ran {
    // SAFETY: the caller holds the engine's ownership, which keeps the entry alive.
    let this = unsafe { entry_ref(entry) };
    // SAFETY: the task is the caller's.
    let task = unsafe { this.take_task() };
    // SAFETY: the caller gives the ownership up.
    unsafe { shared.let_go(entry) };
    catch_unwind(AssertUnwindSafe(|| drop(task)))
}

impl Drop for UnfiredList {
    fn drop(&mut self) {
        while let Some((_, task)) = self.pop() {
            panics::catch(move || drop(task));
        }
    }
}

impl fmt::Debug for UnfiredList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnfiredList").field("len", &self.len()).finish_non_exhaustive()
    }
}
