//! The end of an engine that hands its timeouts back.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tourbillon::Shutdown;

use crate::clock::delay;
use crate::entry::{borrow, enter};
use crate::status::Status;
use crate::task::{Call, Callback, drop_handing_back};
use crate::timer::Timer;

/// Takes a timeout that a shutdown hands back unfired: your `context`, and the timeout's `callback`
/// and `data`, which is yours again. `deadline_ns` is when it would have fired, as
/// `tourbillon_now_ns` counts. For one that never fires it is far away, and need not be
/// `TOURBILLON_NEVER`. It must not use the engine.
pub type OnUnfired =
    Option<unsafe extern "C-unwind" fn(context: *mut c_void, callback: Callback, data: *mut c_void, deadline_ns: u64)>;

/// # Safety
/// As for [`tourbillon_shutdown`].
unsafe fn shut_down(timer: *const Timer, how: Shutdown, on_unfired: OnUnfired, context: *mut c_void) -> Status {
    enter(|| {
        // SAFETY: the caller's contract.
        let timer = unsafe { borrow(timer) }?;
        // A callback that this waits for, or calls, may free the timer.
        let (engine, epoch) = (timer.engine.clone(), timer.epoch);
        let mut panic = None;
        for unfired in engine.shutdown_with(how)? {
            let deadline_ns = epoch.ns_until(unfired.deadline());
            let hand_back = || match on_unfired {
                None => drop(unfired),
                Some(on_unfired) => drop_handing_back(unfired, &mut |callback: Call, data| {
                    // SAFETY: the caller's contract.
                    unsafe { on_unfired(context, Some(callback), data, deadline_ns) }
                }),
            };
            // A panic for one of them does not cost the others their answer.
            panic = catch_unwind(AssertUnwindSafe(hand_back)).err().or(panic);
        }
        panic.map_or(Ok(()), |panic| resume_unwind(panic))
    })
}

/// Shuts an engine down, and calls `on_unfired` on this thread for each timeout that was pending.
///
/// From then on the engine refuses timeouts. The call waits for the callbacks that run; no other
/// callback of the engine runs after it, unless a callback of another engine has called it: then
/// those that were due and waited for a thread may still run. If `on_unfired` is null, the
/// destructors of the timeouts are called instead. Handles stay valid until they are released, and
/// the engine has to be freed all the same.
///
/// Returns `TOURBILLON_STATUS_SHUTDOWN` if the engine was shut down before,
/// `TOURBILLON_STATUS_FROM_CALLBACK` if one of its callbacks calls this,
/// `TOURBILLON_STATUS_FORKED` in a forked child, and `TOURBILLON_STATUS_OUT_OF_MEMORY` if there is
/// no memory for the list of timeouts: then call it again.
///
/// # Safety
/// `timer` is null or comes from this library, and is not freed. `on_unfired` is null or may be
/// called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_shutdown(
    timer: *const Timer,
    on_unfired: OnUnfired,
    context: *mut c_void,
) -> Status {
    // SAFETY: the caller's contract.
    unsafe { shut_down(timer, Shutdown::Cancel, on_unfired, context) }
}

/// Shuts an engine down as `tourbillon_shutdown` does, but runs the pending timeouts now, whatever
/// their deadlines.
///
/// # Safety
/// As for `tourbillon_shutdown`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_shutdown_fire_now(timer: *const Timer) -> Status {
    // SAFETY: the caller's contract.
    unsafe { shut_down(timer, Shutdown::FireNow, None, std::ptr::null_mut()) }
}

/// Shuts an engine down as `tourbillon_shutdown` does, but goes on for `at_most_ns` before that, as
/// long as something is pending that will be due. A driven engine does not wait.
///
/// # Safety
/// As for `tourbillon_shutdown`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_shutdown_drain(
    timer: *const Timer,
    at_most_ns: u64,
    on_unfired: OnUnfired,
    context: *mut c_void,
) -> Status {
    // SAFETY: the caller's contract.
    unsafe { shut_down(timer, Shutdown::Drain(delay(at_most_ns)), on_unfired, context) }
}
