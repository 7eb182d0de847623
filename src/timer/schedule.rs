//! Schedules timeouts, on the producer's side, and chooses the shard of a key.

use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use super::Timer;
use super::error::{Refusal, ScheduleError};
use super::timeout::Timeout;
use crate::engine::Shared;
use crate::entry::{ArmFlags, Armed, Chain, Entry, Schedule, Series, Sole, Token, Tomb, Work};
use crate::shard::Remote;
use crate::thread::Local;
use crate::time::Subtick;

/// The shard on which all timeouts of one key live: see
/// [`Timer::shard_for`](crate::Timer::shard_for). It has the methods of a timer for timeouts that
/// run once.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::builder().shards(4).build()?;
/// let user = timer.shard_for("user 4711");
/// let session = user.schedule(Duration::from_secs(900), || println!("signed out"))?;
/// assert!(session.cancel());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Shard<'a> {
    pub(super) shared: &'a Shared,
    /// `None` means the home shard of the thread that schedules: that is where a timer itself does.
    pub(super) remote: Option<&'a Remote>,
}

// Always inlined into the methods of the same names of `Timer`.
impl Shard<'_> {
    /// Runs `task` once, after `delay`, on this shard. Otherwise it is
    /// [`Timer::schedule`](crate::Timer::schedule).
    ///
    /// # Errors
    /// Returns the errors of that method.
    #[inline(always)]
    pub fn schedule<F>(&self, delay: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit(self.shared.timeline().deadline_after(delay), task)
    }

    /// Runs `task` once, at `deadline`, on this shard. Otherwise it is
    /// [`Timer::schedule_at`](crate::Timer::schedule_at).
    ///
    /// # Errors
    /// Returns the errors of that method.
    #[inline(always)]
    pub fn schedule_at<F>(&self, deadline: Instant, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit(self.shared.timeline().deadline_at(deadline), task)
    }

    /// Runs `task` once, after `delay`, on this shard, without a handle. Otherwise it is
    /// [`Timer::schedule_detached`](crate::Timer::schedule_detached).
    ///
    /// # Errors
    /// Returns the errors of that method.
    #[inline(always)]
    pub fn schedule_detached<F>(&self, delay: Duration, task: F) -> Result<(), ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_as(ArmFlags::NONE, self.shared.timeline().deadline_after(delay), task).map(|_| ())
    }
}

impl fmt::Debug for Shard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut this = f.debug_struct("Shard");
        self.remote.inspect(|remote| _ = this.field("index", &remote.index()));
        this.finish_non_exhaustive()
    }
}

/// Takes the work out of an entry that was refused, and frees the entry.
#[cold]
#[inline(never)]
fn take_back<W: Work>(refused: Armed<W>, mine: Local<'_>) -> W {
    let (work, entry) = refused.take_back();
    mine.put_entry(entry);
    work
}

impl<'a> Shard<'a> {
    /// The home shard of whichever thread schedules.
    #[inline]
    pub(crate) fn home(shared: &'a Shared) -> Self {
        Self { shared, remote: None }
    }

    #[inline]
    fn remote(self, mine: Local<'a>) -> &'a Remote {
        self.remote.unwrap_or_else(|| Shared::home_of(mine))
    }

    /// Refuses tasks that have taken no place under the limit, or have given it back. A closed
    /// engine says so, even if it is full.
    #[cold]
    #[inline(never)]
    fn refuse<T>(self, mine: Local<'a>, len: usize, why: Refusal, tasks: T) -> ScheduleError<T> {
        let remote = self.remote(mine);
        self.shared.counts_of(mine, remote).rejected.add(len as u64);
        ScheduleError::new(if remote.is_closed() { Refusal::Shutdown } else { why }, tasks)
    }

    /// Schedules one timeout with a handle.
    #[inline(always)]
    pub(crate) fn submit<W: Work>(self, deadline: Subtick, work: W) -> Result<Timeout, ScheduleError<W>> {
        let entry = self.submit_as(ArmFlags::HANDLE, deadline, work)?;
        // SAFETY: the entry was just armed with a handle. This makes it, once.
        Ok(unsafe { Timeout::new(entry) })
    }

    /// Schedules a periodic timeout. See [`Series`] for `run_task`.
    pub(super) fn series<F: Send + 'static>(
        self,
        initial: Duration,
        schedule: Schedule,
        task: F,
        run_task: fn(&mut F) -> Option<Duration>,
    ) -> Result<Timeout, ScheduleError<F>> {
        if schedule.is_without_pause() {
            return Err(ScheduleError::new(Refusal::ZeroPeriod, task));
        }
        let first = self.shared.timeline().moment_after(initial);
        let series = Series::new(schedule, first, task, run_task);
        self.submit(first.deadline, series).map_err(|refused| refused.map(|series| series.task))
    }

    /// Arms an entry and pushes it to its shard.
    // Always inlined, so that each type of work and each way to schedule has its own copy, without
    // the parts that only the others need.
    #[inline(always)]
    fn submit_as<W: Work>(
        self,
        flags: ArmFlags,
        deadline: Subtick,
        work: W,
    ) -> Result<NonNull<Entry>, ScheduleError<W>> {
        match self.shared.thread_state() {
            Some(mine) => self.submit_through(mine, deadline, flags, work),
            None => self.submit_in_teardown(deadline, flags, work),
        }
    }

    /// Like `submit_as`, on a thread in teardown, which has no thread state of its own any more, or
    /// in a forked child.
    #[cold]
    #[inline(never)]
    fn submit_in_teardown<W: Work>(
        self,
        deadline: Subtick,
        flags: ArmFlags,
        work: W,
    ) -> Result<NonNull<Entry>, ScheduleError<W>> {
        if self.shared.is_forked() {
            return Err(ScheduleError::new(Refusal::Forked, work));
        }
        self.shared.with_thread_state(|mine| self.submit_through(mine, deadline, flags, work))
    }

    /// Like `submit_as`, through `mine`.
    #[inline(always)]
    fn submit_through<W: Work>(
        self,
        mine: Local<'_>,
        deadline: Subtick,
        flags: ArmFlags,
        work: W,
    ) -> Result<NonNull<Entry>, ScheduleError<W>> {
        let shared = self.shared;
        let remote = self.remote(mine);
        // Look before anything is taken or armed: a timeout that is refused allocates nothing, and
        // is not pending for a moment. A tombstone is not pushed. So it would be revived while a
        // drain goes through the entries that it has taken out of the inbox.
        if remote.is_closed() || !shared.take_places(1) {
            return Err(self.refuse(mine, 1, Refusal::Full, work));
        }
        let scheduled = &shared.counts_of(mine, remote).scheduled;
        let fit =
            |tombstone: Tomb| tombstone.for_deadline(deadline, &remote.claiming, |entry| remote.push_cancelled(entry));
        let tombstone = mine.take_tombstone(remote).and_then(fit);
        let armed = match tombstone {
            Some(tombstone) => match tombstone.revive(work, deadline, flags) {
                Ok(entry) => {
                    remote.wake_for_revived(deadline, shared.timeline());
                    scheduled.add(1);
                    return Ok(entry);
                }
                // The worker has let go of it in between, so it is an entry like any other.
                Err(armed) => armed,
            },
            None => match shared.take_entry(mine, remote) {
                Some(entry) => entry.arm(remote.as_home(), work, deadline, flags),
                None => {
                    shared.give_places_back(1);
                    return Err(self.refuse(mine, 1, Refusal::OutOfMemory, work));
                }
            },
        };
        let address = armed.address();
        match remote.push(armed, deadline, shared.timeline()) {
            Ok(()) => {
                scheduled.add(1);
                Ok(address)
            }
            Err(refused) => {
                let work = take_back(refused, mine);
                shared.give_places_back(1);
                Err(self.refuse(mine, 1, Refusal::Shutdown, work))
            }
        }
    }

    /// Schedules many tasks with one deadline: all of them, by one exchange on the inbox, or none.
    pub(super) fn submit_many<W: Work>(
        self,
        delay: Duration,
        tasks: Vec<W>,
    ) -> Result<Vec<Timeout>, ScheduleError<Vec<W>>> {
        let shared = self.shared;
        if shared.is_forked() {
            return Err(ScheduleError::new(Refusal::Forked, tasks));
        }
        let deadline = self.shared.timeline().deadline_after(delay);
        let entries: Vec<_> = shared.with_thread_state(|mine| {
            let (remote, len) = (self.remote(mine), tasks.len());
            if remote.is_closed() || !shared.take_places(len) {
                return Err(self.refuse(mine, len, Refusal::Full, tasks));
            }
            let Some(free) = shared.take_entries(mine, remote, len) else {
                shared.give_places_back(len);
                return Err(self.refuse(mine, len, Refusal::OutOfMemory, tasks));
            };
            let mut chain = Chain::default();
            let arm = |(entry, task)| {
                let armed = Sole::arm(entry, remote.as_home(), task, deadline, ArmFlags::HANDLE);
                let address = armed.address();
                // The newest comes first, as in the inbox.
                chain.push_front(armed);
                address
            };
            // The addresses are collected in place of the free entries, so nothing is allocated.
            // (std does so, and does not promise it: `tests/no_memory.rs` would see a change.)
            let entries = free.into_iter().zip(tasks).map(arm).collect();
            if let Err(mut refused) = remote.push_chain(chain, deadline, shared.timeline()) {
                let newest_first = std::iter::from_fn(|| refused.pop());
                let mut tasks: Vec<W> = newest_first.map(|armed| take_back(armed, mine)).collect();
                tasks.reverse();
                shared.give_places_back(len);
                return Err(self.refuse(mine, len, Refusal::Shutdown, tasks));
            }
            shared.counts_of(mine, remote).scheduled.add(len as u64);
            Ok(entries)
        })?;
        // SAFETY: each entry was just armed with a handle. This makes it, once.
        Ok(entries.into_iter().map(|entry| unsafe { Timeout::new(entry) }).collect())
    }
}

impl Timer {
    /// Returns the shard of a key, to schedule on.
    ///
    /// All timeouts of one key live on that shard. So they expire in the order of their ticks, and
    /// one worker handles them all. Two cases change the order in which they run:
    ///
    /// * The executor may run them in another order. [`Inline`](crate::Inline), or a pool of one
    ///   thread, keeps the order.
    /// * If the inbox holds more timeouts than
    ///   [`Builder::transfer_limit`](crate::Builder::transfer_limit), the rest waits for the next
    ///   turn. A timeout of the rest may run after one that is due later.
    ///
    /// The shards are the same in each run of a program, as far as the key hashes the same.
    ///
    /// The returned value borrows the timer, and costs one hash, so call this each time. It neither
    /// blocks nor allocates.
    ///
    /// Without this call a timeout goes to the home shard of the thread that schedules it, which
    /// costs least.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().shards(4).build()?;
    /// let connection_id = 4711;
    /// let first = || println!("first");
    /// timer.shard_for(&connection_id).schedule_detached(Duration::from_secs(1), first)?;
    /// let second = || println!("second");
    /// timer.shard_for(&connection_id).schedule_detached(Duration::from_secs(2), second)?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn shard_for<K: Hash + ?Sized>(&self, key: &K) -> Shard<'_> {
        // A fixed hasher chooses the same shard for a key each time, in each process.
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        #[expect(clippy::cast_possible_truncation, reason = "less than the number of shards")]
        let index = ((u128::from(hash) * self.shards() as u128) >> 64) as usize;
        Shard { shared: &self.owner.shared, remote: Some(self.owner.shared.remote(index)) }
    }
}
