//! The timeouts that are due in a turn, one after the other.
//!
//! A timeout is claimed at the latest moment, when its own task is about to run. So a task that
//! runs before it may still cancel it or reset it. On the thread that turns the shard
//! ([`Due::run`]) that moment is at once. In a batch ([`Due::hand_over`]) it comes later, on the
//! thread that runs the batch ([`Batched::run`](super::batch::Batched::run)). See
//! `shard/README.md`, section 12.

use super::batch::{Batch, MAX_BATCH};
use super::core::{Core, count_fired, give_back, wake_later};
use super::lifetime::SharedRef;
use super::periodic::PeriodicRun;
use super::run::Run;
use crate::entry::{Expire, Kind, Owned, Snapshot, Won};
use crate::shard::Remote;
use crate::time::Subtick;
use crate::wheel::Budget;

/// What is due in a turn, within the turn's limit. Dropping it lets the entries that are left be
/// unlinked again.
pub(crate) struct Due<'a> {
    core: &'a mut Core,
    shared: &'a SharedRef,
    remote: &'a Remote,
    budget: &'a mut Budget,
    fired: usize,
    relinked: u64,
}

impl Drop for Due<'_> {
    fn drop(&mut self) {
        self.core.wheel.seal_due();
    }
}

impl<'a> Due<'a> {
    pub(super) fn new(core: &'a mut Core, shared: &'a SharedRef, remote: &'a Remote, budget: &'a mut Budget) -> Self {
        Self { core, shared, remote, budget, fired: 0, relinked: 0 }
    }

    /// Returns how many timeouts were given out, and writes down how many were linked again.
    pub(super) fn end(self) -> usize {
        if self.relinked > 0 {
            self.remote.counters.relinked.add(self.relinked);
        }
        self.fired
    }

    pub(crate) fn shared(&self) -> &'a SharedRef {
        self.shared
    }

    pub(crate) fn shard(&self) -> usize {
        self.remote.index()
    }

    /// Claims each timeout that is due, and runs it at once. Ends before all have been run if a
    /// shutdown wants what has not begun.
    #[inline(always)]
    pub(crate) fn run(&mut self, runner: &mut impl Run) {
        loop {
            if self.remote.wants_back() {
                // With no budget the wheel leaves its slots in order.
                *self.budget = Budget::new(0);
            }
            let Some(entry) = self.core.wheel.pop_due(self.core.now, self.budget) else { break };
            let seen = entry.state.load();
            if seen.kind() != Kind::Once {
                if let Some(run) = self.expire(entry, seen) {
                    runner.periodic(seen.deadline(), run);
                }
                continue;
            }
            // SAFETY: the entry is the engine's, and has no sleeper.
            let mut copy = unsafe { entry.copy_task() };
            match entry.state.claim(seen, self.core.now) {
                Expire::Fire => {}
                // SAFETY: the engine was the last owner.
                Expire::FireLast => give_back(&self.core.free, self.shared, unsafe { entry.into_sole() }),
                other => {
                    self.put_back(entry, other);
                    continue;
                }
            }
            self.fired += 1;
            // Before it runs, because a task that schedules must find the place under the limit
            // that it has freed.
            count_fired(1, self.shared, self.remote);
            // SAFETY: this call has claimed the entry after it made the copy.
            runner.once(seen.deadline(), unsafe { copy.as_task() });
        }
        if self.fired > 0 {
            // After the tasks: what they have scheduled on other shards is still to run.
            self.remote.counters.turns_run.add(1);
        }
    }

    /// Hands all that is due to `sink`, in batches. `sink` must not panic: in the middle of a slot
    /// the wheel does not know where all of its entries are.
    pub(crate) fn hand_over(&mut self, sink: &mut impl FnMut(Batch)) {
        let mut batch: Option<Batch> = None;
        while let Some(entry) = self.core.wheel.pop_due(self.core.now, self.budget) {
            let seen = entry.state.load();
            let run = match seen.kind() {
                Kind::Once => match entry.state.batch(seen, self.core.now) {
                    Expire::Fire | Expire::FireLast => {
                        self.fired += 1;
                        Err(entry)
                    }
                    other => {
                        self.put_back(entry, other);
                        continue;
                    }
                },
                Kind::Series | Kind::Sleeper => match self.expire(entry, seen) {
                    Some(run) => Ok(run),
                    None => continue,
                },
            };
            let open = batch.get_or_insert_with(|| Batch::due(self.shared.clone(), self.remote.index(), self.core.now));
            match run {
                Ok(run) => open.push_won(run.into_won()),
                // SAFETY: the batch is due, and the timeout runs once.
                Err(once) => unsafe { open.push_due(once) },
            }
            if open.len() == MAX_BATCH {
                batch.take().into_iter().for_each(&mut *sink);
            }
        }
        batch.into_iter().for_each(sink);
    }

    /// Expires a periodic timeout, and returns its run, or expires a sleeping future, which is
    /// woken when the turn is over. `seen` says that it is of these kinds.
    #[inline]
    fn expire(&mut self, entry: Owned, seen: Snapshot) -> Option<PeriodicRun> {
        if seen.kind() == Kind::Series && self.remote.drains_until().is_some() {
            // Its runs do not go on. It stays pending, and the close hands it back.
            self.core.wheel.insert_again(entry, Subtick::NEVER);
            return None;
        }
        match entry.state.expire(seen, self.core.now) {
            Expire::Fire | Expire::FireLast => self.fired += 1,
            other => {
                self.put_back(entry, other);
                return None;
            }
        }
        // SAFETY: this call has expired it.
        let entry = unsafe { Won::new(entry) };
        if seen.kind() == Kind::Sleeper {
            // At once, because a task of this very turn may need its place under the limit.
            count_fired(1, self.shared, self.remote);
            wake_later(&mut self.core.wakes, entry, self.shared, self.remote);
            return None;
        }
        Some(PeriodicRun::new(entry))
    }

    /// Links an entry again that has come up and is not due, unless it was cancelled.
    #[inline(never)]
    fn put_back(&mut self, entry: Owned, found: Expire) {
        let (now, wheel) = (self.core.now, &mut self.core.wheel);
        match found {
            Expire::NotBefore(deadline) => {
                self.relinked += 1;
                wheel.insert_again(entry, deadline);
            }
            // It stays linked, so that a shutdown before its node arrives still finds it.
            Expire::ResetQueued => wheel.insert_for_next_tick(entry, now),
            // The cancelled queue, or the reset queue, brings it, and finds it in no slot.
            Expire::Cancelled | Expire::Fire | Expire::FireLast => entry.leave_to_its_queue(),
        }
    }
}
