//! What a system is told before it starts.

use std::time::Duration;

/// What a workload tells a system before it starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Timeouts to reserve memory for, of all producers together, where it can be done.
    pub(crate) capacity: Option<usize>,
    pub(crate) producers: usize,
    /// Where it can be chosen.
    pub(crate) tick: Duration,
    /// Of Tourbillon; its default if none.
    pub(crate) shards: Option<usize>,
}

impl Plan {
    /// Memory to reserve where each producer has a queue of its own; 0 if none.
    pub(crate) fn capacity_each(self) -> usize {
        self.capacity.unwrap_or(0).div_ceil(self.producers)
    }
}
