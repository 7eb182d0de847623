//! The runs of tasks, one after the other: whose they are, and what becomes of their panics.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::count::{Recorder, Running, TASKS_A_LOOK};
use crate::engine::{Due, PeriodicRun, Run, Shared, SharedRef, tell_panic};
use crate::entry::TaskInPlace;
use crate::panics::Panic;
#[cfg(loom)]
use crate::sync::LocalCell;
use crate::sync::Ordering;
use crate::time::Subtick;

/// Runs what is due in a turn, each timeout as soon as it is claimed, on the thread that turns the
/// shard.
pub(crate) fn run_in_turn(due: &mut Due<'_>) {
    let shared = due.shared();
    run_as(shared.id(), || due.run(&mut Runs::begin(shared, due.shard())));
}

/// The runs of one thread, one after the other: shows the watchdog what is running, and records how
/// late each task begins.
pub(super) struct Runs<'a> {
    shared: &'a SharedRef,
    shard: usize,
    /// How many have ended.
    completed: u64,
    lateness: Recorder<'a>,
    /// What the thread was running before, for `running`: a task may run a batch.
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
    pub(super) fn begin(shared: &'a SharedRef, shard: usize) -> Self {
        let running = shared.running_here().map(|running| (running, running.before()));
        if let Some((running, _)) = running {
            running.begin(shard);
        }
        let lateness = Recorder::new(&shared.remote(shard).lateness);
        Self { shared, shard, completed: 0, lateness, running, until_look: 0, now_ns: 0, recorded: NOT_RECORDED }
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
}

impl Run for Runs<'_> {
    #[inline(always)]
    fn once(&mut self, deadline: Option<Subtick>, task: TaskInPlace<'_>) {
        self.look();
        if let Some(deadline) = deadline {
            self.record(deadline);
            self.completed += 1;
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task.run())) {
            self.report(panic);
        }
    }

    fn periodic(&mut self, run: PeriodicRun) {
        self.look();
        self.record(run.deadline);
        self.completed += 1;
        if let Err(panic) = run.run(self.shared) {
            self.report(panic);
        }
    }

    #[cold]
    fn report(&mut self, panic: Panic) {
        report(self.shared, panic);
    }
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        if let Some((running, before)) = self.running {
            running.restore(before);
        }
        if self.completed > 0 {
            self.shared.count(self.shared.remote(self.shard), |counts| counts.completed.add(self.completed));
        }
    }
}

/// Counts a panic, and reports it to the user.
#[cold]
pub(crate) fn report(shared: &Shared, panic: Panic) {
    shared.panicked.fetch_add(1, Ordering::Relaxed);
    tell_panic(shared.on_panic.as_ref(), panic);
}

/// Calls a hook as if it were a task: its panics are reported, and a shutdown that it asks for is
/// refused.
pub(crate) fn call_hook(shared: &Shared, hook: impl FnOnce()) {
    let told = run_as(shared.id(), || catch_unwind(AssertUnwindSafe(hook)));
    told.unwrap_or_else(|panic| report(shared, panic));
}

/// An engine whose task a thread is running. `outer` is what the thread was running before: a task
/// may turn another engine.
struct Frame {
    engine: u64,
    outer: *const Frame,
}

#[cfg(not(loom))]
thread_local! {
    /// The innermost engine; null if the thread runs no task.
    static RUNNING: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}
// A model runs all its threads on one thread of the system, so std's macro would give them one
// variable.
#[cfg(loom)]
loom::thread_local! {
    static RUNNING: Cell<*const Frame> = Cell::new(ptr::null());
}

/// Runs `work` as a part of the engine.
pub(crate) fn run_as<R>(engine: u64, work: impl FnOnce() -> R) -> R {
    /// Takes the frame out of the list, also if `work` panics.
    struct Leave(*const Frame);
    impl Drop for Leave {
        fn drop(&mut self) {
            RUNNING.set(self.0);
        }
    }
    let outer = RUNNING.get();
    let this = Frame { engine, outer };
    RUNNING.set(&this);
    let _leave = Leave(outer);
    work()
}

/// Returns whether the calling thread is running a task of this engine.
pub(crate) fn is_running_a_task_of(shared: &Shared) -> bool {
    is_running(shared.id())
}

fn is_running(engine: u64) -> bool {
    let mut next = RUNNING.get();
    // SAFETY: `run_as` keeps each `Frame` on the stack of this thread for as long as it is in the
    // list. Its guard takes the frame out before that, also if the work panics.
    while let Some(this) = unsafe { next.as_ref() } {
        if this.engine == engine {
            return true;
        }
        next = this.outer;
    }
    false
}

/// Returns whether the calling thread is running a task of any engine.
pub(crate) fn is_running_a_task() -> bool {
    !RUNNING.get().is_null()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn work_that_panics_is_not_running_any_more() {
        let panicked = catch_unwind(AssertUnwindSafe(|| run_as(7, || run_as(8, || panic!("on purpose")))));
        assert!(panicked.is_err() && !is_running_a_task());
        run_as(9, || assert_eq!([7, 8, 9].map(is_running), [false, false, true]));
    }
}
