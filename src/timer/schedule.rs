//! Schedules timeouts, on the producer's side.

use std::ptr::NonNull;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::error::{Refusal, ScheduleError};
use super::members::Members;
use super::timeout::Timeout;
use crate::engine::Shared;
use crate::entry::{ArmFlags, Entry, FnNext, FnRepeat, Owned, Repeat, Schedule, Series, Sole, Task};
use crate::shard::Remote;
use crate::thread::Local;
use crate::time::Subtick;

/// Where timeouts go. It has every way to schedule, once for [`Timer`](super::Timer),
/// [`Shard`](super::Shard) and [`Group`](super::Group).
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) shared: &'a Shared,
    /// The number of the shard. `None` means the calling thread's home shard.
    pub(super) shard: Option<usize>,
    pub(super) group: Option<&'a Members>,
}

/// Work that can be scheduled: a closure that runs once, a periodic one, or a wake-up. It goes into
/// an entry as a task, and comes back if it is refused.
pub(super) trait Work: Sized {
    const FLAGS: ArmFlags;

    fn into_task(self) -> Task;

    /// Turns a task back into the work.
    ///
    /// # Safety
    /// The task is one that this type's `into_task` made, and its entry was never published.
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
        // SAFETY: the caller guarantees that `into_task` of this type made the task, so it holds an
        // `F`.
        Self(unsafe { task.into_inner() })
    }
}

impl<R: Repeat> Work for Series<R> {
    const FLAGS: ArmFlags = ArmFlags::SERIES;

    fn into_task(self) -> Task {
        Task::series(self)
    }

    unsafe fn from_task(task: Task) -> Self {
        // SAFETY: the caller guarantees that `into_task` of this type made the task, so it holds a
        // `Series<R>`.
        unsafe { task.into_inner() }
    }
}

/// The wake-up of a task of a runtime.
struct Waking(Waker);

impl Work for Waking {
    const FLAGS: ArmFlags = ArmFlags::SLEEPER;

    #[inline]
    fn into_task(self) -> Task {
        Task::sleeper(self.0)
    }

    unsafe fn from_task(task: Task) -> Self {
        // SAFETY: the caller guarantees that `into_task` of this type made the task, so it holds a
        // sleeper, and that its entry was never published, so no other thread uses the sleeper.
        Self(unsafe { task.into_waker() })
    }
}

impl Target<'_> {
    // Always inlined, so that each caller compiles without the looks at the fields that it leaves
    // `None`.
    #[inline(always)]
    pub(super) fn schedule<F>(self, delay: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_once(self.shared.timeline().deadline_after(delay), task)
    }

    pub(super) fn schedule_at<F>(self, deadline: Instant, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_once(self.shared.timeline().deadline_at(deadline), task)
    }

    #[inline(always)]
    pub(super) fn schedule_detached<F>(self, delay: Duration, task: F) -> Result<(), ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let deadline = self.shared.timeline().deadline_after(delay);
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
        let choose = |(first, last)| {
            let tick = shared.with_thread_state(|mine| shared.home_of(mine, self.shard).coalescer.choose(first, last));
            shared.timeline().scale().division().end(tick)
        };
        let deadline = shared.timeline().ticks_between(earliest, latest).map_or_else(|alone| alone, choose);
        self.submit_once(deadline, task)
    }

    #[inline(always)]
    pub(super) fn submit_once<F>(self, deadline: Subtick, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        match self.submit(deadline, ArmFlags::HANDLE, Once(task)) {
            // SAFETY: the entry was just armed with a handle. This makes it, once.
            Ok(entry) => Ok(unsafe { Timeout::new(entry) }),
            Err((why, Once(task))) => Err(ScheduleError::new(why, task)),
        }
    }

    /// Schedules the wake-up of a task of a runtime.
    #[inline]
    pub(super) fn wake(self, deadline: Subtick, waker: Waker) -> Result<Timeout, Refusal> {
        match self.submit(deadline, ArmFlags::HANDLE, Waking(waker)) {
            // SAFETY: the entry was just armed with a handle. This makes it, once.
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
        match self.submit(first.deadline, ArmFlags::HANDLE, Series::new(schedule, first, repeat)) {
            // SAFETY: the entry was just armed with a handle. This makes it, once.
            Ok(entry) => Ok(unsafe { Timeout::new(entry) }),
            Err((why, series)) => Err((why, series.repeat)),
        }
    }

    /// Arms an entry and pushes it to its shard.
    // Always inlined, so that each type of work and each way to schedule has its own copy, without
    // the parts that only the others need.
    #[inline(always)]
    fn submit<W: Work>(self, deadline: Subtick, flags: ArmFlags, work: W) -> Result<NonNull<Entry>, (Refusal, W)> {
        let shared = self.shared;
        let flags = flags.and(W::FLAGS).and(self.owner());
        let entry = match shared.thread_state() {
            Some(mine) => self.submit_through(mine, deadline, flags, work),
            None => self.submit_in_teardown(deadline, flags, work),
        }?;
        if let Some(group) = self.group {
            // SAFETY: the entry is of this engine, and was armed with the group as an owner. It is
            // added here once.
            unsafe { group.add(shared, &[entry]) };
        }
        Ok(entry)
    }

    /// Like `submit`, on a thread in teardown, which has no thread state of its own any more, or in
    /// a forked child.
    #[cold]
    #[inline(never)]
    fn submit_in_teardown<W: Work>(
        self,
        deadline: Subtick,
        flags: ArmFlags,
        work: W,
    ) -> Result<NonNull<Entry>, (Refusal, W)> {
        if self.shared.is_forked() {
            return Err((Refusal::Forked, work));
        }
        self.shared.with_thread_state(|mine| self.submit_through(mine, deadline, flags, work))
    }

    /// Like `submit`, through `mine`.
    #[inline(always)]
    fn submit_through<W: Work>(
        self,
        mine: Local<'_>,
        deadline: Subtick,
        flags: ArmFlags,
        work: W,
    ) -> Result<NonNull<Entry>, (Refusal, W)> {
        let shared = self.shared;
        let remote = shared.home_of(mine, self.shard);
        let counts = shared.counts_of(mine, remote);
        // Look before anything is taken or armed. A tombstone is not pushed. So it would be revived
        // while a drain goes through the entries that it has taken out of the inbox.
        if remote.is_closed() {
            counts.rejected.add(1);
            return Err((Refusal::Shutdown, work));
        }
        if !shared.take_places(1) {
            counts.rejected.add(1);
            return Err((Refusal::Full, work));
        }
        let entry = match mine.take_tombstone(remote) {
            Some(tombstone) => match tombstone.revive(work.into_task(), deadline, flags) {
                Ok(entry) => {
                    remote.wake_for_revived(deadline, shared.timeline());
                    counts.scheduled.add(1);
                    return Ok(entry);
                }
                // The worker has let go of it in between, so it is an entry like any other.
                Err(entry) => entry,
            },
            None => {
                let Some(entry) = shared.take_entry(mine, remote) else {
                    shared.give_places_back(1);
                    counts.rejected.add(1);
                    return Err((Refusal::OutOfMemory, work));
                };
                arm(entry, remote, deadline, flags, work)
            }
        };
        let address = NonNull::from(&*entry);
        match remote.push(entry, deadline, shared.timeline()) {
            Ok(()) => {
                counts.scheduled.add(1);
                Ok(address)
            }
            Err(entry) => {
                // SAFETY: the inbox did not accept the entry, so nobody else knows it, and it has
                // the `W` from above.
                let work = unsafe { take_back(mine, entry) };
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

/// Writes the work into a free entry, and arms it.
#[inline]
pub(super) fn arm<W: Work>(entry: Sole, remote: &Remote, deadline: Subtick, flags: ArmFlags, work: W) -> Owned {
    entry.arm(remote.as_home(), work.into_task(), deadline, flags)
}

/// Takes the work out of an entry again, and frees the entry.
///
/// # Safety
/// The entry was armed with a `W`, and never accepted, so nobody else knows it.
pub(super) unsafe fn take_back<W: Work>(mine: Local<'_>, entry: Owned) -> W {
    entry.state.disarm();
    // SAFETY: the entry was never published, and its task is taken once.
    let task = unsafe { entry.take_task() };
    // SAFETY: nobody else knows the entry.
    mine.put_entry(unsafe { entry.into_sole() });
    // SAFETY: the caller guarantees that the entry was armed with a `W`, so `W::into_task` made the
    // task.
    unsafe { W::from_task(task) }
}

/// The ways to schedule, for a type with a `target`. Each is as [`Timer`](super::Timer) has it.
macro_rules! schedule_methods {
    ($where:literal) => {
        #[doc = concat!("Runs `task` once, after `delay`, ", $where, ".")]
        ///
        /// Otherwise it is [`Timer::schedule`](crate::Timer::schedule).
        ///
        /// # Errors
        /// Returns the errors of that method.
        pub fn schedule<F>(&self, delay: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            self.target().schedule(delay, task)
        }

        #[doc = concat!("Runs `task` once, at `deadline`, ", $where, ".")]
        ///
        /// Otherwise it is [`Timer::schedule_at`](crate::Timer::schedule_at).
        ///
        /// # Errors
        /// Returns the errors of that method.
        pub fn schedule_at<F>(&self, deadline: Instant, task: F) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            self.target().schedule_at(deadline, task)
        }

        #[doc = concat!("Runs `task` once, after `delay`, without a handle, ", $where, ".")]
        ///
        /// Otherwise it is [`Timer::schedule_detached`](crate::Timer::schedule_detached).
        ///
        /// # Errors
        /// Returns the errors of that method.
        pub fn schedule_detached<F>(&self, delay: Duration, task: F) -> Result<(), ScheduleError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            self.target().schedule_detached(delay, task)
        }

        #[doc = concat!("Runs `task` once, between two delays, ", $where, ".")]
        ///
        /// Otherwise it is [`Timer::schedule_between`](crate::Timer::schedule_between).
        ///
        /// # Errors
        /// Returns the errors of that method.
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

        #[doc = concat!("Schedules many tasks with one delay, all or none, ", $where, ".")]
        ///
        /// Otherwise it is [`Timer::schedule_many`](crate::Timer::schedule_many).
        ///
        /// # Errors
        /// Returns the errors of that method.
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

        #[doc = concat!("Runs `task` periodically at a fixed rate, ", $where, ".")]
        ///
        /// Otherwise it is [`Timer::schedule_at_fixed_rate`](crate::Timer::schedule_at_fixed_rate).
        ///
        /// # Errors
        /// Returns the errors of that method.
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

        #[doc = concat!("Runs `task` at a fixed rate, with a choice for missed runs, ", $where, ".")]
        ///
        /// Otherwise it is
        /// [`Timer::schedule_at_fixed_rate_with`](crate::Timer::schedule_at_fixed_rate_with).
        ///
        /// # Errors
        /// Returns the errors of that method.
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

        #[doc = concat!("Runs `task` periodically, `delay` after the end of each run, ", $where, ".")]
        ///
        /// Otherwise it is
        /// [`Timer::schedule_with_fixed_delay`](crate::Timer::schedule_with_fixed_delay).
        ///
        /// # Errors
        /// Returns the errors of that method.
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

        #[doc = concat!("Runs `task` whenever its last run said, ", $where, ".")]
        ///
        /// Otherwise it is [`Timer::schedule_repeating`](crate::Timer::schedule_repeating).
        ///
        /// # Errors
        /// Returns the errors of that method.
        pub fn schedule_repeating<F>(&self, initial: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnMut() -> Option<Duration> + Send + 'static,
        {
            self.target().schedule_repeating(initial, task)
        }
    };
}

pub(super) use schedule_methods;
