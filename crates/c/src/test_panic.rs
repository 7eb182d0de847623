//! A callback that the tests need and no program does.

use std::ffi::c_void;

/// A callback that panics. Its data is not used.
///
/// # Panics
/// Always.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tourbillon_test_panic(_data: *mut c_void) {
    panic!("a callback that panics, for a test");
}
