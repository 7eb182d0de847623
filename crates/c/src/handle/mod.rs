//! The handles of timeouts, as C sees them.
//!
//! A handle is the engine's own, as a pointer: that costs nothing. A build with checks hands out
//! numbers that are never used again, and so finds out that a handle was released before.

#[cfg(any(debug_assertions, feature = "checked"))]
mod checked;
#[cfg(not(any(debug_assertions, feature = "checked")))]
mod raw;

#[cfg(any(debug_assertions, feature = "checked"))]
pub(crate) use checked::{cancel_and_release, hand_out, release, with, with_many};
#[cfg(not(any(debug_assertions, feature = "checked")))]
pub(crate) use raw::{cancel_and_release, hand_out, release, with, with_many};

/// The handle of one timeout.
///
/// It may be used by several threads at a time, and after its engine is gone. Give each handle back
/// once, by `tourbillon_release` or `tourbillon_cancel_and_release`, also if its timeout has fired.
/// It must not be used after that. A build with debug assertions, or with the cargo feature
/// `checked`, answers such a use with `TOURBILLON_STATUS_RELEASED`, and names the call on the
/// standard error output. In another build such a use is undefined.
#[derive(Debug)]
pub struct Timeout {
    _private: (),
}
