//! Waits for a worker that saw it do nothing.

use crate::sync::Shown;

/// After so many waits in vain, one after the other and by whatever threads, the worker is stuck.
pub(crate) const STUCK: u64 = 50;

/// What became of the waits for one worker. Threads that write at once may lose a count: it is a guess.
#[derive(Debug)]
pub(crate) struct Stall {
    /// What the worker had done by the end of the last one.
    progress: Shown,
    /// How many have seen it do nothing since.
    waits: Shown,
}

impl Stall {
    pub(crate) const fn none() -> Self {
        Self { progress: Shown::new(0), waits: Shown::new(0) }
    }

    pub(crate) fn is_stuck(&self, progress: u64) -> bool {
        self.waits.get() >= STUCK && self.progress.get() == progress
    }

    /// Another wait is over that began at one point of the worker's progress, and ended at another.
    pub(crate) fn note(&self, began: u64, ended: u64) {
        let is_next = began == ended && self.progress.get() == ended;
        self.waits.set(if is_next { self.waits.get() + 1 } else { u64::from(began == ended) });
        self.progress.set(ended);
    }
}
