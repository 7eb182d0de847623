//! The answers of calls, and their meaning.

use std::ffi::{CStr, c_char, c_int};

use tourbillon::{BuildError, Refusal, ShutdownError};

/// The answer of a call. `tourbillon_error_message` has a text for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    /// The call did what it says.
    Ok = 0,
    /// The timeout is no longer pending, so nothing was changed: it has fired, is about to, or was
    /// cancelled.
    NotPending = 1,
    /// An argument is null that must not be, or a structure has no size.
    InvalidArgument = 2,
    /// An option makes no sense, or this system can't provide it. The `message` of the options says
    /// which one.
    InvalidOption = 3,
    /// More timeouts would be pending than `max_pending` allows.
    Full = 4,
    /// The engine was shut down, or its driver is gone.
    Shutdown = 5,
    /// This process was forked off after the engine was made.
    Forked = 6,
    /// There is no memory.
    OutOfMemory = 7,
    /// The period of a periodic timeout is zero.
    ZeroPeriod = 8,
    /// A callback of the engine asked for its engine's shutdown, which would wait for that
    /// callback.
    FromCallback = 9,
    /// The driver is in use: by a callback of the same turn, or by another thread.
    Busy = 10,
    /// The handle was released before. Only a build with checks finds that out.
    Released = 11,
    /// Rust code panicked inside the call: a destructor of your data, or the engine by a bug.
    Panicked = 12,
}

/// Returns a text for a status. It lives for ever, and says what to do. For a number that is no
/// status the text says so. Any thread may call this at any time.
#[unsafe(no_mangle)]
pub extern "C" fn tourbillon_error_message(status: c_int) -> *const c_char {
    let text = match status {
        0 => c"no error",
        1 => c"the timeout is no longer pending, so nothing was changed",
        2 => c"an argument is null that must not be, or the size of a structure was not set: give it its sizeof",
        3 => c"an option makes no sense or is not available; options.message says which",
        4 => c"max_pending timeouts are pending: try again when some have fired or been cancelled",
        5 => c"the engine was shut down, or its driver is gone: it takes no more timeouts",
        6 => c"the engine was made before this process was forked: make one in the child",
        7 => c"there is no memory for it: try again when some timeouts have ended, or reserve more by options.capacity",
        8 => c"the period of a periodic timeout must not be zero",
        9 => c"a callback can't shut its own engine down, which would wait for it: call it from elsewhere",
        10 => c"the driver is in use: call it from one thread at a time, and not from a callback that it runs",
        11 => c"the handle was released before: each is released once, and not used after that",
        12 => c"a panic was caught inside the call",
        _ => c"not a status of tourbillon",
    };
    text.as_ptr()
}

/// Returns the version of the library, such as "0.1.0". The text lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn tourbillon_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => unreachable!(),
    };
    VERSION.as_ptr()
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => Self::Full,
            Refusal::Forked => Self::Forked,
            Refusal::OutOfMemory => Self::OutOfMemory,
            Refusal::ZeroPeriod => Self::ZeroPeriod,
            _ => Self::Shutdown,
        }
    }
}

impl From<&BuildError> for Status {
    fn from(error: &BuildError) -> Self {
        match error {
            BuildError::Capacity { .. } | BuildError::Wheels { .. } => Self::OutOfMemory,
            _ => Self::InvalidOption,
        }
    }
}

impl From<ShutdownError> for Status {
    fn from(error: ShutdownError) -> Self {
        match error {
            ShutdownError::FromTask => Self::FromCallback,
            ShutdownError::Forked => Self::Forked,
            ShutdownError::OutOfMemory => Self::OutOfMemory,
            _ => Self::Shutdown,
        }
    }
}
