//! Monotonic time, ticks and their parts, all rounding, pauses, a clock that goes on in a suspend,
//! and one that is moved by hand.

mod boot;
mod clock;
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri), not(loom)))]
mod counter;
mod listeners;
mod manual;
mod pause;
mod tick;
mod timeline;
mod upper_bound_clock;

pub use boot::BootClock;
pub use clock::Clock;
pub(crate) use clock::RealTime;
pub(crate) use listeners::ClockListener;
pub use manual::ManualClock;
#[cfg(loom)]
pub(crate) use pause::MODEL_PAUSES;
#[cfg(loom)]
pub(crate) use pause::Pauses;
pub(crate) use tick::{Division, Moment, Subtick, saturating_ns};
pub(crate) use timeline::{Source, Timeline};
pub(crate) use upper_bound_clock::UpperBound;
