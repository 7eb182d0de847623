//! A timeout that wakes a task, and whose waker may change: what a future that sleeps is made of.

use std::task::Waker;
use std::time::Duration;

use super::Timer;
use super::error::Refusal;
use super::schedule::Target;
use super::timeout::Timeout;
use crate::engine::{EngineRef, Shared};
use crate::entry::entry_ref;
use crate::time::{Tick, Timeline};

/// One that is set. Dropping it cancels.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// Of an entry with a sleeper in it.
    timeout: Timeout,
}

/// What became of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    Rang,
    /// The waker will be woken.
    NotYet,
    /// It rang before its time, as the engine was shut down.
    Ended,
    /// Nobody will wake the waker: the engine is another process's.
    Never,
}

/// Why no alarm was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAlarm {
    /// There was no room, or no memory: this may pass.
    Now,
    /// The engine has ended, or is another process's.
    Ever,
}

impl Timer {
    /// The engine's time.
    pub(crate) fn timeline(&self) -> &Timeline {
        self.engine.shared.timeline()
    }

    /// What a future needs of the engine.
    pub(crate) fn engine_ref(&self) -> EngineRef {
        self.engine.shared.engine_ref()
    }
}

impl Alarm {
    /// Sets one: `waker` is woken when `deadline` has come.
    pub(crate) fn set(engine_ref: &EngineRef, deadline: Tick, waker: &Waker) -> Result<Self, NoAlarm> {
        Self::set_on(engine_ref.shared(), deadline, waker)
    }

    /// Sets one on the process's own engine, for a future whose engine has been shut down: `waker` is woken after `delay`.
    pub(crate) fn set_elsewhere(delay: Duration, waker: &Waker) -> Result<Self, NoAlarm> {
        // Of a model's threads none outlives it.
        let global = if cfg!(loom) { None } else { Timer::try_global() };
        let shared = &global.ok_or(NoAlarm::Now)?.engine.shared;
        // Not at once: who looks at another clock may come again and again.
        let deadline = shared.timeline().tick_after(delay.max(shared.timeline().scale().tick_duration()));
        Self::set_on(shared, deadline, waker)
    }

    fn set_on(shared: &Shared, deadline: Tick, waker: &Waker) -> Result<Self, NoAlarm> {
        let target = Target { shared, shard: None, group: None };
        match target.wake(deadline, waker.clone()) {
            Ok(timeout) => Ok(Self { timeout }),
            Err(Refusal::Full | Refusal::OutOfMemory) => Err(NoAlarm::Now),
            // A zero period is refused to series only.
            Err(Refusal::Shutdown | Refusal::Forked | Refusal::ZeroPeriod) => Err(NoAlarm::Ever),
        }
    }

    /// Whether it has rung; if not yet, it will wake `waker`, and no other.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Ring {
        // SAFETY: the handle keeps its entry alive.
        let entry = unsafe { entry_ref(self.timeout.as_entry()) };
        // The state first: if it is pending now, then the waker that is in the entry has not been dropped, and is no other that has
        // got the same address since.
        if entry.state.is_pending() && entry.as_sleeper().is_some_and(|sleeper| sleeper.watch(waker)) {
            // In a forked child nobody is there who would wake it.
            return if self.timeout.shared().is_forked() { Ring::Never } else { Ring::NotYet };
        }
        if entry.state.is_expired() { Ring::Rang } else { Ring::Ended }
    }

    pub(crate) fn has_rung(&self) -> bool {
        !self.timeout.is_pending()
    }

    /// Whether a shutdown may have rung it.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.timeout.remote().is_closed()
    }

    /// Moves it. False: it is no longer set, and nothing was changed.
    pub(crate) fn move_to(&mut self, deadline: Tick) -> bool {
        self.timeout.reset_to(deadline)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.timeout.cancel();
    }
}
