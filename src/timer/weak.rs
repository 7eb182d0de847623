//! A look at an engine that does not keep it.

use std::sync::Weak;

use super::engine::Engine;
use super::{Stats, Timer};

/// For what runs on the engine itself, and must not be what keeps it from ending. Should the engine end during a look, whoever
/// looks ends it: which waits for nobody, so that a task may.
#[derive(Debug)]
pub(crate) struct WeakTimer(Weak<Engine>);

impl Timer {
    pub(crate) fn watch(&self) -> WeakTimer {
        WeakTimer(std::sync::Arc::downgrade(&self.engine.engine))
    }
}

impl WeakTimer {
    /// None if the last timer, and the last future, has gone.
    pub(crate) fn stats(&self) -> Option<Stats> {
        self.0.upgrade().map(|engine| Stats::of(&engine))
    }
}
