//! Handles with checks: numbers, and a table of those that were not released.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use super::Timeout;
use crate::status::Status;

/// The handles that were not released.
#[derive(Default)]
struct Table {
    live: HashMap<usize, Arc<tourbillon::Timeout>>,
    handed_out: usize,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// No user code runs under the lock, so a panic leaves nothing half done.
fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn hand_out(timeout: tourbillon::Timeout) -> *mut Timeout {
    let mut table = table();
    table.handed_out += 1;
    let number = table.handed_out;
    table.live.insert(number, Arc::new(timeout));
    ptr::without_provenance_mut(number)
}

fn checked<T>(handle: *const Timeout, call: &str, found: Option<T>) -> Result<T, Status> {
    match found {
        Some(found) => Ok(found),
        None if handle.is_null() => Err(Status::InvalidArgument),
        None => {
            // If this can't be written it panics, and there is nobody to tell.
            let tell = || eprintln!("tourbillon: {call} was given a handle that was released before: {handle:p}");
            let _ = catch_unwind(AssertUnwindSafe(tell));
            Err(Status::Released)
        }
    }
}

fn take(handle: *mut Timeout, call: &str) -> Result<Arc<tourbillon::Timeout>, Status> {
    let found = table().live.remove(&handle.addr());
    checked(handle, call, found)
}

/// Calls `work` with the timeout of a handle. `call` is what the caller called.
///
/// # Safety
/// None. It is unsafe because it is so without checks.
pub(crate) unsafe fn with<R>(
    handle: *const Timeout,
    call: &str,
    work: impl FnOnce(&tourbillon::Timeout) -> R,
) -> Result<R, Status> {
    // `work` runs without the lock, because it may call user code.
    let found = table().live.get(&handle.addr()).cloned();
    checked(handle, call, found).map(|timeout| work(&timeout))
}

/// Cancels a timeout, and gives its handle up. Returns whether it was pending.
///
/// # Safety
/// As for [`with`].
pub(crate) unsafe fn cancel_and_release(handle: *mut Timeout, call: &str) -> Result<bool, Status> {
    // Another thread that uses the handle at this moment holds it, too.
    match Arc::try_unwrap(take(handle, call)?) {
        Ok(timeout) => Ok(timeout.cancel_owned()),
        Err(shared) => Ok(shared.cancel()),
    }
}

/// Gives a handle up.
///
/// # Safety
/// As for [`with`].
pub(crate) unsafe fn release(handle: *mut Timeout, call: &str) -> Result<(), Status> {
    take(handle, call).map(drop)
}

/// Calls `work` with the timeouts of all handles, if none is null or was released.
///
/// # Safety
/// As for [`with`].
pub(crate) unsafe fn with_many(
    handles: &[*mut Timeout],
    call: &str,
    mut work: impl FnMut(&mut dyn Iterator<Item = &tourbillon::Timeout>),
) -> Result<(), Status> {
    let find = |handle: &*mut Timeout| {
        let found = table().live.get(&handle.addr()).cloned();
        checked(*handle, call, found)
    };
    let timeouts = handles.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    work(&mut timeouts.iter().map(|timeout| &**timeout));
    Ok(())
}
