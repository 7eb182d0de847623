//! A run of a series, in the hands of its runner: the task runs, and the entry goes back to the inbox, for the next time.
//! See `README.md` here, section 6.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::lifetime::SharedRef;
use crate::entry::{Begin, EngineGone, Entry, Rearm, Task, entry_ref};
use crate::panics;
use crate::shard::Remote;
use crate::sync::lock;
use crate::time::Tick;

/// What a task panicked with, if it did.
pub(crate) type Ran = Result<(), Box<dyn Any + Send>>;

/// Of a series that has expired: its entry is in no list, and its task is this one's.
#[derive(Debug)]
pub(crate) struct PeriodicRun {
    entry: NonNull<Entry>,
}

impl PeriodicRun {
    /// # Safety
    /// The worker won the entry's way to EXPIRED, and has given it to the caller, once.
    pub(crate) unsafe fn new(entry: NonNull<Entry>) -> Self {
        Self { entry }
    }

    fn entry(&self) -> &Entry {
        // SAFETY: the engine has not let go of it: that is for this run to do.
        unsafe { entry_ref(self.entry) }
    }

    fn remote<'a>(&self, _shared: &'a SharedRef) -> &'a Remote {
        // SAFETY: the schedule wrote it there; the remote is a part of the engine.
        unsafe { &*self.entry().home().cast::<Remote>() }
    }

    /// Runs it, if it is still wanted, and arms it for the next time. A panic ends the series, and is handed to the caller.
    /// `begins` is called if it is run.
    #[inline(never)] // Most timeouts are no series: what runs those is shorter without this.
    pub(crate) fn run(self, shared: &SharedRef, begins: impl FnOnce()) -> Ran {
        let (next, has_run) = match self.entry().state.begin_run() {
            Begin::Cancelled => return self.clear_away(shared),
            // The word says when.
            Begin::Moved => (Tick::NEVER, false),
            Begin::Run(deadline) => {
                begins();
                shared.count(self.remote(shared), |counts| counts.runs.add(1));
                // SAFETY: the task belongs to the run.
                let mut task = unsafe { self.entry().take_task() };
                match catch_unwind(AssertUnwindSafe(|| task.run_again(deadline, shared.timeline()))) {
                    Ok(Some(next)) => {
                        self.entry().put_task(task);
                        if next.is_overdue {
                            shared.overdue.set();
                        }
                        (next.tick, true)
                    }
                    Ok(None) => return self.end(shared, task),
                    Err(panic) => {
                        // If it panics when it is dropped, too, that is not told.
                        self.end(shared, task).unwrap_or_else(panics::discard);
                        return Err(panic);
                    }
                }
            }
        };
        match self.entry().state.rearm(next) {
            Rearm::Pending => self.push(shared, has_run),
            Rearm::Cancelled => self.clear_away(shared),
        }
    }

    /// To the inbox again. From here on the entry is the worker's, unless the engine has been shut down: then the series
    /// ends.
    fn push(self, shared: &SharedRef, has_run: bool) -> Ran {
        let remote = self.remote(shared);
        // SAFETY: the entry is in no list, and ours to give to the worker.
        if unsafe { remote.push_again(self.entry) }.is_ok() {
            return Ok(());
        }
        if !has_run && remote.is_to_fire() && self.entry().state.expire_early() {
            return self.run(shared, || ());
        }
        if !self.entry().state.withdraw() {
            // A cancel was first, and has taken the task.
            self.let_go(shared);
            return Ok(());
        }
        shared.give_places_back(1);
        if has_run {
            shared.count(remote, |counts| counts.finished.add(1));
            return self.clear_away(shared);
        }
        // A reset had put the run off, and the series waited for it: as if it had waited in the shard.
        shared.count(remote, |counts| counts.returned.add(1));
        match &mut *lock(&shared.unfired_periodic) {
            // SAFETY: just won, and in no list; the engine's part in it is given up.
            Some(left) => unsafe { left.push(self.entry) },
            None => return self.clear_away(shared),
        }
        Ok(())
    }

    /// After the last run.
    fn end(self, shared: &SharedRef, task: Task) -> Ran {
        if self.entry().state.end_series() {
            shared.count(self.remote(shared), |counts| counts.finished.add(1));
            shared.give_places_back(1);
        }
        self.let_go(shared);
        catch_unwind(AssertUnwindSafe(|| drop(task)))
    }

    /// It is not pending any more, and its task is still in it.
    fn clear_away(self, shared: &SharedRef) -> Ran {
        // SAFETY: nobody took the task from under the run.
        let task = unsafe { self.entry().take_task() };
        self.let_go(shared);
        catch_unwind(AssertUnwindSafe(|| drop(task)))
    }

    fn let_go(&self, shared: &SharedRef) {
        if self.entry().state.engine_lets_go() == EngineGone::Last {
            // SAFETY: the last owner is the sole owner; the entry is the engine's.
            unsafe { shared.put_entry(self.entry) };
        }
    }
}
