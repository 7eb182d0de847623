//! Whose tasks a thread is running.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::engine::{Due, Shared};
#[cfg(loom)]
use crate::sync::LocalCell;

/// Runs what is due in a turn, each timeout as soon as it is claimed, on the thread that turns the
/// shard.
pub(crate) fn run_in_turn(due: &mut Due<'_>) {
    run_as(due.shared().id(), || due.run());
}

/// Calls a hook as if it were a task: its panics are reported, and a shutdown that it asks for is
/// refused.
pub(crate) fn call_hook(shared: &Shared, hook: impl FnOnce()) {
    let told = run_as(shared.id(), || catch_unwind(AssertUnwindSafe(hook)));
    told.unwrap_or_else(|panic| shared.report(panic));
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
pub(crate) fn is_running_a_task_of(engine: u64) -> bool {
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
        run_as(9, || assert_eq!([7, 8, 9].map(is_running_a_task_of), [false, false, true]));
    }
}
