//! Panics of user code.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The payload of a task's panic.
pub(crate) type Panic = Box<dyn Any + Send>;

/// The panic of a task, if it panicked.
pub(crate) type Ran = Result<(), Panic>;

/// Runs user code, and drops the panic if there is one. Returns `None` if it panicked.
#[inline]
pub(crate) fn catch<R>(work: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(work)).map_err(discard).ok()
}

/// A user value whose destructor may panic. The panic is caught and dropped. Each such value needs
/// a wrapper of its own, because a second panic during the first one's unwinding would abort the
/// process.
#[derive(Clone)]
pub(crate) struct CatchUnwind<T>(Option<T>);

impl<T> CatchUnwind<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

/// User code is shown only as being there.
impl<T> fmt::Debug for CatchUnwind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl<T> Deref for CatchUnwind<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("only the destructor takes it")
    }
}

impl<T> Drop for CatchUnwind<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        catch(|| drop(value));
    }
}

/// Drops a panic's payload. If the payload's destructor panics too, leaks that second payload, so
/// that there is no endless chain of drops.
#[cold]
pub(crate) fn discard(panic: Box<dyn Any + Send>) {
    catch_unwind(AssertUnwindSafe(move || drop(panic))).unwrap_or_else(std::mem::forget);
}
