//! Counters, histograms and observations. The layers above write them, and `timer` reads them. This
//! module depends on neither.

mod counters;
mod lateness;
mod watchdog;

pub(crate) use counters::{Counter, Counters, Counts, WHOLE};
pub use lateness::Lateness;
pub(crate) use lateness::{Latenesses, Recorder};
pub(crate) use watchdog::{CANNOT_START, ENDED, PANICKING, Running, Stall, TASKS_A_LOOK};
