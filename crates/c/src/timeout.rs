//! The calls of C on a handle.

use crate::clock::{TOURBILLON_NEVER, delay, ns};
use crate::entry::{borrow, enter, enter_or, give};
use crate::handle::{self, Timeout};
use crate::status::Status;
use crate::timer::Timer;

fn if_pending(was_pending: bool) -> Result<(), Status> {
    if was_pending { Ok(()) } else { Err(Status::NotPending) }
}

/// Moves a timeout to `delay_ns` nanoseconds from now, later or earlier.
///
/// Returns `TOURBILLON_STATUS_OK` if it is still pending: it does not fire before the new time.
/// Returns `TOURBILLON_STATUS_NOT_PENDING` if it has fired, is about to, or was cancelled; nothing
/// was changed then. So a server that resets an idle timeout has to look at the answer: the
/// callback is closing the connection, or is about to.
///
/// A reset takes no lock, does not wait, and does not allocate. One to a later time tells nobody.
/// One to an earlier time tells the worker. Any thread may call it, and callbacks may. The handle
/// stays valid. Among others of its new deadline the timeout runs anywhere.
///
/// # Safety
/// `timeout` is null, or a handle that was not released and is not released meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_reset(timeout: *const Timeout, delay_ns: u64) -> Status {
    enter(|| {
        // SAFETY: the caller's contract.
        unsafe { handle::with(timeout, "tourbillon_reset", |timeout| timeout.reset(delay(delay_ns))) }
            .and_then(if_pending)
    })
}

/// Moves a timeout to the time `deadline_ns` of `tourbillon_now_ns`.
///
/// If that time has passed, it fires at once. Otherwise this is `tourbillon_reset`. An event loop
/// that has read the time once for this round saves the reading.
///
/// # Safety
/// `timer` is the engine that the timeout was scheduled on, or null, and is not freed. Otherwise as
/// for `tourbillon_reset`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_reset_at(timer: *const Timer, timeout: *const Timeout, deadline_ns: u64) -> Status {
    enter(|| {
        // SAFETY: the caller's contract.
        let deadline = unsafe { borrow(timer) }?.epoch.instant(deadline_ns);
        let reset = |timeout: &tourbillon::Timeout| match deadline {
            Some(deadline) => timeout.reset_at(deadline),
            None => timeout.reset(delay(TOURBILLON_NEVER)),
        };
        // SAFETY: the caller's contract.
        unsafe { handle::with(timeout, "tourbillon_reset_at", reset) }.and_then(if_pending)
    })
}

/// Moves `count` timeouts to `delay_ns` nanoseconds from now, and writes to `pending` how many were
/// still pending, if it is not null. Each is reset as by `tourbillon_reset`.
///
/// For an event loop that has read from many connections in one round. The clock is read once for
/// each 64 of them, and the memory of the next ones is fetched while one is reset, which makes this
/// several times faster than single resets if there are too many timeouts for the cache. If
/// `pending` is less than `count`, `tourbillon_is_pending` says which of them have ended.
///
/// Returns `TOURBILLON_STATUS_INVALID_ARGUMENT` if `timer` or a handle is null. Timeouts before
/// that handle may be reset by then.
///
/// # Safety
/// `timer` is the engine of the timeouts, or null, and is not freed. `timeouts` points to `count`
/// handles, each as for `tourbillon_reset`. `pending` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_reset_many(
    timer: *const Timer,
    timeouts: *const *mut Timeout,
    count: usize,
    delay_ns: u64,
    pending: *mut usize,
) -> Status {
    enter(|| {
        // SAFETY: the caller's contract.
        let timer = unsafe { borrow(timer) }?;
        let handles = match count {
            0 => &[],
            _ if timeouts.is_null() => return Err(Status::InvalidArgument),
            // SAFETY: the caller's contract.
            _ => unsafe { std::slice::from_raw_parts(timeouts, count) },
        };
        let mut moved = 0;
        let reset = |some: &mut dyn Iterator<Item = &tourbillon::Timeout>| {
            moved += timer.engine.reset_many(some, delay(delay_ns));
        };
        // SAFETY: the caller's contract.
        unsafe { handle::with_many(handles, "tourbillon_reset_many", reset) }?;
        // SAFETY: the caller's contract. A null pointer is fine here.
        let _ = unsafe { give(pending, moved) };
        Ok(())
    })
}

/// Cancels a timeout. The handle stays valid, and has to be released all the same.
///
/// Returns `TOURBILLON_STATUS_OK` if it was pending: its callback has not run and never will, and
/// this call has called its destructor. Returns `TOURBILLON_STATUS_NOT_PENDING` if the callback has
/// begun or has run, or the timeout has ended otherwise. The call does not wait for a callback that
/// runs. For a periodic timeout, no run begins after it; a run that is under way goes on, and its
/// end calls the destructor.
///
/// Returns `TOURBILLON_STATUS_PANICKED` if the destructor panics. The timeout is cancelled all the
/// same. Any thread may call it, and callbacks may.
///
/// # Safety
/// As for `tourbillon_reset`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_cancel(timeout: *const Timeout) -> Status {
    // SAFETY: the caller's contract.
    enter(|| unsafe { handle::with(timeout, "tourbillon_cancel", tourbillon::Timeout::cancel) }.and_then(if_pending))
}

/// Cancels a timeout as `tourbillon_cancel` does, and releases its handle, whatever it returns.
///
/// This is the cheapest way to end a timeout soon after it was scheduled: one compare-and-swap, as
/// a rule.
///
/// # Safety
/// As for `tourbillon_release`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_cancel_and_release(timeout: *mut Timeout) -> Status {
    // SAFETY: the caller's contract.
    enter(|| unsafe { handle::cancel_and_release(timeout, "tourbillon_cancel_and_release") }.and_then(if_pending))
}

/// Releases a handle. The timeout goes on: if it is pending it still fires. Does nothing if
/// `timeout` is null.
///
/// A callback may release the handle of its own timeout. Any thread may call this.
///
/// # Safety
/// `timeout` is null, or a handle that was not released. Nothing uses it from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_release(timeout: *mut Timeout) -> Status {
    enter(|| {
        if timeout.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's contract.
        unsafe { handle::release(timeout, "tourbillon_release") }
    })
}

/// Returns whether a timeout is pending: it has neither fired for good nor ended otherwise. Returns
/// false if `timeout` is null. Any thread may call this; it does not block.
///
/// # Safety
/// As for `tourbillon_reset`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_is_pending(timeout: *const Timeout) -> bool {
    let is_pending = |timeout: &tourbillon::Timeout| timeout.is_pending();
    // SAFETY: the caller's contract.
    enter_or(false, || unsafe { handle::with(timeout, "tourbillon_is_pending", is_pending) }.unwrap_or(false))
}

/// Returns in how many nanoseconds a timeout is due: 0 if it is due, not pending, or null, and
/// `TOURBILLON_NEVER` if never. It may be more than the delay that was asked for, by up to a part
/// of a tick and some 20 us, because a deadline is rounded up. Any thread may call this; it reads
/// the clock.
///
/// # Safety
/// As for `tourbillon_reset`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_remaining_ns(timeout: *const Timeout) -> u64 {
    let remaining = |timeout: &tourbillon::Timeout| ns(timeout.remaining());
    // SAFETY: the caller's contract.
    enter_or(0, || unsafe { handle::with(timeout, "tourbillon_remaining_ns", remaining) }.unwrap_or(0))
}
