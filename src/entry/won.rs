//! Entries whose tasks are their holder's, as values: [`Won`] and [`Running`].

use super::owned::Owned;
use super::token::{Listable, Token};
use super::{Ended, Kind, Task, TaskInPlace};
use crate::time::Subtick;

/// A timeout that a shutdown has withdrawn, or fires whatever its deadline.
pub(crate) enum EndedEarly<T> {
    /// It goes into the shutdown's answer, or runs in a batch.
    Task(T),
    /// Its waker is the holder's to call.
    Wake(Won),
    /// Its future is awake, and needs nobody.
    Left,
}

impl Owned {
    /// Takes the timeout out of PENDING, for the answer of a shutdown. It is in no slot. Returns
    /// the entry as it was if a cancel was first.
    pub(crate) fn withdraw(self) -> Result<EndedEarly<Won>, Self> {
        let ended = self.state.withdraw();
        // SAFETY: the step before has come to that.
        unsafe { self.ended_early(ended, Won) }
    }

    /// Returns whose a timeout is that a shutdown ends. `task` makes the value of one that is no
    /// future's.
    ///
    /// # Safety
    /// `ended` is what a step of this entry's word has just come to.
    pub(super) unsafe fn ended_early<T>(
        self,
        ended: Ended,
        task: impl FnOnce(Self) -> T,
    ) -> Result<EndedEarly<T>, Self> {
        match ended {
            Ended::Mine(Kind::Waker) => Ok(EndedEarly::Wake(Won(self))),
            Ended::Mine(Kind::Once | Kind::Series) => Ok(EndedEarly::Task(task(self))),
            // The entry is the engine's no more.
            Ended::Left => Ok(EndedEarly::Left),
            Ended::TooLate => Err(self),
        }
    }
}

/// An entry that its holder took out of PENDING for good, with the task in it. The task is the
/// holder's, and so is the engine's ownership.
#[derive(Debug)]
#[must_use = "the task is lost if no step takes it over"]
#[repr(transparent)]
pub(crate) struct Won(Owned);

// SAFETY: `repr(transparent)` around an `Owned`: one address. An entry that was won is in no slot
// and no other list, so its `next` is free.
unsafe impl Token for Won {}

// SAFETY: it is in no list.
unsafe impl Listable for Won {}

impl Won {
    /// # Safety
    /// The caller took the entry out of PENDING for good, or got it from the thread that did. The
    /// task is in it, and is the caller's.
    #[inline]
    pub(crate) unsafe fn new(entry: Owned) -> Self {
        Self(entry)
    }

    /// Returns the deadline for which it has expired, or `None` if a shutdown has withdrawn it.
    #[inline]
    pub(crate) fn expired(&self) -> Option<Subtick> {
        let word = self.0.snapshot();
        (!word.is_cancelled()).then(|| word.deadline())
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
    #[inline]
    pub(crate) fn run_in_place(self, then: impl FnOnce(Owned), run: impl FnOnce(TaskInPlace<'_>)) {
        // SAFETY: the task is this value's, which ends here. So the copy is the task.
        unsafe {
            let mut copy = self.0.copy_task();
            then(self.0);
            run(TaskInPlace::new(&mut copy));
        }
    }
}

/// The entry of a periodic timeout whose run has begun. It is in no list, and the task in it is
/// this value's.
#[derive(Debug)]
#[must_use = "the timeout is lost if the run is not ended"]
pub(crate) struct Running(Owned);

impl Running {
    /// The caller has just begun the run.
    pub(super) fn of(entry: Owned) -> Self {
        Self(entry)
    }

    #[inline]
    pub(crate) fn as_owned(&self) -> &Owned {
        &self.0
    }

    /// Takes the task out, to run it. Called once.
    pub(crate) fn take_task(self) -> (Task, Emptied) {
        // SAFETY: the run has begun, so the task is this value's, which ends here.
        (unsafe { self.0.take_task() }, Emptied(self.0))
    }
}

/// The entry of a run, whose task is out.
#[must_use = "the timeout is lost if the run is not ended"]
pub(crate) struct Emptied(Owned);

impl Emptied {
    /// Puts the task back, and makes the timeout pending again, for `next`, unless a reset has set
    /// another deadline. Returns the entry to be pushed, or what is to be cleared away if the
    /// timeout was cancelled.
    pub(crate) fn rearm(self, task: Task, next: Subtick) -> Result<Owned, Won> {
        self.0.put_task(task);
        if self.0.state.rearm(next) { Ok(self.0) } else { Err(Won(self.0)) }
    }

    /// Ends the timeout, whose task is not put back: calls `finish` before others can see that, or
    /// not at all if it was cancelled meanwhile.
    pub(crate) fn end(self, finish: impl FnOnce()) -> Owned {
        if self.0.state.begin_end() {
            finish();
            self.0.state.end_series();
        }
        self.0
    }
}
