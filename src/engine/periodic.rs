//! A run of a periodic timeout. The runner runs the task, and pushes the entry to the inbox again
//! for the next run. See `shard/README.md`, section 6.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::lifetime::SharedRef;
use super::unfired::{clear_away, withdraw_outside};
use crate::entry::{Begun, Fired, Owned, Running, SeriesRun, Task, Withdrawn};
use crate::panics::{self, Ran};
use crate::shard::Remote;
use crate::time::Subtick;

/// A run of an expired periodic timeout.
#[derive(Debug)]
pub(crate) struct PeriodicRun(SeriesRun);

impl PeriodicRun {
    pub(crate) fn new(run: SeriesRun) -> Self {
        Self(run)
    }

    /// Runs the task, if the run is still wanted, and arms the timeout for the next run. A panic
    /// ends the timeout, and is returned to the caller. Calls `begins` with the run's deadline if
    /// the task is run.
    // Out of line: most timeouts are not periodic, and the code that runs those is shorter without.
    #[inline(never)]
    pub(crate) fn run(self, shared: &SharedRef, begins: impl FnOnce(Subtick)) -> Ran {
        let (run, next, not_begun) = match self.0.begin() {
            Begun::Cancelled(entry) => return clear_away(shared, entry),
            // The word says when.
            Begun::Moved(run) => (run, Subtick::NEVER, Some(begins)),
            Begun::Run(mut task, running, deadline) => {
                begins(deadline);
                shared.count(remote_of(running.as_owned(), shared), |counts| counts.runs.add(1));
                match catch_unwind(AssertUnwindSafe(|| task.run_again(deadline, shared.timeline()))) {
                    Ok(Some(next)) => {
                        if next.is_overdue {
                            shared.overdue.set();
                        }
                        (running.put_back(task), next.deadline, None)
                    }
                    Ok(None) => return end(shared, running, task),
                    Err(panic) => {
                        // If the drop panics too, that second panic is not reported.
                        end(shared, running, task).unwrap_or_else(panics::discard);
                        return Err(panic);
                    }
                }
            }
        };
        match run.rearm(next) {
            Ok(entry) => push(shared, entry, not_begun),
            Err(cancelled) => clear_away(shared, cancelled),
        }
    }
}

fn remote_of<'a>(entry: &Owned, shared: &'a SharedRef) -> &'a Remote {
    shared.remote(Remote::of(entry).index())
}

/// Pushes the entry to the inbox again. From here on it is the worker's. If the engine has been
/// shut down, the timeout ends. `not_begun` is what a run calls that has not begun, because a reset
/// had moved it to a later time.
fn push(shared: &SharedRef, entry: Owned, not_begun: Option<impl FnOnce(Subtick)>) -> Ran {
    let remote = remote_of(&entry, shared);
    // SAFETY: `shared` is a reference to the engine.
    let Err(mut entry) = (unsafe { remote.push_again(entry, shared.timeline()) }) else { return Ok(()) };
    if let Some(begins) = not_begun {
        // The timeout was waiting for the later time.
        if remote.is_to_fire() {
            entry = match entry.expire_early() {
                Ok(Fired::Run(expired)) => return PeriodicRun(expired).run(shared, begins),
                Ok(_) => unreachable!("a periodic timeout"),
                Err(cancelled) => cancelled,
            };
        }
        entry = match withdraw_outside(shared, remote, entry) {
            Ok(ran) => return ran,
            Err(cancelled) => cancelled,
        };
    } else {
        entry = match entry.withdraw() {
            Ok(Withdrawn::Task(withdrawn)) => {
                shared.give_places_back(1);
                shared.count(remote, |counts| counts.finished.add(1));
                return clear_away(shared, withdrawn);
            }
            Ok(Withdrawn::Sleeper(_)) => unreachable!("a periodic timeout"),
            Err(cancelled) => cancelled,
        };
    }
    // A cancel was first, and has taken the task.
    shared.let_go(entry);
    Ok(())
}

/// Ends the timeout after its last run.
fn end(shared: &SharedRef, running: Running, task: Task) -> Ran {
    let (was_wanted, entry) = running.end();
    if was_wanted {
        shared.count(remote_of(&entry, shared), |counts| counts.finished.add(1));
        shared.give_places_back(1);
    }
    shared.let_go(entry);
    catch_unwind(AssertUnwindSafe(|| drop(task)))
}
