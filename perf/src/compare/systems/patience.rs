//! How long a workload waits for a system.

use std::time::Duration;

/// How long a system may take to take in what it was given.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
