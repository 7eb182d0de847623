//! Handles without checks: the engine's handle is the pointer.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::Timeout;
use crate::status::Status;

#[inline]
pub(crate) fn hand_out(timeout: tourbillon::Timeout) -> *mut Timeout {
    timeout.into_raw().as_ptr().cast()
}

/// # Safety
/// The handle is null, or comes from [`hand_out`] and was not released.
#[inline]
unsafe fn made_again(handle: *const Timeout) -> Result<tourbillon::Timeout, Status> {
    let raw = NonNull::new(handle.cast_mut().cast()).ok_or(Status::InvalidArgument)?;
    // SAFETY: `hand_out` took it from `into_raw`. By this function's contract it was not released,
    // and the callers below drop it only for a release.
    Ok(unsafe { tourbillon::Timeout::from_raw(raw) })
}

/// Calls `work` with the timeout of a handle. `call` is for a message that only checks can give.
///
/// # Safety
/// The handle is null, or comes from [`hand_out`], was not released, and is not released meanwhile.
#[inline]
pub(crate) unsafe fn with<R>(
    handle: *const Timeout,
    _call: &str,
    work: impl FnOnce(&tourbillon::Timeout) -> R,
) -> Result<R, Status> {
    // SAFETY: the caller's contract.
    Ok(work(&ManuallyDrop::new(unsafe { made_again(handle) }?)))
}

/// Cancels a timeout, and gives its handle up. Returns whether it was pending.
///
/// # Safety
/// As for [`with`]. Nothing uses the handle from here on.
#[inline]
pub(crate) unsafe fn cancel_and_release(handle: *mut Timeout, _call: &str) -> Result<bool, Status> {
    // SAFETY: the caller's contract.
    Ok(unsafe { made_again(handle) }?.cancel_owned())
}

/// Gives a handle up.
///
/// # Safety
/// As for [`with`]. Nothing uses the handle from here on.
#[inline]
pub(crate) unsafe fn release(handle: *mut Timeout, _call: &str) -> Result<(), Status> {
    // SAFETY: the caller's contract.
    drop(unsafe { made_again(handle) }?);
    Ok(())
}

/// Calls `work` with the timeouts of some handles at a time, until all have had their turn or one
/// of them is null.
///
/// # Safety
/// As for [`with`], for each handle.
pub(crate) unsafe fn with_many(
    handles: &[*mut Timeout],
    _call: &str,
    mut work: impl FnMut(&mut dyn Iterator<Item = &tourbillon::Timeout>),
) -> Result<(), Status> {
    const SOME: usize = 64;
    for some in handles.chunks(SOME) {
        let mut timeouts = [const { None }; SOME];
        for (timeout, &handle) in timeouts.iter_mut().zip(some) {
            // SAFETY: the caller's contract.
            *timeout = Some(ManuallyDrop::new(unsafe { made_again(handle) }?));
        }
        work(&mut timeouts.iter().flatten().map(|timeout| &**timeout));
    }
    Ok(())
}
