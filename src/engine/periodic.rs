//! A run of a periodic timeout. The runner runs the task, and pushes the entry to the inbox again
//! for the next run. See `shard/README.md`, section 6.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::lifetime::SharedRef;
use super::unfired::{clear_away, withdraw_outside};
use crate::entry::{Begin, Entry, Rearm, Task, entry_ref};
use crate::panics::{self, Ran};
use crate::shard::Remote;
use crate::time::Subtick;

/// A run of an expired periodic timeout. Its entry is in no list, and its task belongs to this
/// value.
#[derive(Debug)]
pub(crate) struct PeriodicRun {
    entry: NonNull<Entry>,
}

impl PeriodicRun {
    /// # Safety
    /// The worker took the entry from PENDING to EXPIRED, and has given it to the caller, once.
    pub(crate) unsafe fn new(entry: NonNull<Entry>) -> Self {
        Self { entry }
    }

    fn entry(&self) -> &Entry {
        // SAFETY: the engine has not given the entry up: this run does that.
        unsafe { entry_ref(self.entry) }
    }

    fn remote<'a>(&self, _shared: &'a SharedRef) -> &'a Remote {
        // SAFETY: the thread that scheduled it stored the address; the remote is a part of the
        // engine.
        unsafe { &*self.entry().home().cast::<Remote>() }
    }

    /// Runs the task, if the run is still wanted, and arms the timeout for the next run. A panic
    /// ends the timeout, and is returned to the caller. Calls `begins` if the task is run.
    // Out of line: most timeouts are not periodic, and the code that runs those is shorter without.
    #[inline(never)]
    pub(crate) fn run(self, shared: &SharedRef, begins: impl FnOnce()) -> Ran {
        let (next, has_run) = match self.entry().state.begin_run() {
            Begin::Cancelled => return self.clear_away(shared),
            // The word says when.
            Begin::Moved => (Subtick::NEVER, false),
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
                        (next.deadline, true)
                    }
                    Ok(None) => return self.end(shared, task),
                    Err(panic) => {
                        // If the drop panics too, that second panic is not reported.
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

    /// Pushes the entry to the inbox again. From here on it is the worker's. If the engine has been
    /// shut down, the timeout ends.
    fn push(self, shared: &SharedRef, has_run: bool) -> Ran {
        let remote = self.remote(shared);
        // SAFETY: the entry is in no list, and this run may give it to the worker.
        if unsafe { remote.push_again(self.entry, shared.timeline()) }.is_ok() {
            return Ok(());
        }
        if !has_run && remote.is_to_fire() && self.entry().state.expire_early() {
            return self.run(shared, || ());
        }
        if !has_run {
            // A reset had moved the run to a later time, and the timeout was waiting for it.
            // SAFETY: this run holds the engine's ownership, and ends with it.
            if let Some(ran) = unsafe { withdraw_outside(shared, remote, self.entry) } {
                return ran;
            }
        } else if self.entry().state.withdraw() {
            shared.give_places_back(1);
            shared.count(remote, |counts| counts.finished.add(1));
            return self.clear_away(shared);
        }
        // A cancel was first, and has taken the task.
        self.let_go(shared);
        Ok(())
    }

    /// Ends the timeout after its last run.
    fn end(self, shared: &SharedRef, task: Task) -> Ran {
        if self.entry().state.end_series() {
            shared.count(self.remote(shared), |counts| counts.finished.add(1));
            shared.give_places_back(1);
        }
        self.let_go(shared);
        catch_unwind(AssertUnwindSafe(|| drop(task)))
    }

    /// Drops the task of an entry that is not pending any more, and gives the entry up.
    fn clear_away(self, shared: &SharedRef) -> Ran {
        // SAFETY: the task belongs to the run, which holds the engine's ownership and ends with it.
        unsafe { clear_away(shared, self.entry) }
    }

    fn let_go(&self, shared: &SharedRef) {
        // SAFETY: the run holds the engine's ownership, and its callers end with this.
        unsafe { shared.let_go(self.entry) };
    }
}
