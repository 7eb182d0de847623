//! Entries whose tasks are their holder's, as values: [`Won`], [`SeriesRun`] and [`Asleep`].

use std::task::Waker;

use super::came_up::{Looked, OtherUp, Still};
use super::owned::Owned;
use super::token::{Listable, Token};
use super::{Begin, Expire, Kind, Rearm, Snapshot, Task, TaskInPlace};
use crate::time::Subtick;

impl Owned {
    /// Takes the timeout out of PENDING, for the answer of a shutdown. Returns the entry as it was
    /// if a cancel was first.
    pub(crate) fn withdraw(self) -> Result<Withdrawn, Self> {
        if !self.state.withdraw() {
            return Err(self);
        }
        Ok(match self.state.load().kind() {
            Kind::Sleeper => Withdrawn::Sleeper(Asleep(self)),
            Kind::Once | Kind::Series => Withdrawn::Task(Won(self)),
        })
    }

    /// Takes the timeout out of PENDING to run it, whatever its deadline. Returns the entry as it
    /// was if a cancel was first.
    pub(crate) fn expire_early(self) -> Result<Fired, Self> {
        if self.state.expire_early() { Ok(Fired::of(self)) } else { Err(self) }
    }
}

impl OtherUp {
    /// Expires it if it is due.
    #[inline(always)]
    pub(crate) fn expire(self, now: Subtick) -> Result<Fired, Still> {
        let Looked { entry, seen } = self.0;
        match entry.state.expire(seen, now) {
            Expire::Fire | Expire::FireLast => Ok(Fired::seen(entry, seen)),
            other => Err(Still::of((entry, other))),
        }
    }
}

/// A timeout that has expired, with what its holder does next.
pub(crate) enum Fired {
    /// Runs it. It runs once.
    Once(Won),
    /// Runs it, and arms it again.
    Run(SeriesRun),
    /// Wakes its future.
    Sleeper(Asleep),
}

impl Fired {
    #[inline]
    fn of(entry: Owned) -> Self {
        let seen = entry.state.load();
        Self::seen(entry, seen)
    }

    /// The holder has expired the entry. `seen` is an older word of it, which says what kind it is.
    #[inline(always)]
    fn seen(entry: Owned, seen: Snapshot) -> Self {
        match seen.kind() {
            Kind::Once => Self::Once(Won(entry)),
            Kind::Series => Self::Run(SeriesRun(entry)),
            Kind::Sleeper => Self::Sleeper(Asleep(entry)),
        }
    }
}

/// A timeout that a shutdown has withdrawn.
pub(crate) enum Withdrawn {
    Task(Won),
    Sleeper(Asleep),
}

/// An entry that its holder took out of PENDING for good, with the task in it. The task is the
/// holder's, and so is the engine's ownership. It is not a sleeper's.
#[derive(Debug)]
#[must_use = "the task is lost if no step takes it over"]
#[repr(transparent)]
pub(crate) struct Won(Owned);

// SAFETY: `repr(transparent)` around an `Owned`: one address. An entry that was won is in no slot
// and no other list, so its `next` is free, for an `UnfiredList`.
unsafe impl Token for Won {}

impl Listable for Won {}

impl Won {
    /// # Safety
    /// The caller took the entry out of PENDING for good, or got it from the thread that did. The
    /// task is in it, is the caller's, and is no sleeper.
    #[inline]
    pub(crate) unsafe fn new(entry: Owned) -> Self {
        Self(entry)
    }

    #[inline]
    pub(crate) fn into_owned(self) -> Owned {
        self.0
    }

    #[inline]
    pub(crate) fn deadline(&self) -> Subtick {
        self.0.state.deadline()
    }

    /// Moves the task out.
    #[inline]
    pub(crate) fn take_task(self) -> (Task, Owned) {
        // SAFETY: the task is this value's, which ends here.
        (unsafe { self.0.take_task() }, self.0)
    }

    /// Calls `then` with the entry, and `run` with the task in the place of its copy.
    pub(crate) fn run_in_place(self, then: impl FnOnce(Owned), run: impl FnOnce(TaskInPlace<'_>)) {
        // SAFETY: the task is this value's, which ends here, and it is no sleeper. So the copy is
        // the task.
        unsafe {
            let mut copy = self.0.copy_task();
            then(self.0);
            run(copy.as_task());
        }
    }
}

/// An entry of a sleeping future, which its holder took out of PENDING.
#[derive(Debug)]
#[must_use = "the future sleeps for ever if it is not woken"]
#[repr(transparent)]
pub(crate) struct Asleep(Owned);

impl Asleep {
    /// # Safety
    /// The caller took the entry out of PENDING, or got it from the thread that did. It is a
    /// sleeper's, and nobody has taken the waker.
    #[inline]
    pub(crate) unsafe fn new(entry: Owned) -> Self {
        Self(entry)
    }

    #[inline]
    pub(crate) fn into_owned(self) -> Owned {
        self.0
    }

    /// Returns the deadline for which it has expired, or `None` if a shutdown has withdrawn it.
    #[inline]
    pub(crate) fn fired(&self) -> Option<Subtick> {
        let word = self.0.snapshot();
        word.has_expired().then(|| word.deadline())
    }

    /// Takes the waker, unless the future is changing it, and so is awake. The sleeper stays where
    /// it is, for its future to look at.
    #[inline]
    pub(crate) fn take_waker(self) -> (Option<Waker>, Owned) {
        debug_assert!(self.0.is_sleeper());
        // SAFETY: this value says that it is a sleeper's. Its future has not dropped the handle, or
        // leaves the sleeper to the engine, which this value is.
        (unsafe { self.0.sleeper() }.take(), self.0)
    }
}

/// A run of a periodic timeout that has expired. Its entry is in no list, and the task in it is
/// this value's.
#[derive(Debug)]
#[must_use = "the timeout is lost if it is not run or ended"]
#[repr(transparent)]
pub(crate) struct SeriesRun(Owned);

/// What the runner of a periodic timeout finds when a run is about to begin.
pub(crate) enum Begun {
    /// The task is to run for this deadline.
    Run(Task, Running, Subtick),
    /// It was reset after it had expired. It is armed again, and does not run now.
    Moved(SeriesRun),
    /// It was cancelled: it is cleared away.
    Cancelled(Won),
}

impl SeriesRun {
    /// # Safety
    /// The caller has expired the entry of a periodic timeout, or got it from the thread that did,
    /// with the task in it.
    #[inline]
    pub(crate) unsafe fn new(entry: Owned) -> Self {
        Self(entry)
    }

    #[inline]
    pub(crate) fn into_owned(self) -> Owned {
        self.0
    }

    /// Looks whether the run is still wanted. If so, it has begun: a later cancel or reset acts on
    /// the next run.
    pub(crate) fn begin(self) -> Begun {
        match self.0.state.begin_run() {
            Begin::Run(deadline) => {
                // SAFETY: the task is this value's, which ends here.
                let task = unsafe { self.0.take_task() };
                Begun::Run(task, Running(self.0), deadline)
            }
            Begin::Moved => Begun::Moved(self),
            Begin::Cancelled => Begun::Cancelled(Won(self.0)),
        }
    }

    /// Makes the timeout pending again, for `next`, unless a reset has set another deadline.
    /// Returns the entry to be pushed, or what is to be cleared away if the timeout was cancelled.
    pub(crate) fn rearm(self, next: Subtick) -> Result<Owned, Won> {
        match self.0.state.rearm(next) {
            Rearm::Pending => Ok(self.0),
            Rearm::Cancelled => Err(Won(self.0)),
        }
    }

    /// Withdraws the timeout, for the answer of a shutdown. `Err` if a cancel was first. The task
    /// is the holder's in both cases.
    pub(crate) fn withdraw(self) -> Result<Won, Won> {
        if self.0.state.withdraw() { Ok(Won(self.0)) } else { Err(Won(self.0)) }
    }
}

/// The entry of a run that has begun. Its task is out.
#[must_use = "the timeout is lost if the run is not ended"]
pub(crate) struct Running(Owned);

impl Running {
    #[inline]
    pub(crate) fn as_owned(&self) -> &Owned {
        &self.0
    }

    /// Puts the task back, for the next run.
    pub(crate) fn put_back(self, task: Task) -> SeriesRun {
        self.0.put_task(task);
        SeriesRun(self.0)
    }

    /// Ends the timeout, whose task is not put back. True if it had not been cancelled meanwhile.
    pub(crate) fn end(self) -> (bool, Owned) {
        (self.0.state.end_series(), self.0)
    }
}
