//! The timeouts that are due in a turn, one after the other.
//!
//! A timeout is claimed at the latest moment, when its own task is about to run. So a task that
//! runs before it may still cancel it or reset it. On the thread that turns the shard
//! ([`Due::run`]) that moment is at once. In a batch ([`Due::hand_over`]) it comes later, on the
//! thread that runs the batch ([`Opened::run`](super::batch::Opened::run)). See
//! `shard/README.md`, section 10.

use super::batch::{Batch, DueBatch, MAX_BATCH, SleeperBatch};
use super::core::{Core, count_fired, give_back, wake_later};
use super::lifetime::SharedRef;
use super::periodic::PeriodicRun;
use super::run::Run;
use crate::arena::EntryCache;
use crate::entry::{Fired, OtherUp, SeriesRun, Still, TaskPlace};
use crate::shard::Remote;
use crate::time::Subtick;
use crate::wheel::{Budget, Expiry};

/// What is due in a turn, within the turn's limit.
pub(crate) struct Due<'a> {
    wheel: Expiry<'a>,
    now: Subtick,
    free: &'a EntryCache,
    wakes: &'a mut Option<SleeperBatch>,
    shared: &'a SharedRef,
    remote: &'a Remote,
    budget: &'a mut Budget,
    fired: usize,
    relinked: u64,
}

impl<'a> Due<'a> {
    pub(super) fn new(core: &'a mut Core, shared: &'a SharedRef, remote: &'a Remote, budget: &'a mut Budget) -> Self {
        let Core { wheel, now, free, wakes, .. } = core;
        Self { wheel: wheel.expire(), now: *now, free, wakes, shared, remote, budget, fired: 0, relinked: 0 }
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
            let Some(entry) = self.wheel.pop(self.now, self.budget) else { break };
            let once = match entry.look() {
                Ok(once) => once,
                Err(other) => {
                    if let Some(run) = self.expire(other) {
                        runner.periodic(PeriodicRun::new(run));
                    }
                    continue;
                }
            };
            let mut place = TaskPlace::new();
            match once.claim(self.now, &mut place, |entry| give_back(self.free, self.shared, entry)) {
                Ok((deadline, task)) => {
                    self.fired += 1;
                    // Before it runs, because a task that schedules must find the place under the
                    // limit that it has freed.
                    count_fired(1, self.shared, self.remote);
                    runner.once(deadline, task);
                }
                Err(still) => self.put_back(still),
            }
        }
        if self.fired > 0 {
            // After the tasks: what they have scheduled on other shards is still to run.
            self.remote.counters.turns_run.add(1);
        }
    }

    /// Hands all that is due to `sink`, in batches. `sink` must not panic: what is in a batch then
    /// is lost.
    pub(crate) fn hand_over(&mut self, sink: &mut impl FnMut(Batch)) {
        let mut batch: Option<DueBatch> = None;
        while let Some(entry) = self.wheel.pop(self.now, self.budget) {
            let due = match entry.look() {
                Ok(once) => match once.batch(self.now) {
                    Ok(marked) => {
                        self.fired += 1;
                        Ok(marked)
                    }
                    Err(still) => {
                        self.put_back(still);
                        continue;
                    }
                },
                Err(other) => match self.expire(other) {
                    Some(run) => Err(run),
                    None => continue,
                },
            };
            let open = batch.get_or_insert_with(|| DueBatch::new(self.shared.clone(), self.remote.index(), self.now));
            match due {
                Ok(marked) => open.push(marked),
                Err(run) => open.push_run(run),
            }
            if open.len() == MAX_BATCH {
                batch.take().map(DueBatch::into_batch).into_iter().for_each(&mut *sink);
            }
        }
        batch.map(DueBatch::into_batch).into_iter().for_each(sink);
    }

    /// Expires a periodic timeout, and returns its run, or expires a sleeping future, which is
    /// woken when the turn is over.
    #[inline(always)] // It is called in both loops, for each timeout of these kinds.
    fn expire(&mut self, entry: OtherUp) -> Option<SeriesRun> {
        if entry.is_periodic() && self.remote.drains_until().is_some() {
            // Its runs do not go on. It stays pending, and the close hands it back.
            self.wheel.insert_again(entry.into_linkable(), Subtick::NEVER);
            return None;
        }
        match entry.expire(self.now) {
            Ok(fired) => {
                self.fired += 1;
                match fired {
                    Fired::Run(run) => Some(run),
                    Fired::Sleeper(entry) => {
                        // At once, because a task of this very turn may need its place under the
                        // limit.
                        count_fired(1, self.shared, self.remote);
                        wake_later(self.wakes, entry, self.shared, self.remote);
                        None
                    }
                    Fired::Once(_) => unreachable!("a timeout that runs once is claimed"),
                }
            }
            Err(still) => {
                self.put_back(still);
                None
            }
        }
    }

    /// Links an entry again that has come up and is not due, unless it was cancelled.
    #[inline(never)]
    fn put_back(&mut self, still: Still) {
        let (now, wheel) = (self.now, &mut self.wheel);
        match still {
            Still::NotBefore(entry, deadline) => {
                self.relinked += 1;
                wheel.insert_again(entry, deadline);
            }
            // It stays linked, so that a shutdown before its node arrives still finds it.
            Still::ResetQueued(entry) => wheel.insert_for_next_tick(entry, now),
            // The cancelled queue, or the reset queue, brings it, and finds it in no slot.
            Still::Cancelled => {}
        }
    }
}
