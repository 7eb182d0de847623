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
    /// Of Tourbillon; its default if none.
    shards: Option<usize>,
}

impl Job {
    pub(crate) fn new(case: &'static Case, producers: usize, sizes: Sizes, pace: f64) -> Self {
        Self { case, producers, sizes, pace, shards: None }
    }

    pub(crate) fn plan(&self, capacity: Option<usize>) -> Plan {
        Plan { capacity, producers: self.producers, tick: Duration::from_millis(1), shards: self.shards }
    }

    pub(crate) fn with_shards(self, shards: usize) -> Self {
        Self { shards: Some(shards), ..self }
    }

    pub(crate) fn time(&self, full: Duration) -> Duration {
        full.mul_f64(self.pace)
    }
}
