//! What the tests, the fuzzers and `perf` share to account for timeouts.
//!
//! - [`counters`]: what callers and tasks have counted, against an engine's own counters. The
//!   integration tests, the oracle, the soak and the main job of `perf` use it.
//! - [`oracle`]: an engine beside a model that is a `BTreeMap`. `tests/model` and the fuzz target
//!   `driven` make programs for it.

pub mod counters;
pub mod oracle;

use std::time::Duration;

/// A millisecond: the default tick.
pub const MS: Duration = Duration::from_millis(1);
/// An hour.
pub const HOUR: Duration = Duration::from_secs(3600);
/// A day.
pub const DAY: Duration = Duration::from_secs(24 * 3600);
