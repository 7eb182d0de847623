//! How C schedules.

use std::ffi::c_void;
use std::time::Duration;

use tourbillon::ScheduleError;

use crate::clock::delay;
use crate::entry::{borrow, enter};
use crate::handle::{Timeout, hand_out};
use crate::status::Status;
use crate::task::{Callback, Task};
use crate::timer::Timer;

/// The task stays the caller's.
fn refused<F>(error: ScheduleError<F>) -> Status {
    let status = error.kind().into();
    std::mem::forget(error.into_inner());
    status
}

/// Schedules by `arm`, and hands the handle out, or drops it if the caller wants none. `arm` makes
/// no handle if it can do without.
///
/// # Safety
/// As for [`tourbillon_schedule`].
#[inline]
unsafe fn schedule(
    timer: *const Timer,
    callback: Callback,
    data: *mut c_void,
    destructor: Callback,
    timeout: *mut *mut Timeout,
    arm: impl FnOnce(&Timer, Task) -> Result<Option<tourbillon::Timeout>, Status>,
) -> Status {
    enter(|| {
        let callback = callback.ok_or(Status::InvalidArgument)?;
        // SAFETY: the caller's contract.
        let timer = unsafe { borrow(timer) }?;
        // SAFETY: the caller's contract.
        let task = unsafe { Task::new(callback, data, destructor) };
        if let Some(handle) = arm(timer, task)?
            && !timeout.is_null()
        {
            // SAFETY: the caller's contract.
            unsafe { timeout.write(hand_out(handle)) };
        }
        Ok(())
    })
}

/// Calls `callback` once with `data`, in `delay_ns` nanoseconds, and never before that.
///
/// A delay of zero calls it at once, and `TOURBILLON_NEVER` never. In an engine with threads it
/// runs on one of them, perhaps before this call returns. In a driven engine it runs in
/// `tourbillon_turn`.
///
/// When the callback runs, `data` is its own. If the timeout ends otherwise, by a cancel or with
/// its engine, the engine calls `destructor` with `data`; `destructor` may be null. If this call
/// fails, `data` stays the caller's, and neither is called.
///
/// The handle is written to `timeout`. If that is null the timeout has no handle, which costs less:
/// nobody can reset or cancel it. In an engine with threads the callback may run before the handle
/// is written, so a callback that uses its own handle has to wait for that.
///
/// The call takes no lock. It may allocate, and may wait for a worker that has fallen far behind,
/// for `max_wait_ns` at most. Any thread may call it, and callbacks may.
///
/// Returns `TOURBILLON_STATUS_FULL`, `TOURBILLON_STATUS_SHUTDOWN`, `TOURBILLON_STATUS_FORKED`,
/// `TOURBILLON_STATUS_OUT_OF_MEMORY`, or `TOURBILLON_STATUS_INVALID_ARGUMENT` if `timer` or
/// `callback` is null.
///
/// # Safety
/// `timer` is null or comes from this library, and is not freed. `timeout` is null or may be
/// written to. Any thread may call `callback` or `destructor` with `data`; in a driven engine, only
/// the threads that turn, cancel, free and shut down.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_schedule(
    timer: *const Timer,
    delay_ns: u64,
    callback: Callback,
    data: *mut c_void,
    destructor: Callback,
    timeout: *mut *mut Timeout,
) -> Status {
    let arm = |timer: &Timer, task: Task| {
        let (delay, run) = (delay(delay_ns), move || task.run());
        if timeout.is_null() {
            return timer.engine.schedule_detached(delay, run).map(|()| None).map_err(refused);
        }
        timer.engine.schedule(delay, run).map(Some).map_err(refused)
    };
    // SAFETY: the caller's contract.
    unsafe { schedule(timer, callback, data, destructor, timeout, arm) }
}

/// Calls `callback` once with `data`, at the time `deadline_ns` of `tourbillon_now_ns`.
///
/// If that time has passed, it runs at once. Otherwise this is `tourbillon_schedule`.
///
/// # Safety
/// As for `tourbillon_schedule`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_schedule_at(
    timer: *const Timer,
    deadline_ns: u64,
    callback: Callback,
    data: *mut c_void,
    destructor: Callback,
    timeout: *mut *mut Timeout,
) -> Status {
    let arm = |timer: &Timer, task: Task| {
        let run = move || task.run();
        let scheduled = match timer.epoch.instant(deadline_ns) {
            Some(deadline) => timer.engine.schedule_at(deadline, run),
            None => timer.engine.schedule(Duration::MAX, run),
        };
        scheduled.map(Some).map_err(refused)
    };
    // SAFETY: the caller's contract.
    unsafe { schedule(timer, callback, data, destructor, timeout, arm) }
}

/// Calls `callback` with `data` again and again: first in `initial_ns` nanoseconds, and then each
/// `period_ns`.
///
/// Runs never overlap. The rate does not drift, and runs that are missed are skipped. A callback
/// may cancel its own timeout. A panic of a callback ends it. `data` stays the engine's until the
/// timeout has ended, in whatever way; then it calls `destructor`. Otherwise this is
/// `tourbillon_schedule`.
///
/// Returns also `TOURBILLON_STATUS_ZERO_PERIOD`.
///
/// # Safety
/// As for `tourbillon_schedule`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_schedule_every(
    timer: *const Timer,
    initial_ns: u64,
    period_ns: u64,
    callback: Callback,
    data: *mut c_void,
    destructor: Callback,
    timeout: *mut *mut Timeout,
) -> Status {
    let arm = |timer: &Timer, task: Task| {
        let call = move || task.call();
        let scheduled = timer.engine.schedule_at_fixed_rate(delay(initial_ns), delay(period_ns), call);
        scheduled.map(Some).map_err(refused)
    };
    // SAFETY: the caller's contract.
    unsafe { schedule(timer, callback, data, destructor, timeout, arm) }
}
