//! The handle of one timeout of a local engine.

use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::slab::{Key, State};

/// One timeout of a [`LocalTimer`](crate::LocalTimer), and the right to cancel or reset it. It is
/// [`Timeout`](tourbillon::Timeout) for one thread.
///
/// Dropping it detaches the timeout, which runs all the same. It is 16 bytes, and keeps the
/// engine's memory.
#[must_use = "dropping a LocalTimeout detaches it: it still fires, and can't be cancelled or reset any more; \
              write `let _ =` for that, or use `schedule_detached`"]
pub struct LocalTimeout {
    engine: Rc<Engine>,
    /// Let go when this is dropped. `None` if [`cancel_owned`](Self::cancel_owned) has done that.
    key: Option<Key>,
}

impl LocalTimeout {
    /// The key is of a timeout of this engine that is held.
    #[inline]
    pub(crate) fn new(engine: Rc<Engine>, key: Key) -> Self {
        Self { engine, key: Some(key) }
    }

    #[inline]
    fn key(&self) -> Key {
        self.key.expect("a handle that has let go is gone")
    }

    /// Cancels the timeout, and returns whether it was still pending.
    ///
    /// True means that the task has not run and never will. This call has dropped it, and has taken
    /// the timeout out of its slot. False means that nothing was changed: the task has begun or has
    /// run, or the timeout has ended otherwise. A timeout that is due in the turn under way can
    /// still be cancelled by a task that runs before it.
    ///
    /// # Panics
    /// Panics if a destructor of the task's captures does. The timeout is cancelled all the same.
    #[inline]
    pub fn cancel(&self) -> bool {
        self.engine.cancel(self.key()).is_some()
    }

    /// Cancels the timeout, as [`cancel`](Self::cancel) does, and drops the handle: in one step, so
    /// this is the cheapest way to end a timeout.
    ///
    /// # Panics
    /// Panics if a destructor of the task's captures does. The timeout is cancelled all the same.
    #[inline]
    pub fn cancel_owned(mut self) -> bool {
        self.key.take().is_some_and(|key| self.engine.give_up(key).is_some())
    }

    /// Moves the deadline to `delay` from now, later or earlier, and returns whether the timeout
    /// was still pending.
    ///
    /// True means that it does not fire before the new deadline. False means that nothing was
    /// changed. A move to a later deadline is one store, and the timeout stays where it is in its
    /// wheel. A move to an earlier one puts it into another slot, for which the wheel may allocate.
    #[inline]
    #[must_use = "false: it has fired, or is about to, and was not moved (see `reset`)"]
    pub fn reset(&self, delay: Duration) -> bool {
        self.engine.reset(self.key(), self.engine.ticks.after(delay))
    }

    /// Moves the deadline to a point in time. Otherwise it is [`reset`](Self::reset). It reads no
    /// clock, unless it is a user's.
    #[inline]
    #[must_use = "false: it has fired, or is about to, and was not moved (see `reset`)"]
    pub fn reset_at(&self, deadline: Instant) -> bool {
        self.engine.reset(self.key(), self.engine.ticks.at(deadline))
    }

    /// Returns whether it has neither expired nor been cancelled.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.engine.is_pending(self.key())
    }

    /// Returns whether its task has begun to run.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.engine.state(self.key()) == State::Expired
    }

    /// Returns whether it was cancelled, or dropped with its driver.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.engine.state(self.key()), State::Cancelled | State::CancelledWhenDue)
    }

    /// Returns the deadline as of the last successful reset, rounded up to a [part of a
    /// tick](crate::LocalBuilder::tick_duration).
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.engine.ticks.instant(self.engine.deadline(self.key()))
    }
}

impl Drop for LocalTimeout {
    #[inline]
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.engine.let_go(key);
        }
    }
}

impl fmt::Debug for LocalTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match () {
            () if self.is_pending() => "pending",
            () if self.is_expired() => "expired",
            () => "cancelled",
        };
        f.debug_struct("LocalTimeout").field("state", &state).field("deadline", &self.deadline()).finish()
    }
}
