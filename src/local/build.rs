//! Makes a local engine from the builder's options.

use std::rc::Rc;

use super::engine::LocalEngine;
use super::{LocalDriver, LocalTimer};
use crate::timer::{BuildError, Builder};

impl Builder {
    /// Makes an engine for this thread alone, whose tasks and futures need not be `Send`.
    ///
    /// The caller turns it by the [`LocalDriver`], as that of [`build_driven`](Self::build_driven).
    /// It has one wheel. It goes by `tick_duration`, `ticks_per_wheel`, `levels`, `capacity`,
    /// `expiry_limit`, `max_pending_timeouts`, `clock` and `on_panic`, and has no use for the other
    /// options. The call allocates, and does not block.
    ///
    /// # Errors
    /// The same as [`build`](Self::build), also for the options that it has no use for. `shards`
    /// may not be more than one.
    pub fn build_local(self) -> Result<(LocalTimer, LocalDriver), BuildError> {
        let engine = Rc::new(LocalEngine::new(self.local_plan()?));
        Ok((LocalTimer::new(Rc::clone(&engine)), LocalDriver::new(engine)))
    }
}
