//! What the user's code panics with.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls the user's code, for whom nobody is there to be told of a panic: none then.
#[inline]
pub(crate) fn catch<R>(work: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(work)).map_err(discard).ok()
}

/// A value of the user's, whose destructor may panic: nobody is told of that. Each by itself: two that panic at once would end
/// the process.
#[derive(Clone, Default)]
pub(crate) struct CatchUnwind<T>(ManuallyDrop<T>);

impl<T> CatchUnwind<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T> Deref for CatchUnwind<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for CatchUnwind<T> {
    fn drop(&mut self) {
        // SAFETY: dropped here once, and not used again.
        catch(|| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}

/// Drops what something panicked with. Should that panic, too, what it panics with is leaked: somewhere it has to end.
#[cold]
pub(crate) fn discard(panic: Box<dyn Any + Send>) {
    catch_unwind(AssertUnwindSafe(move || drop(panic))).unwrap_or_else(std::mem::forget);
}
