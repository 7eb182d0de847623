//! The timer engine Tourbillon for C and C++ programs.
//!
//! `include/tourbillon.h` declares what this crate exports, and `README.md` says how to use it.
//! From Rust, use the crate `tourbillon`.
//!
//! No panic crosses the border. Each function that runs code of the engine catches it, and returns
//! [`Status::Panicked`].

// In the order of the header, which cbindgen takes from here. Blank lines keep rustfmt from
// sorting.
mod status;

mod options;

mod timer;

mod task;

mod schedule;

mod timeout;

mod clock;

mod stats;

mod shutdown;

mod driver;

mod entry;
mod handle;
#[cfg(feature = "test-panic")]
mod test_panic;

pub use clock::TOURBILLON_NEVER;
pub use driver::{
    Driver, tourbillon_driver_free, tourbillon_next_wakeup_ms, tourbillon_next_wakeup_ns, tourbillon_on_earlier,
    tourbillon_timer_new_driven, tourbillon_turn,
};
pub use handle::Timeout;
pub use options::{Options, TOURBILLON_INLINE, TOURBILLON_NO_WAIT, TOURBILLON_SPIN, TOURBILLON_UNPINNED};
pub use schedule::{tourbillon_schedule, tourbillon_schedule_at, tourbillon_schedule_every};
pub use shutdown::{OnUnfired, tourbillon_shutdown, tourbillon_shutdown_drain, tourbillon_shutdown_fire_now};
pub use stats::{Stats, tourbillon_pending, tourbillon_stats_get};
pub use status::{Status, tourbillon_error_message, tourbillon_version};
pub use task::Callback;
#[cfg(feature = "test-panic")]
pub use test_panic::tourbillon_test_panic;
pub use timeout::{
    tourbillon_cancel, tourbillon_cancel_and_release, tourbillon_is_pending, tourbillon_release,
    tourbillon_remaining_ns, tourbillon_reset, tourbillon_reset_at, tourbillon_reset_many,
};
pub use timer::{Timer, tourbillon_now_ns, tourbillon_timer_free, tourbillon_timer_new};
