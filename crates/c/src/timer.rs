//! Engines with threads.

use crate::clock::Epoch;
use crate::entry::{borrow, enter, enter_or, give};
use crate::options::Options;
use crate::status::Status;

/// An engine. Any thread may use it.
#[derive(Debug)]
pub struct Timer {
    pub(crate) engine: tourbillon::Timer,
    pub(crate) epoch: Epoch,
}

impl Timer {
    pub(crate) fn boxed(engine: tourbillon::Timer) -> Box<Self> {
        let epoch = Epoch::of(&engine);
        Box::new(Self { engine, epoch })
    }
}

/// Makes an engine with threads, and writes it to `timer`.
///
/// The threads start with the first timeout. Callbacks run on them. `options` may be null for the
/// defaults. The call allocates, and does not block.
///
/// Returns `TOURBILLON_STATUS_INVALID_OPTION` if an option makes no sense, and
/// `TOURBILLON_STATUS_OUT_OF_MEMORY` if there is no memory for the wheels or the capacity.
///
/// # Safety
/// `options` is null, or its `size` is set and its pointers are null or valid. `timer` may be
/// written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_timer_new(options: *const Options, timer: *mut *mut Timer) -> Status {
    enter(|| {
        if timer.is_null() {
            return Err(Status::InvalidArgument);
        }
        // SAFETY: the caller's contract.
        let options = unsafe { Options::read(options) }?;
        // SAFETY: the caller's contract.
        let built = unsafe { options.builder(false) }?.build();
        // SAFETY: the caller's contract.
        let engine = built.map_err(|error| unsafe { options.refuse(&error) })?;
        let made = Timer::boxed(engine);
        // SAFETY: the caller's contract.
        unsafe { give(timer, Box::into_raw(made)) }
    })
}

/// Frees an engine. Does nothing if `timer` is null.
///
/// Pending timeouts are dropped unrun, which calls their destructors, on this thread or on a
/// worker's. The call does not wait for callbacks that run: call `tourbillon_shutdown` before to
/// wait for them. Handles of its timeouts stay valid until they are released. A callback may call
/// this for its own engine. Destructors that this calls must not use `timer`.
///
/// # Safety
/// `timer` is null or comes from this library. Nothing uses it from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_timer_free(timer: *mut Timer) {
    enter_or((), || {
        if !timer.is_null() {
            // SAFETY: a function of this library made it by `Box::into_raw`, and the caller gives
            // it up.
            drop(unsafe { Box::from_raw(timer) });
        }
    });
}

/// Returns the time now in nanoseconds, for `tourbillon_schedule_at` and `tourbillon_reset_at`.
/// Times count from when the engine was made, so they mean nothing to another engine.
///
/// An event loop that reads the time once a round gives all timeouts of that round one deadline,
/// which is also cheaper. Returns 0 if `timer` is null. Any thread may call this.
///
/// # Safety
/// `timer` is null or comes from this library, and is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_now_ns(timer: *const Timer) -> u64 {
    // SAFETY: the caller's contract.
    enter_or(0, || unsafe { borrow(timer) }.map_or(0, |timer| timer.epoch.ns_until(timer.engine.now())))
}
