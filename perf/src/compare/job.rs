//! A case with all that a run of it has to know.

use std::time::Duration;

use super::cases::{Case, Sizes};
use super::systems::plan::Plan;

/// A case that is to be measured in this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) case: &'static Case,
    pub(crate) producers: usize,
    pub(crate) sizes: Sizes,
    /// How long the times of lateness and idleness are, of their full length.
    pub(crate) pace: f64,
}

impl Job {
    pub(crate) fn plan(&self, capacity: Option<usize>) -> Plan {
        Plan { capacity, producers: self.producers, tick: Duration::from_millis(1) }
    }

    pub(crate) fn time(&self, full: Duration) -> Duration {
        full.mul_f64(self.pace)
    }
}
