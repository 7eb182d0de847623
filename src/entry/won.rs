//! The steps of who has the task.

use super::held::{Emptied, Held, Marked, Owned, Running, Won};
use super::{Entry, Kind, Snapshot, Task, TaskInPlace};
use crate::time::Subtick;

/// A timeout that a shutdown has withdrawn, or fires whatever its deadline.
pub(crate) enum EndedEarly<T> {
    /// It goes into the shutdown's answer, or runs in a batch.
    Task(T),
    /// Its waker is the holder's to call, or `None` if its future is awake, and needs nobody.
    Wake(Option<Won>),
}

impl Owned {
    /// Takes the timeout out of PENDING, for the answer of a shutdown. It is in no slot. Returns
    /// the entry as it was if a cancel was first.
    pub(crate) fn withdraw(self) -> Result<EndedEarly<Won>, Self> {
        let ended = self.state.withdraw();
        self.ended_early(ended)
    }

    /// Takes a timeout for a shutdown that runs what is left. It is in no slot. Returns it if it
    /// was cancelled.
    pub(crate) fn fire(self) -> Result<EndedEarly<Marked>, Self> {
        let ended = self.state.fire();
        self.ended_early(ended)
    }

    /// Returns whose a timeout is that a shutdown ends, by what a step of its word has just come
    /// to.
    fn ended_early<S>(self, ended: Option<Snapshot>) -> Result<EndedEarly<Held<S>>, Self> {
        match ended {
            Some(word) if word.kind() != Kind::Waker => Ok(EndedEarly::Task(self.becomes())),
            // If it is changing, the entry is the engine's no more.
            Some(word) => Ok(EndedEarly::Wake((!word.is_changing()).then(|| self.becomes()))),
            None => Err(self),
        }
    }
}

impl Won {
    /// Returns the deadline for which it has expired, or `None` if a shutdown has withdrawn it.
    #[inline]
    pub(crate) fn expired(&self) -> Option<Subtick> {
        let word = self.snapshot();
        (!word.is_cancelled()).then(|| word.deadline())
    }

    /// Moves the task out.
    #[inline]
    pub(crate) fn take_task(self) -> (Task, Owned) {
        // SAFETY: the task is this value's, which ends here.
        (unsafe { Entry::take_task(&self) }, self.becomes())
    }

    /// Calls `then` with the entry, and `run` with the task in the place of its copy.
    #[inline]
    pub(crate) fn run_in_place(self, then: impl FnOnce(Owned), run: impl FnOnce(TaskInPlace<'_>)) {
        // SAFETY: the task is this value's, which ends here. So the copy is the task.
        unsafe {
            let mut copy = self.copy_task();
            then(self.becomes());
            run(TaskInPlace::new(&mut copy));
        }
    }
}

impl Running {
    /// Takes the task out, to run it. Called once.
    pub(crate) fn take_task(self) -> (Task, Emptied) {
        // SAFETY: the run has begun, so the task is this value's, which ends here.
        (unsafe { Entry::take_task(&self) }, self.becomes())
    }
}

impl Emptied {
    /// Puts the task back, and makes the timeout pending again, for `next`, unless a reset has set
    /// another deadline. Returns the entry to be pushed, or what is to be cleared away if the
    /// timeout was cancelled.
    pub(crate) fn rearm(self, task: Task, next: Subtick) -> Result<Marked, Won> {
        self.put_task(task);
        if self.state.rearm(next) { Ok(self.becomes()) } else { Err(self.becomes()) }
    }

    /// Ends the timeout, whose task is not put back: calls `finish` before others can see that, or
    /// not at all if it was cancelled meanwhile.
    pub(crate) fn end(self, finish: impl FnOnce()) -> Owned {
        if self.state.begin_end() {
            finish();
            self.state.end_series();
        }
        self.becomes()
    }
}
