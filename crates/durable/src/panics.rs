//! Drops values that the user's code has left behind.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Drops a value of the user's. The drop may panic, and so may that of the panic's payload.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value)))
        && let Err(next) = catch_unwind(AssertUnwindSafe(|| drop(payload)))
    {
        std::mem::forget(next);
    }
}
