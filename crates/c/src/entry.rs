//! The border: no panic crosses it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::Status;

/// Runs the body of a function that C calls. A panic becomes [`Status::Panicked`].
#[inline]
pub(crate) fn enter(body: impl FnOnce() -> Result<(), Status>) -> Status {
    enter_or(Status::Panicked, || body().err().unwrap_or(Status::Ok))
}

/// Runs the body of a function that C calls, and returns `panicked` if it panics.
#[inline]
pub(crate) fn enter_or<R>(panicked: R, body: impl FnOnce() -> R) -> R {
    // The engine's types may be used after a panic, and so may those of this crate: none keeps a
    // lock or a half-made change across a call of user code.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => {
            // A destructor of the payload may panic, too. That second payload is leaked.
            catch_unwind(AssertUnwindSafe(move || drop(panic))).unwrap_or_else(std::mem::forget);
            panicked
        }
    }
}

/// Borrows what a C caller points to. Fails if the pointer is null.
///
/// # Safety
/// A pointer that is not null points to a `T` that lives, and that nobody borrows mutably, for
/// `'a`.
#[inline]
pub(crate) unsafe fn borrow<'a, T>(pointer: *const T) -> Result<&'a T, Status> {
    // SAFETY: the caller's contract.
    unsafe { pointer.as_ref() }.ok_or(Status::InvalidArgument)
}

/// Moves a value to where a C caller wants it. Fails if the pointer is null.
///
/// # Safety
/// A pointer that is not null may be written to.
#[inline]
pub(crate) unsafe fn give<T>(to: *mut T, value: T) -> Result<(), Status> {
    if to.is_null() {
        return Err(Status::InvalidArgument);
    }
    // SAFETY: the caller's contract.
    unsafe { to.write(value) };
    Ok(())
}
