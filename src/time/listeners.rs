//! The engines that a clock tells when it has moved.

use std::sync::{Arc, Mutex, PoisonError};

/// An engine that is told when its clock has moved otherwise than the real one, by which threads
/// sleep.
pub(crate) trait ClockListener: Send + Sync {
    /// Makes the engine look at the clock. Does not wait.
    fn ring(&self);
    /// Returns when all that has become due has run. Returns `false` if it could not wait for that,
    /// because the calling thread runs a task.
    fn catch_up(&self) -> bool;
    /// A measure of the work done so far, which only grows.
    fn progress(&self) -> u64;
    /// Returns whether the engine is gone.
    fn is_gone(&self) -> bool;
}

/// The engines on one clock. In plain std types, as no protocol of the engine depends on the lock.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<Arc<dyn ClockListener>>>);

impl Listeners {
    pub(crate) fn add(&self, listener: Arc<dyn ClockListener>) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|known| !known.is_gone());
        listeners.push(listener);
    }

    /// Returns a copy of the list. So nobody is told under the lock: a task may build or drop
    /// another engine on this clock.
    pub(super) fn all(&self) -> Vec<Arc<dyn ClockListener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
