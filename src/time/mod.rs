//! Monotonic time, ticks and their parts, all rounding, a clock that is moved by hand, and one that
//! can be stopped.

mod clock;
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri), not(loom)))]
mod counter;
mod manual;
mod pausable;
mod tick;
mod timeline;
mod upper_bound_clock;

pub use clock::{Clock, ClockListener};
pub(crate) use clock::{Follower, real_time};
pub use manual::ManualClock;
pub use pausable::PausableClock;
pub(crate) use tick::{MOST_NS, Moment, Subtick, saturating_ns};
pub(crate) use timeline::{CustomClock, Timeline};
pub(crate) use upper_bound_clock::UpperBound;
