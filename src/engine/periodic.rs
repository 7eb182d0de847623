//! A run of a periodic timeout. The runner runs the task, and pushes the entry to the inbox again
//! for the next run. See `shard/README.md`, section 6.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::lifetime::SharedRef;
use super::unfired::clear_away;
use crate::entry::{EndedEarly, Running};
use crate::panics::{self, Ran};
use crate::shard::Remote;
use crate::time::Subtick;

impl SharedRef {
    /// Runs the task of a periodic timeout whose run has begun, and arms the timeout for the next
    /// run. A panic ends the timeout, and is returned to the caller.
    // Out of line: most timeouts are not periodic, and the code that runs those is shorter without.
    #[inline(never)]
    pub(crate) fn run_periodic(&self, deadline: Subtick, run: Running) -> Ran {
        let remote = self.remote(Remote::of(run.as_owned()).index());
        assert!(remote.is_home_of(run.as_owned()), "a timeout runs with its own engine");
        self.count(remote, |counts| counts.runs.add(1));
        let (mut task, emptied) = run.take_task();
        let next = match catch_unwind(AssertUnwindSafe(|| task.run_again(deadline, self.timeline()))) {
            Ok(Some(next)) => next,
            ended => {
                // Its place is back before anybody can see that it has ended.
                self.let_go(emptied.end(|| finish(self, remote)));
                let dropped = catch_unwind(AssertUnwindSafe(|| drop(task)));
                let Err(panic) = ended else { return dropped };
                // If the drop panics too, that second panic is not reported.
                dropped.unwrap_or_else(panics::discard);
                return Err(panic);
            }
        };
        if next.is_overdue {
            self.overdue.set();
        }
        let entry = match emptied.rearm(task, next.deadline) {
            Ok(entry) => entry,
            Err(cancelled) => return clear_away(self, cancelled),
        };
        // From here on it is the worker's.
        // SAFETY: `self` is a reference to the engine.
        let Err(entry) = (unsafe { remote.push_again(entry, self.timeline()) }) else { return Ok(()) };
        // The engine has been shut down, so the timeout ends.
        match entry.withdraw() {
            Ok(EndedEarly::Task(withdrawn)) => {
                finish(self, remote);
                clear_away(self, withdrawn)
            }
            Ok(EndedEarly::Wake(_) | EndedEarly::Left) => unreachable!("a periodic timeout"),
            Err(cancelled) => {
                // A cancel was first, and has taken the task.
                self.let_go(cancelled);
                Ok(())
            }
        }
    }
}

/// Counts the end of a timeout that nobody has cancelled.
fn finish(shared: &SharedRef, remote: &Remote) {
    shared.count(remote, |counts| counts.finished.add(1));
    shared.give_places_back(1);
}
