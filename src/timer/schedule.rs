//! The way of a timeout into the engine, on the producer's side.

use std::ptr::NonNull;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::error::{Refusal, ScheduleError};
use super::members::Members;
use super::timeout::Timeout;
use crate::engine::Shared;
use crate::entry::{ArmFlags, Entry, FnNext, FnRepeat, Repeat, Schedule, Series, Task, entry_ref};
use crate::shard::Remote;
use crate::thread::ThreadState;
use crate::time::Tick;

/// Where timeouts are to go: every way to schedule, once for [`Timer`](super::Timer), [`Shard`](super::Shard) and
/// [`Group`](super::Group).
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) shared: &'a Shared,
    /// The calling thread's home shard if none.
    pub(super) shard: Option<usize>,
    pub(super) group: Option<&'a Members>,
}

/// What can be scheduled: what runs once, or a series. Goes into an entry as a task, and comes back if it is refused.
pub(super) trait Work: Sized {
    const FLAGS: ArmFlags;

    fn into_task(self) -> Task;

    /// # Safety
    /// The task is what this type's `into_task` made.
    unsafe fn from_task(task: Task) -> Self;
}

pub(super) struct Once<F>(pub(super) F);

impl<F: FnOnce() + Send + 'static> Work for Once<F> {
    const FLAGS: ArmFlags = ArmFlags::NONE;

    #[inline]
    fn into_task(self) -> Task {
        Task::new(self.0)
    }

    unsafe fn from_task(task: Task) -> Self {
        // SAFETY: handed on.
        Self(unsafe { task.into_inner() })
    }
}

impl<R: Repeat> Work for Series<R> {
    const FLAGS: ArmFlags = ArmFlags::SERIES;

    fn into_task(self) -> Task {
        Task::series(self)
    }

    unsafe fn from_task(task: Task) -> Self {
        // SAFETY: handed on.
        unsafe { task.into_inner() }
    }
}

/// The wake-up of a task.
struct Waking(Waker);

impl Work for Waking {
    const FLAGS: ArmFlags = ArmFlags::NONE;

    #[inline]
    fn into_task(self) -> Task {
        Task::sleeper(self.0)
    }

    unsafe fn from_task(task: Task) -> Self {
        // SAFETY: `into_task` made it, and it was never published.
        Self(unsafe { task.into_waker() })
    }
}

impl Target<'_> {
    // Always inlined: so what the caller leaves open of the place is not asked for.
    #[inline(always)]
    pub(super) fn schedule<F>(self, delay: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_once(self.shared.timeline().tick_after(delay), task)
    }

    pub(super) fn schedule_at<F>(self, deadline: Instant, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_once(self.shared.timeline().tick_at_or_now(deadline), task)
    }

    #[inline(always)]
    pub(super) fn schedule_detached<F>(self, delay: Duration, task: F) -> Result<(), ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let deadline = self.shared.timeline().tick_after(delay);
        match self.submit(deadline, ArmFlags::NONE, Once(task)) {
            Ok(_) => Ok(()),
            Err((why, Once(task))) => Err(ScheduleError::new(why, task)),
        }
    }

    pub(super) fn schedule_between<F>(
        self,
        earliest: Duration,
        latest: Duration,
        task: F,
    ) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let shared = self.shared;
        let (earliest, latest) = shared.timeline().ticks_between(earliest, latest);
        let deadline =
            shared.with_thread_state(|mine| shared.home_of(mine, self.shard).coalescer.choose(earliest, latest));
        self.submit_once(deadline, task)
    }

    #[inline(always)]
    fn submit_once<F>(self, deadline: Tick, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        match self.submit(deadline, ArmFlags::HANDLE, Once(task)) {
            // SAFETY: just armed with a handle, and this is the one.
            Ok(entry) => Ok(unsafe { Timeout::new(entry) }),
            Err((why, Once(task))) => Err(ScheduleError::new(why, task)),
        }
    }

    /// Schedules the wake-up of a task.
    #[inline]
    pub(super) fn wake(self, deadline: Tick, waker: Waker) -> Result<Timeout, Refusal> {
        match self.submit(deadline, ArmFlags::HANDLE, Waking(waker)) {
            // SAFETY: just armed with a handle, and this is the one.
            Ok(entry) => Ok(unsafe { Timeout::new(entry) }),
            Err((why, Waking(_))) => Err(why),
        }
    }

    pub(super) fn schedule_fn_repeat<F>(
        self,
        initial: Duration,
        schedule: Schedule,
        task: F,
    ) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        if schedule.is_without_pause() {
            return Err(ScheduleError::new(Refusal::ZeroPeriod, task));
        }
        self.series(initial, schedule, FnRepeat(task)).map_err(|(why, FnRepeat(task))| ScheduleError::new(why, task))
    }

    pub(super) fn schedule_repeating<F>(self, initial: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnMut() -> Option<Duration> + Send + 'static,
    {
        self.series(initial, Schedule::AsTaskSays, FnNext(task))
            .map_err(|(why, FnNext(task))| ScheduleError::new(why, task))
    }

    fn series<R: Repeat>(self, initial: Duration, schedule: Schedule, repeat: R) -> Result<Timeout, (Refusal, R)> {
        let first = self.shared.timeline().moment_after(initial);
        match self.submit(first.tick, ArmFlags::HANDLE, Series::new(schedule, first, repeat)) {
            // SAFETY: just armed with a handle, and this is the one.
            Ok(entry) => Ok(unsafe { Timeout::new(entry) }),
            Err((why, series)) => Err((why, series.repeat)),
        }
    }

    /// Fills in an entry and gives it to its shard.
    // Always inlined: there is one of it for each type of work and way to schedule, without what the others need.
    #[inline(always)]
    fn submit<W: Work>(self, deadline: Tick, flags: ArmFlags, work: W) -> Result<NonNull<Entry>, (Refusal, W)> {
        let shared = self.shared;
        let flags = flags.and(W::FLAGS).and(self.owner());
        let entry = match shared.thread_state() {
            Some(mine) => self.submit_through(mine, deadline, flags, work),
            None => self.submit_in_teardown(deadline, flags, work),
        }?;
        if let Some(group) = self.group {
            // SAFETY: armed with the group as an owner, which it becomes here, once.
            unsafe { group.add(shared, &[entry]) };
        }
        Ok(entry)
    }

    /// The same, on a thread that has no producer of its own any more, or in a forked child.
    #[cold]
    #[inline(never)]
    fn submit_in_teardown<W: Work>(
        self,
        deadline: Tick,
        flags: ArmFlags,
        work: W,
    ) -> Result<NonNull<Entry>, (Refusal, W)> {
        match self.shared.teardown_state() {
            Some(mine) => self.submit_through(&mine, deadline, flags, work),
            None => Err((Refusal::Forked, work)),
        }
    }

    /// The same, through this producer, which is the calling thread's.
    #[inline(always)]
    fn submit_through<W: Work>(
        self,
        mine: &ThreadState,
        deadline: Tick,
        flags: ArmFlags,
        work: W,
    ) -> Result<NonNull<Entry>, (Refusal, W)> {
        let shared = self.shared;
        let remote = shared.home_of(mine, self.shard);
        let counts = shared.counts_of(mine, remote);
        // Before anything is taken, or filled in: what is kept is not pushed, and so would be armed again while a drain goes through
        // what it has taken out.
        if remote.is_closed() {
            counts.rejected.add(1);
            return Err((Refusal::Shutdown, work));
        }
        if !shared.take_places(1) {
            counts.rejected.add(1);
            return Err((Refusal::Full, work));
        }
        let entry = match mine.take_tombstone(remote) {
            Some(entry) => {
                // SAFETY: an entry that is kept is ours to arm again.
                let tombstone = unsafe { entry_ref(entry) };
                tombstone.put_new_task(work.into_task());
                if tombstone.state.revive(deadline, flags) {
                    remote.wake_for_revived(deadline);
                    counts.scheduled.add(1);
                    return Ok(entry);
                }
                // The worker has been there in between: it is an entry like any other.
                tombstone.state.arm(deadline, flags);
                entry
            }
            None => {
                // SAFETY: the producer is this thread's, and the engine's.
                let Some(entry) = (unsafe { shared.take_entry(mine, remote) }) else {
                    shared.give_places_back(1);
                    counts.rejected.add(1);
                    return Err((Refusal::OutOfMemory, work));
                };
                fill(entry, remote, deadline, flags, work);
                entry
            }
        };
        // SAFETY: just filled in, and ours until it is accepted.
        match unsafe { remote.push(entry, deadline) } {
            Ok(()) => {
                counts.scheduled.add(1);
                Ok(entry)
            }
            Err(_closed) => {
                // SAFETY: the entry was not accepted, so it is still ours, with the work that was just put in; the producer is
                // this thread's.
                let work = unsafe { take_back(mine, shared, entry) };
                shared.give_places_back(1);
                counts.rejected.add(1);
                Err((Refusal::Shutdown, work))
            }
        }
    }

    #[inline]
    pub(super) fn owner(self) -> ArmFlags {
        if self.group.is_some() { ArmFlags::GROUP } else { ArmFlags::NONE }
    }
}

/// Fills in a free entry of ours.
#[inline]
pub(super) fn fill<W: Work>(entry: NonNull<Entry>, remote: &Remote, deadline: Tick, flags: ArmFlags, work: W) {
    // SAFETY: the callers have just taken it from the arena.
    let entry = unsafe { entry_ref(entry) };
    entry.fill(std::ptr::from_ref(remote).cast(), work.into_task());
    entry.state.arm(deadline, flags);
}

/// Takes the work out of an entry again, and gives the entry back.
///
/// # Safety
/// The entry was filled in with this kind of work, and never accepted. The producer is the calling thread's, of this engine.
pub(super) unsafe fn take_back<W: Work>(mine: &ThreadState, shared: &Shared, entry: NonNull<Entry>) -> W {
    // SAFETY: as above: it is ours.
    let this = unsafe { entry_ref(entry) };
    this.state.disarm();
    // SAFETY: never published.
    let task = unsafe { this.take_task() };
    // SAFETY: it is ours alone; the rest is handed on.
    unsafe { mine.put_entry(&shared.arena, entry) };
    // SAFETY: the caller names the type.
    unsafe { W::from_task(task) }
}

/// The ways to schedule, for a type with a `place`, each as [`Timer`](super::Timer) has it.
macro_rules! schedule_methods {
    ($where:literal) => {
        #[doc = concat!("As [`Timer::schedule`](crate::Timer::schedule), ", $where, ".")]
        ///
        /// # Errors
        /// As there.
        pub fn schedule<F>(&self, delay: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            self.target().schedule(delay, task)
        }

        #[doc = concat!("As [`Timer::schedule_at`](crate::Timer::schedule_at), ", $where, ".")]
        ///
        /// # Errors
        /// As there.
        pub fn schedule_at<F>(&self, deadline: Instant, task: F) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            self.target().schedule_at(deadline, task)
        }

        #[doc = concat!("As [`Timer::schedule_detached`](crate::Timer::schedule_detached), ", $where, ".")]
        ///
        /// # Errors
        /// As there.
        pub fn schedule_detached<F>(&self, delay: Duration, task: F) -> Result<(), ScheduleError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            self.target().schedule_detached(delay, task)
        }

        #[doc = concat!("As [`Timer::schedule_between`](crate::Timer::schedule_between), ", $where, ".")]
        ///
        /// # Errors
        /// As there.
        pub fn schedule_between<F>(
            &self,
            earliest: Duration,
            latest: Duration,
            task: F,
        ) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            self.target().schedule_between(earliest, latest, task)
        }

        #[doc = concat!("As [`Timer::schedule_many`](crate::Timer::schedule_many), ", $where, ".")]
        ///
        /// # Errors
        /// As there.
        pub fn schedule_many<F>(
            &self,
            delay: Duration,
            tasks: impl IntoIterator<Item = F>,
        ) -> Result<Vec<Timeout>, ScheduleError<Vec<F>>>
        where
            F: FnOnce() + Send + 'static,
        {
            self.target().schedule_many(delay, tasks)
        }

        #[doc = concat!("As [`Timer::schedule_at_fixed_rate`](crate::Timer::schedule_at_fixed_rate), ", $where, ".")]
        ///
        /// # Errors
        /// As there.
        pub fn schedule_at_fixed_rate<F>(
            &self,
            initial: Duration,
            period: Duration,
            task: F,
        ) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnMut() + Send + 'static,
        {
            self.schedule_at_fixed_rate_with(initial, period, MissedTicks::default(), task)
        }

        #[doc = concat!("As [`Timer::schedule_at_fixed_rate_with`](crate::Timer::schedule_at_fixed_rate_with), ", $where, ".")]
        ///
        /// # Errors
        /// As there.
        pub fn schedule_at_fixed_rate_with<F>(
            &self,
            initial: Duration,
            period: Duration,
            missed: MissedTicks,
            task: F,
        ) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnMut() + Send + 'static,
        {
            self.target().schedule_fn_repeat(initial, Schedule::fixed_rate(period, missed), task)
        }

        #[doc = concat!("As [`Timer::schedule_with_fixed_delay`](crate::Timer::schedule_with_fixed_delay), ", $where, ".")]
        ///
        /// # Errors
        /// As there.
        pub fn schedule_with_fixed_delay<F>(
            &self,
            initial: Duration,
            delay: Duration,
            task: F,
        ) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnMut() + Send + 'static,
        {
            self.target().schedule_fn_repeat(initial, Schedule::fixed_delay(delay), task)
        }

        #[doc = concat!("As [`Timer::schedule_repeating`](crate::Timer::schedule_repeating), ", $where, ".")]
        ///
        /// # Errors
        /// As there.
        pub fn schedule_repeating<F>(&self, initial: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnMut() -> Option<Duration> + Send + 'static,
        {
            self.target().schedule_repeating(initial, task)
        }
    };
}

pub(super) use schedule_methods;
