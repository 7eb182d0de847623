//! Waits for a worker that makes no progress.

use crate::sync::Shown;

/// After this many waits in a row without progress, of whatever threads, the worker counts as
/// stuck.
pub(crate) const STUCK: u64 = 50;

/// The outcome of the waits for one worker. Threads that write at the same time may lose a count:
/// it is an estimate.
#[derive(Debug)]
pub(crate) struct Stall {
    /// The worker's progress at the end of the last wait.
    progress: Shown,
    /// How many waits in a row have seen no progress.
    waits: Shown,
}

impl Stall {
    pub(crate) const fn none() -> Self {
        Self { progress: Shown::new(0), waits: Shown::new(0) }
    }

    pub(crate) fn is_stuck(&self, progress: u64) -> bool {
        self.waits.get() >= STUCK && self.progress.get() == progress
    }

    /// Records the end of a wait. `began` and `ended` are the worker's progress at its beginning
    /// and its end.
    pub(crate) fn note(&self, began: u64, ended: u64) {
        let is_next = began == ended && self.progress.get() == ended;
        self.waits.set(if is_next { self.waits.get() + 1 } else { u64::from(began == ended) });
        self.progress.set(ended);
    }
}
