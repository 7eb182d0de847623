//! The proxy as a process, whichever timer counts its limits: `scripts/pingora test` runs these
//! with both.

mod http;
mod limits;
mod load;
mod process;
mod upstream;

use std::time::Duration;

/// The original's limits are up by a millisecond too early, as it rounds down first.
const EARLY: Duration = Duration::from_millis(2);
