//! The way of a timeout into the engine, on the producer's side.

use std::ptr::NonNull;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::alarm::Waking;
use super::error::{Refusal, ScheduleError};
use super::group::Members;
use super::timeout::Timeout;
use crate::entry::{Answering, Entry, Plain, Repeat, Rule, Series, Task, With, entry_ref};
use crate::shard::{Hub, Mailbox, Producer};
use crate::time::Tick;

/// Where timeouts are to go: every way to schedule, once for [`Timer`](super::Timer), [`Shard`](super::Shard) and
/// [`Group`](super::Group).
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) hub: &'a Hub,
    /// The calling thread's home shard if none.
    pub(super) shard: Option<usize>,
    pub(super) group: Option<&'a Members>,
}

/// What can be scheduled: what runs once, or a series. Goes into an entry as a task, and comes back if it is refused.
pub(super) trait Work: Sized {
    const WITH: With;

    fn into_task(self) -> Task;

    /// # Safety
    /// The task is what this type's `into_task` made.
    unsafe fn from_task(task: Task) -> Self;
}

pub(super) struct Once<F>(pub(super) F);

impl<F: FnOnce() + Send + 'static> Work for Once<F> {
    const WITH: With = With::NOTHING;

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
    const WITH: With = With::SERIES;

    fn into_task(self) -> Task {
        Task::series(self)
    }

    unsafe fn from_task(task: Task) -> Self {
        // SAFETY: handed on.
        unsafe { task.into_inner() }
    }
}

impl Place<'_> {
    // Always inlined: so what the caller leaves open of the place is not asked for.
    #[inline(always)]
    pub(super) fn schedule<F>(self, delay: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.once(self.hub.timeline().tick_after(delay), task)
    }

    pub(super) fn schedule_at<F>(self, deadline: Instant, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.once(self.hub.timeline().tick_at_or_now(deadline), task)
    }

    #[inline(always)]
    pub(super) fn schedule_detached<F>(self, delay: Duration, task: F) -> Result<(), ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let deadline = self.hub.timeline().tick_after(delay);
        match self.put(deadline, With::NOTHING, Once(task)) {
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
        let hub = self.hub;
        let (earliest, latest) = hub.timeline().ticks_between(earliest, latest);
        let deadline = hub.with_producer(|mine| hub.home_of(mine, self.shard).gather.choose(earliest, latest));
        self.once(deadline, task)
    }

    #[inline(always)]
    fn once<F>(self, deadline: Tick, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        match self.put(deadline, With::HANDLE, Once(task)) {
            // SAFETY: just armed with a handle, and this is the one.
            Ok(entry) => Ok(unsafe { Timeout::new(entry) }),
            Err((why, Once(task))) => Err(ScheduleError::new(why, task)),
        }
    }

    /// Schedules the wake-up of a task.
    #[inline]
    pub(super) fn wake(self, deadline: Tick, waker: Waker) -> Result<Timeout, Refusal> {
        match self.put(deadline, With::HANDLE, Waking(waker)) {
            // SAFETY: just armed with a handle, and this is the one.
            Ok(entry) => Ok(unsafe { Timeout::new(entry) }),
            Err((why, Waking(_))) => Err(why),
        }
    }

    pub(super) fn schedule_plain_series<F>(
        self,
        initial: Duration,
        rule: Rule,
        task: F,
    ) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        if rule.is_without_pause() {
            return Err(ScheduleError::new(Refusal::ZeroPeriod, task));
        }
        self.series(initial, rule, Plain(task)).map_err(|(why, Plain(task))| ScheduleError::new(why, task))
    }

    pub(super) fn schedule_repeating<F>(self, initial: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnMut() -> Option<Duration> + Send + 'static,
    {
        self.series(initial, Rule::AsAnswered, Answering(task))
            .map_err(|(why, Answering(task))| ScheduleError::new(why, task))
    }

    fn series<R: Repeat>(self, initial: Duration, rule: Rule, repeat: R) -> Result<Timeout, (Refusal, R)> {
        let first = self.hub.timeline().moment_after(initial);
        match self.put(first.tick, With::HANDLE, Series::new(rule, first, repeat)) {
            // SAFETY: just armed with a handle, and this is the one.
            Ok(entry) => Ok(unsafe { Timeout::new(entry) }),
            Err((why, series)) => Err((why, series.repeat)),
        }
    }

    /// Fills in an entry and gives it to its shard.
    // Always inlined: there is one of it for each type of work and way to schedule, without what the others need.
    #[inline(always)]
    fn put<W: Work>(self, deadline: Tick, with: With, work: W) -> Result<NonNull<Entry>, (Refusal, W)> {
        let hub = self.hub;
        let with = with.and(W::WITH).and(self.owner());
        let entry = match hub.own_producer() {
            Some(mine) => self.put_through(mine, deadline, with, work),
            None => self.put_late(deadline, with, work),
        }?;
        if let Some(group) = self.group {
            // SAFETY: armed with the group as an owner, which it becomes here, once.
            unsafe { group.add(hub, &[entry]) };
        }
        Ok(entry)
    }

    /// The same, on a thread that has no producer of its own any more, or in a forked child.
    #[cold]
    #[inline(never)]
    fn put_late<W: Work>(self, deadline: Tick, with: With, work: W) -> Result<NonNull<Entry>, (Refusal, W)> {
        match self.hub.late_producer() {
            Some(mine) => self.put_through(&mine, deadline, with, work),
            None => Err((Refusal::Forked, work)),
        }
    }

    /// The same, through this producer, which is the calling thread's.
    #[inline(always)]
    fn put_through<W: Work>(
        self,
        mine: &Producer,
        deadline: Tick,
        with: With,
        work: W,
    ) -> Result<NonNull<Entry>, (Refusal, W)> {
        let hub = self.hub;
        let mailbox = hub.home_of(mine, self.shard);
        let counts = hub.counts_of(mine, mailbox);
        // Before anything is taken, or filled in: what is kept is not pushed, and so would be armed again while a drain goes through
        // what it has taken out.
        if mailbox.is_closed() {
            counts.rejected.add(1);
            return Err((Refusal::Shutdown, work));
        }
        if !hub.take_places(1) {
            counts.rejected.add(1);
            return Err((Refusal::Full, work));
        }
        let entry = match mine.take_kept(mailbox) {
            Some(entry) => {
                // SAFETY: an entry that is kept is ours to arm again.
                let kept = unsafe { entry_ref(entry) };
                kept.fill_kept(work.into_task());
                if kept.state.arm_kept(deadline, with) {
                    mailbox.armed_again(deadline);
                    counts.scheduled.add(1);
                    return Ok(entry);
                }
                // The worker has been there in between: it is an entry like any other.
                kept.state.arm(deadline, with);
                entry
            }
            None => {
                // SAFETY: the producer is this thread's, and the hub's.
                let Some(entry) = (unsafe { mine.take_entry(hub, mailbox) }) else {
                    hub.give_places_back(1);
                    counts.rejected.add(1);
                    return Err((Refusal::OutOfMemory, work));
                };
                fill(entry, mailbox, deadline, with, work);
                entry
            }
        };
        // SAFETY: just filled in, and ours until it is accepted.
        match unsafe { mailbox.post(entry, deadline) } {
            Ok(()) => {
                counts.scheduled.add(1);
                Ok(entry)
            }
            Err(_closed) => {
                // SAFETY: the entry was not accepted, so it is still ours, with the work that was just put in; the producer is
                // this thread's.
                let work = unsafe { take_back(mine, hub, entry) };
                hub.give_places_back(1);
                counts.rejected.add(1);
                Err((Refusal::Shutdown, work))
            }
        }
    }

    #[inline]
    pub(super) fn owner(self) -> With {
        if self.group.is_some() { With::GROUP } else { With::NOTHING }
    }
}

/// Fills in a free entry of ours.
#[inline]
pub(super) fn fill<W: Work>(entry: NonNull<Entry>, mailbox: &Mailbox, deadline: Tick, with: With, work: W) {
    // SAFETY: the callers have just taken it from the arena.
    let entry = unsafe { entry_ref(entry) };
    entry.fill(std::ptr::from_ref(mailbox).cast(), work.into_task());
    entry.state.arm(deadline, with);
}

/// Takes the work out of an entry again, and gives the entry back.
///
/// # Safety
/// The entry was filled in with this kind of work, and never accepted. The producer is the calling thread's, of this hub.
pub(super) unsafe fn take_back<W: Work>(mine: &Producer, hub: &Hub, entry: NonNull<Entry>) -> W {
    // SAFETY: as above: it is ours.
    let this = unsafe { entry_ref(entry) };
    this.state.disarm();
    // SAFETY: never published.
    let task = unsafe { this.take_task() };
    // SAFETY: it is ours alone; the rest is handed on.
    unsafe { mine.put_entry(&hub.arena, entry) };
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
            self.place().schedule(delay, task)
        }

        #[doc = concat!("As [`Timer::schedule_at`](crate::Timer::schedule_at), ", $where, ".")]
        ///
        /// # Errors
        /// As there.
        pub fn schedule_at<F>(&self, deadline: Instant, task: F) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            self.place().schedule_at(deadline, task)
        }

        #[doc = concat!("As [`Timer::schedule_detached`](crate::Timer::schedule_detached), ", $where, ".")]
        ///
        /// # Errors
        /// As there.
        pub fn schedule_detached<F>(&self, delay: Duration, task: F) -> Result<(), ScheduleError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            self.place().schedule_detached(delay, task)
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
            self.place().schedule_between(earliest, latest, task)
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
            self.place().schedule_many(delay, tasks)
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
            self.place().schedule_plain_series(initial, Rule::fixed_rate(period, missed), task)
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
            self.place().schedule_plain_series(initial, Rule::fixed_delay(delay), task)
        }

        #[doc = concat!("As [`Timer::schedule_repeating`](crate::Timer::schedule_repeating), ", $where, ".")]
        ///
        /// # Errors
        /// As there.
        pub fn schedule_repeating<F>(&self, initial: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnMut() -> Option<Duration> + Send + 'static,
        {
            self.place().schedule_repeating(initial, task)
        }
    };
}

pub(super) use schedule_methods;
