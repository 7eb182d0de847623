//! A reference to an engine that does not keep it alive.

use std::sync::Weak;
use std::time::Instant;

use super::engine::Engine;
use super::{Health, Stats, Timer};

/// For a task of the engine that reads the engine's counters, and must not keep the engine from
/// ending. If the engine ends while a thread reads, that thread ends the engine. That does not wait
/// for any thread, so a task may do it.
#[derive(Debug)]
pub(crate) struct WeakTimer(Weak<Engine>);

impl Timer {
    pub(crate) fn watch(&self) -> WeakTimer {
        WeakTimer(std::sync::Arc::downgrade(self.engine.engine()))
    }
}

impl WeakTimer {
    /// Returns the time by the engine's clock, its counters and its health. `None` if the last
    /// timer and the last future have gone.
    pub(crate) fn look(&self) -> Option<(Instant, (Stats, Health))> {
        let engine = self.0.upgrade()?;
        Some((engine.shared.timeline().now(), (Stats::of(&engine), Health::of(&engine))))
    }
}
