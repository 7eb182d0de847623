//! The border: no panic crosses it, and no `pthread_cancel` takes effect behind it.

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
    let _again = cancellation::Disabled::here();
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

/// A thread that is cancelled ends by unwinding, which must not meet code of Rust.
#[cfg(target_os = "linux")]
mod cancellation {
    use std::ffi::c_int;
    use std::ptr;

    // The crate libc lacks it.
    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
    const PTHREAD_CANCEL_DISABLE: c_int = 1;

    /// While this value lives, the calling thread is not cancelled.
    pub(super) struct Disabled {
        before: c_int,
    }

    impl Disabled {
        #[inline]
        pub(super) fn here() -> Self {
            let mut before = PTHREAD_CANCEL_DISABLE;
            // SAFETY: the call writes the state from before, and changes nothing else.
            unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
            Self { before }
        }
    }

    impl Drop for Disabled {
        #[inline]
        fn drop(&mut self) {
            // SAFETY: it is the state from before. The call is no cancellation point.
            unsafe { pthread_setcancelstate(self.before, ptr::null_mut()) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod cancellation {
    pub(super) struct Disabled;

    impl Disabled {
        pub(super) fn here() -> Self {
            Self
        }
    }
}
