//! What the user's code panics with.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls the user's code, for whom nobody is there to be told of a panic: none then.
#[inline]
pub(crate) fn contain<R>(work: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(work)).map_err(discard).ok()
}

/// Drops what something panicked with. Should that panic, too, what it panics with is leaked: somewhere it has to end.
#[cold]
pub(crate) fn discard(panic: Box<dyn Any + Send>) {
    catch_unwind(AssertUnwindSafe(move || drop(panic))).unwrap_or_else(std::mem::forget);
}
