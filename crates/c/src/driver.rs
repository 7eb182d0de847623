//! Engines without threads, which an event loop turns.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use crate::clock::{TOURBILLON_NEVER, ns};
use crate::entry::{borrow, enter, enter_or, give};
use crate::options::Options;
use crate::status::Status;
use crate::task::{Callback, Task};
use crate::timer::Timer;

/// Turns an engine that has no threads. One thread at a time may use it.
#[derive(Debug)]
pub struct Driver {
    /// Locked only by `try_lock`. A callback of a turn that uses the driver finds it locked, and so
    /// does a destructor that the end of the driver calls. Empty after an end that has panicked.
    driver: Mutex<Option<tourbillon::Driver>>,
}

impl Driver {
    fn try_lock(&self) -> Result<MutexGuard<'_, Option<tourbillon::Driver>>, Status> {
        match self.driver.try_lock() {
            Ok(driver) => Ok(driver),
            // The driver may be used after a panic.
            Err(TryLockError::Poisoned(driver)) => Ok(driver.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Status::Busy),
        }
    }

    fn with<R>(&self, work: impl FnOnce(&mut tourbillon::Driver) -> R) -> Result<R, Status> {
        self.try_lock()?.as_mut().map(work).ok_or(Status::Shutdown)
    }

    /// Returns how long the loop may sleep, or `None` if nothing is pending. Zero during a turn.
    fn next_wakeup(&self) -> Option<Duration> {
        let at = |driver: &mut tourbillon::Driver| driver.next_wakeup();
        let left = |at: Instant| at.saturating_duration_since(Instant::now());
        self.with(at).map_or(Some(Duration::ZERO), |at| at.map(left))
    }
}

/// Makes an engine without threads, and writes it to `timer`, and its driver to `driver`.
///
/// Nothing happens by itself: timeouts fire only in `tourbillon_turn`, on the thread that calls it.
/// Free both in any order: when one is freed, the engine has ended, and pending timeouts are
/// dropped unrun. The errors are those of `tourbillon_timer_new`.
///
/// # Safety
/// `options` is null, or its `size` is set and its pointers are null or valid. `timer` and `driver`
/// may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_timer_new_driven(
    options: *const Options,
    timer: *mut *mut Timer,
    driver: *mut *mut Driver,
) -> Status {
    enter(|| {
        if timer.is_null() || driver.is_null() {
            return Err(Status::InvalidArgument);
        }
        // SAFETY: the caller's contract.
        let options = unsafe { Options::read(options) }?;
        // SAFETY: the caller's contract.
        let built = unsafe { options.builder(true) }?.build_driven();
        // SAFETY: the caller's contract.
        let (engine, turned) = built.map_err(|error| unsafe { options.refuse(&error) })?;
        let made = Box::new(Driver { driver: Mutex::new(Some(turned)) });
        let of_timer = Timer::boxed(engine);
        // SAFETY: neither is null, and the caller allows to write to both.
        unsafe {
            give(timer, Box::into_raw(of_timer))?;
            give(driver, Box::into_raw(made))
        }
    })
}

/// Runs all due timeouts on this thread, and writes how many to `fired`, which may be null.
///
/// A timeout that a callback schedules with no delay waits for the next turn. Returns
/// `TOURBILLON_STATUS_BUSY` if a callback calls this for its own driver.
///
/// # Safety
/// `driver` is null or comes from this library, and is not freed. `fired` is null or may be written
/// to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_turn(driver: *mut Driver, fired: *mut usize) -> Status {
    enter(|| {
        // SAFETY: the caller's contract.
        let driver = unsafe { borrow(driver) }?;
        let count = driver.with(tourbillon::Driver::turn)?;
        // SAFETY: the caller's contract. A null pointer is fine here.
        let _ = unsafe { give(fired, count) };
        Ok(())
    })
}

/// Returns in how many nanoseconds to call `tourbillon_turn` next: 0 if at once, and
/// `TOURBILLON_NEVER` if nothing is pending or `driver` is null. For `timerfd_settime`, `ppoll`,
/// `kevent` and the like.
///
/// The timeouts of a tick share a turn: the loop comes back when the last of them is due.
///
/// A cancel, or a reset to later, does not wake the loop: it wakes at the time that was returned,
/// and finds nothing to do.
///
/// Within a turn the answer is 0. Call it after each turn, before the loop sleeps: from then on the
/// callback of `tourbillon_on_earlier` tells of timeouts that are due before that.
///
/// # Safety
/// `driver` is null or comes from this library, and is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_next_wakeup_ns(driver: *const Driver) -> u64 {
    enter_or(0, || {
        // SAFETY: the caller's contract.
        let Ok(driver) = (unsafe { borrow(driver) }) else { return TOURBILLON_NEVER };
        driver.next_wakeup().map_or(TOURBILLON_NEVER, ns)
    })
}

/// Returns in how many milliseconds to call `tourbillon_turn` next, rounded up: the timeout of
/// `epoll_wait` and `poll`. It is -1, for ever, if nothing is pending or `driver` is null.
///
/// Otherwise it is `tourbillon_next_wakeup_ns`. It is rounded up so that the loop does not wake
/// before the time, find nothing to do, and spin.
///
/// # Safety
/// `driver` is null or comes from this library, and is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_next_wakeup_ms(driver: *const Driver) -> c_int {
    enter_or(0, || {
        // SAFETY: the caller's contract.
        let Ok(driver) = (unsafe { borrow(driver) }) else { return -1 };
        let Some(wait) = driver.next_wakeup() else { return -1 };
        c_int::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
    })
}

/// Sets a callback that wakes the loop: the engine calls it when another thread schedules a
/// timeout, or resets one, that is due before the time that `tourbillon_next_wakeup_ns` last
/// returned.
///
/// It runs on the thread that schedules, perhaps on several at a time, and perhaps without need. It
/// must not block, nor use the engine: let it write to an eventfd or a pipe. It replaces the
/// callback before. `destructor` may be null; it is called with `data` when the callback was
/// replaced, or the driver freed. Until then the callback may still run on another thread, also
/// after the call that replaces it or frees the driver has returned. If the call fails, `data`
/// stays the caller's.
///
/// Returns `TOURBILLON_STATUS_BUSY` if a callback calls this for its own driver.
///
/// # Safety
/// `driver` is null or comes from this library, and is not freed. Any thread, and several at a
/// time, may call `callback` with `data`, and any thread `destructor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_on_earlier(
    driver: *const Driver,
    callback: Callback,
    data: *mut c_void,
    destructor: Callback,
) -> Status {
    enter(|| {
        let callback = callback.ok_or(Status::InvalidArgument)?;
        // SAFETY: the caller's contract.
        let driver = unsafe { borrow(driver) }?;
        driver.with(|driver| {
            // SAFETY: the caller's contract.
            let task = unsafe { Task::new(callback, data, destructor) };
            driver.on_earlier(move || task.call());
        })
    })
}

/// Frees a driver, which ends its engine. Does nothing if `driver` is null.
///
/// Pending timeouts are dropped unrun, which calls their destructors on this thread. New timeouts
/// are refused. Returns `TOURBILLON_STATUS_BUSY`, and frees nothing, if a callback, or a destructor
/// that this very call calls, calls it for its own driver.
///
/// # Safety
/// `driver` is null or comes from this library. If the call succeeds, nothing uses it from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_driver_free(driver: *mut Driver) -> Status {
    enter(|| {
        if driver.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's contract.
        let mut held = unsafe { borrow(driver) }?.try_lock()?;
        // Under the lock, so that the destructors that this calls can't use the driver.
        let turned = held.take();
        drop(turned);
        drop(held);
        // SAFETY: `tourbillon_timer_new_driven` made it by `Box::into_raw`, and the caller gives it
        // up.
        drop(unsafe { Box::from_raw(driver) });
        Ok(())
    })
}
