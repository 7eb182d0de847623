//! The timeouts that are due in a turn, one after the other.
//!
//! A timeout is claimed at the latest moment, when its own task is about to run. So a task that
//! runs before it may still cancel it or reset it. On the thread that turns the shard
//! ([`Due::run`]) that moment is at once. In a batch ([`Due::hand_over`]) it comes later, on the
//! thread that runs the batch ([`Batch::run`]). See `shard/README.md`, section 10.

use super::batch::{Batch, Entries, MAX_BATCH};
use super::core::{Core, count_fired, end_sleep, give_back};
use super::lifetime::SharedRef;
use super::runs::Runs;
use crate::arena::EntryCache;
use crate::entry::{CameUp, Chain, Claimed, Claims, FromSlot, Kind, Marked, TaskPlace, Won};
use crate::shard::Remote;
use crate::time::Subtick;
use crate::wheel::{Took, Wheel};

/// The timeouts that are due in a turn, within the turn's limit.
pub(crate) struct Due<'a> {
    wheel: &'a mut Wheel,
    now: Subtick,
    budget: &'a mut usize,
    taken: Taken<'a>,
}

/// The fields of [`Due`] that each timeout that comes up needs.
struct Taken<'a> {
    free: &'a EntryCache,
    wakes: &'a mut Chain<Won>,
    shared: &'a SharedRef,
    remote: &'a Remote,
    fired: usize,
}

impl Core {
    /// Gives all that is due, up to a limit, to `take`. Returns how many timeouts that were.
    pub(super) fn expire(
        &mut self,
        shared: &SharedRef,
        remote: &Remote,
        budget: &mut usize,
        take: &mut impl FnMut(&mut Due<'_>),
    ) -> usize {
        let Self { wheel, now, free, wakes, .. } = self;
        let put_off = wheel.put_off();
        let mut due = Due { wheel, now: *now, budget, taken: Taken { free, wakes, shared, remote, fired: 0 } };
        take(&mut due);
        let fired = due.taken.fired;
        remote.counters.relinked.add(self.wheel.put_off() - put_off);
        fired
    }
}

impl<'a> Due<'a> {
    pub(crate) fn shared(&self) -> &'a SharedRef {
        self.taken.shared
    }

    /// Claims each timeout that is due, and runs it at once. Ends before all have been run if a
    /// shutdown wants those that have not begun.
    #[inline(always)]
    pub(crate) fn run(&mut self) {
        let Self { wheel, now, budget, taken } = self;
        let Taken { shared, remote, .. } = *taken;
        let mut runs = Runs::begin(shared, remote);
        let claims = remote.claiming.begin();
        wheel.expire(
            *now,
            budget,
            || !remote.wants_back(),
            |entry, due_by| taken.run(&claims, entry, due_by, &mut runs),
        );
    }

    /// Hands all that is due to `sink`, in batches. `sink` must not panic: its batch would be lost.
    pub(crate) fn hand_over(&mut self, sink: &mut impl FnMut(Batch)) {
        let Self { wheel, now, budget, taken } = self;
        let Taken { shared, remote, .. } = *taken;
        let now = *now;
        let mut hand_over = |tasks: Chain<Marked>| sink(Batch::new(Entries::Tasks(tasks, now), shared, remote));
        let mut tasks = Chain::default();
        wheel.expire(
            now,
            budget,
            || true,
            |entry, due_by| {
                let entry = match taken.without_task(entry, due_by) {
                    Ok(entry) => entry,
                    Err(took) => return took,
                };
                let marked = match entry.batch(due_by) {
                    Ok(marked) => marked,
                    Err(still) => return still.into(),
                };
                taken.fired += 1;
                tasks.push(marked);
                if tasks.len() == MAX_BATCH {
                    hand_over(std::mem::take(&mut tasks));
                }
                Took::Taken
            },
        );
        if tasks.len() > 0 {
            hand_over(tasks);
        }
    }
}

impl Taken<'_> {
    #[inline(always)]
    fn run<'w>(&mut self, claims: &Claims<'_>, entry: CameUp<'w>, due_by: Subtick, runs: &mut Runs<'_>) -> Took<'w> {
        let entry = match self.without_task(entry, due_by) {
            Ok(entry) => entry,
            Err(took) => return took,
        };
        let mut place = TaskPlace::uninit();
        match entry.take(claims, due_by, &mut place, |entry| give_back(self.free, self.shared, entry)) {
            Ok(Claimed::Once(deadline, task)) => {
                self.fired += 1;
                // Before it runs, because a task that schedules must find the place under the limit
                // that it has freed.
                count_fired(self.shared, self.remote);
                runs.once(Some(deadline), task);
                Took::Taken
            }
            Ok(Claimed::Run(deadline, run)) => {
                self.fired += 1;
                runs.periodic(deadline, run);
                Took::Taken
            }
            Err(still) => still.into(),
        }
    }

    /// Sees to a timeout that has no task to be run now: a sleeping future, which is woken when the
    /// turn is over, or a periodic timeout in a drain. Returns any other.
    #[inline(always)]
    fn without_task<'w>(&mut self, entry: CameUp<'w>, due_by: Subtick) -> Result<CameUp<'w>, Took<'w>> {
        match entry.kind() {
            Kind::Once => Ok(entry),
            Kind::Series if self.remote.drains_until().is_none() => Ok(entry),
            // Its runs do not go on. It stays pending, and the close hands it back.
            Kind::Series => Err(Took::KeptBack(entry.into_held())),
            Kind::Waker => {
                let expired = entry.expire(due_by)?;
                self.fired += 1;
                // At once, because a task of this very turn may need its place under the limit.
                end_sleep(self.wakes, expired, self.shared, self.remote);
                Err(Took::Taken)
            }
        }
    }
}

impl<'w> From<Option<FromSlot<'w>>> for Took<'w> {
    fn from(stays: Option<FromSlot<'w>>) -> Self {
        // If it does not stay, a side queue brings it, and finds it in no slot.
        stays.map_or(Self::Taken, Self::Stays)
    }
}
