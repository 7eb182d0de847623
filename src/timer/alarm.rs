//! A timeout that wakes a task of a runtime. Its waker may change. Each future that sleeps has one.

use std::task::Waker;
use std::time::Duration;

use super::Timer;
use super::error::Refusal;
use super::guard::TimeoutGuard;
use super::schedule::Shard;
use crate::engine::{EngineRef, Shared};
use crate::time::{Subtick, Timeline};

/// An alarm that is set. Dropping it cancels it.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// Its task is the waker.
    timeout: TimeoutGuard,
}

/// What became of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    /// Its time has come.
    Rang,
    /// It has not rung. The engine will wake the waker.
    NotYet,
    /// The engine was shut down, which may have rung it before its time.
    Ended,
    /// Nothing will wake the waker: the engine belongs to the parent process.
    Never,
}

impl Timer {
    /// The engine's time.
    pub(crate) fn timeline(&self) -> &Timeline {
        self.engine.shared.timeline()
    }

    /// A counted reference to the engine, which a future holds.
    pub(crate) fn engine_ref(&self) -> EngineRef {
        // SAFETY: this is a timer of the engine.
        unsafe { self.engine.shared.engine_ref() }
    }
}

impl Alarm {
    /// Sets an alarm. The engine wakes `waker` when `deadline` has come.
    // Inlined: a future is mostly polled once.
    #[inline(always)]
    pub(crate) fn set(shared: &Shared, deadline: Subtick, waker: &Waker) -> Result<Self, Refusal> {
        let submitted = Shard::home(shared).submit(deadline, waker.clone());
        let timeout = submitted.map_err(|refused| refused.kind())?;
        Ok(Self { timeout: timeout.cancel_on_drop() })
    }

    /// Sets an alarm on the global engine, for a future whose own engine has been shut down, or
    /// belongs to the parent process. The global engine wakes `waker` after `delay`. Returns `None`
    /// if there is no room, or no memory: the global engine of this process does not end.
    #[cold]
    pub(crate) fn set_elsewhere(delay: Duration, waker: &Waker) -> Option<Self> {
        // In a model no thread may outlive it, so it has no global engine.
        let global = if cfg!(loom) { None } else { Timer::try_global() };
        let shared = &global?.engine.shared;
        Self::set(shared, deadline_elsewhere(shared, delay), waker).ok()
    }

    /// Returns whether it has rung. If it has not, it will wake `waker` and no other.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Ring {
        // SAFETY: this is the future's, `set` has put a waker in, and `&mut self` says that one
        // thread polls it.
        if unsafe { self.timeout.handle.watch(waker) } {
            // In a forked child no worker and no driver will wake it.
            return if self.timeout.shared().is_forked() { Ring::Never } else { Ring::NotYet };
        }
        // A cancelled one was ended by a shutdown, and one that has expired perhaps.
        let has_ended = !self.timeout.is_expired() || self.timeout.remote().is_closed();
        if has_ended { Ring::Ended } else { Ring::Rang }
    }

    pub(crate) fn has_rung(&self) -> bool {
        !self.timeout.is_pending()
    }

    /// Moves the alarm. Returns false, and changes nothing, if it is no longer set.
    pub(crate) fn move_to(&self, deadline: Subtick) -> bool {
        self.timeout.reset_to(deadline)
    }

    /// Moves an alarm that was [set elsewhere](Self::set_elsewhere).
    pub(crate) fn move_elsewhere(&self, delay: Duration) -> bool {
        self.move_to(deadline_elsewhere(self.timeout.shared(), delay))
    }
}

/// At least one tick ahead. A future that looks at another engine's clock may come back again and
/// again.
fn deadline_elsewhere(shared: &Shared, delay: Duration) -> Subtick {
    let timeline = shared.timeline();
    timeline.deadline_after(delay.max(timeline.scale().tick_duration()))
}
