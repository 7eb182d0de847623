//! The runs of tasks, one after the other, on one thread. A run of a periodic timeout pushes its
//! entry to the inbox again, for the next one: see `shard/README.md`, section 6.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::lifetime::SharedRef;
use super::unfired::{clear_away, take_out};
use crate::count::{Counts, Recorder, Running, TASKS_A_LOOK};
use crate::entry::{self, TaskInPlace};
use crate::panics::{self, Ran};
use crate::shard::Remote;
use crate::time::Subtick;

/// The runs of one thread, one after the other: shows the watchdog what is running, and records how
/// late each task begins.
pub(super) struct Runs<'a> {
    pub(super) shared: &'a SharedRef,
    pub(super) remote: &'a Remote,
    /// The thread's counts for the shard, if it has a state of its own.
    counts: Option<&'a Counts>,
    /// How many have ended.
    completed: u64,
    lateness: Recorder<'a>,
    /// The thread's `running`, and its values of before, to be restored: a task may run a batch.
    running: Option<(&'a Running, (u64, u64))>,
    /// How many tasks run before the next look at the clock.
    until_look: usize,
    now_ns: u64,
    /// The deadline that was recorded last. The timeouts of a burst may have one.
    /// [`NOT_RECORDED`] if the clock has been read since.
    recorded: u64,
}

/// No deadline: a [`Subtick`] has fewer bits.
const NOT_RECORDED: u64 = u64::MAX;

impl<'a> Runs<'a> {
    pub(super) fn begin(shared: &'a SharedRef, remote: &'a Remote) -> Self {
        let mine = shared.thread_state();
        Self {
            shared,
            remote,
            counts: mine.map(|mine| shared.counts_of(mine, remote)),
            completed: 0,
            lateness: Recorder::new(&remote.lateness),
            running: mine.map(|mine| (&mine.state().running, mine.state().running.begin(remote.index()))),
            until_look: 0,
            now_ns: 0,
            recorded: NOT_RECORDED,
        }
    }

    /// Counts what the thread has done.
    #[inline]
    pub(super) fn count(&self, add: impl FnOnce(&Counts)) {
        match self.counts {
            Some(counts) => add(counts),
            None => self.shared.count(self.remote, add),
        }
    }

    /// Looks at the clock now and then.
    #[inline]
    fn look(&mut self) {
        self.until_look = self.until_look.checked_sub(1).unwrap_or_else(|| {
            self.look_now();
            TASKS_A_LOOK - 1
        });
    }

    #[inline(never)]
    fn look_now(&mut self) {
        if let Some(ns) = self.shared.timeline().try_now_ns() {
            self.now_ns = ns;
            self.recorded = NOT_RECORDED;
            self.running.inspect(|(running, _)| running.look(ns));
        }
    }

    #[inline]
    fn record(&mut self, deadline: Subtick) {
        if self.recorded == deadline.get() {
            return self.lateness.record_again();
        }
        // Timeouts that a shutdown fires before their deadline are not late, and not recorded.
        if let Some(late_ns) = self.now_ns.checked_sub(self.shared.timeline().scale().ns_of(deadline)) {
            self.lateness.record(late_ns);
            self.recorded = deadline.get();
        }
    }

    /// Runs the task of a timeout that runs once, or wakes a future. `deadline` is `None` if a
    /// shutdown ended the future's sleep.
    #[inline(always)]
    pub(super) fn once(&mut self, deadline: Option<Subtick>, task: TaskInPlace<'_>) {
        self.look();
        if let Some(deadline) = deadline {
            self.record(deadline);
            self.completed += 1;
        }
        self.report(catch_unwind(AssertUnwindSafe(|| task.run())));
    }

    pub(super) fn periodic(&mut self, deadline: Subtick, run: entry::Running) {
        self.look();
        self.record(deadline);
        self.completed += 1;
        self.report(self.shared.run_periodic(self.remote, deadline, run));
    }

    /// Reports the panic of a task that was run, or dropped unrun, if there is one.
    #[inline]
    pub(super) fn report(&self, ran: Ran) {
        ran.unwrap_or_else(|panic| self.shared.report(panic));
    }
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        if let Some((running, before)) = self.running {
            running.restore(before);
        }
        if self.completed > 0 {
            self.count(|counts| counts.completed.add(self.completed));
        }
    }
}

impl SharedRef {
    /// Runs the task of a periodic timeout whose run has begun, and arms the timeout for the next
    /// run. A panic ends the timeout, and is returned to the caller.
    // Out of line: most timeouts are not periodic, and the code that runs those is shorter without.
    #[inline(never)]
    pub(crate) fn run_periodic(&self, remote: &Remote, deadline: Subtick, run: entry::Running) -> Ran {
        assert!(self.has(&run) && remote.is_home_of(&run), "a timeout runs with its own engine and shard");
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
        // Only if need be: producers read this line.
        if next.is_overdue && self.overdue.get() == 0 {
            self.overdue.set(1);
        }
        let entry = match emptied.rearm(task, next.deadline) {
            Ok(entry) => entry,
            Err(cancelled) => return clear_away(self, cancelled),
        };
        // From here on it is the worker's.
        // SAFETY: `self` is a reference to the engine.
        let Err(entry) = (unsafe { remote.push_again(entry, self.timeline()) }) else { return Ok(()) };
        // The engine has been shut down, so the timeout ends.
        let Some(withdrawn) = take_out(self, entry) else { return Ok(()) };
        finish(self, remote);
        clear_away(self, withdrawn)
    }
}

/// Counts the end of a timeout that nobody has cancelled.
fn finish(shared: &SharedRef, remote: &Remote) {
    shared.count(remote, |counts| counts.finished.add(1));
    shared.give_places_back(1);
}
