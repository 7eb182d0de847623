//! The handle of one timeout of a local engine.

use std::fmt;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::engine::LocalEngine;
use crate::entry::LocalHandle;
use crate::time::Subtick;

/// One timeout of a [`LocalTimer`](crate::LocalTimer), and the right to cancel or reset it. It is
/// [`Timeout`](crate::Timeout) for one thread.
///
/// Dropping it detaches the timeout, which runs all the same. It is 16 bytes, and keeps the
/// engine's memory.
#[must_use = "dropping a LocalTimeout detaches it: it still fires, and can't be cancelled or reset any more; \
              write `let _ =` for that, or use `schedule_detached`"]
pub struct LocalTimeout {
    engine: Rc<LocalEngine>,
    /// Let go when this is dropped, and only then.
    handle: ManuallyDrop<LocalHandle>,
}

impl LocalTimeout {
    /// The handle is one of this engine.
    #[inline]
    pub(super) fn new(engine: Rc<LocalEngine>, handle: LocalHandle) -> Self {
        Self { engine, handle: ManuallyDrop::new(handle) }
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
        self.engine.cancel(&self.handle).is_some()
    }

    /// Moves the deadline to `delay` from now, later or earlier, and returns whether the timeout
    /// was still pending.
    ///
    /// True means that it does not fire before the new deadline. False means that nothing was
    /// changed. A move to a later deadline is one store, and the timeout stays where it is in its
    /// wheel. A move to an earlier one links it anew. The call does not allocate.
    #[inline]
    #[must_use = "false: it has fired, or is about to, and was not moved (see `reset`)"]
    pub fn reset(&self, delay: Duration) -> bool {
        self.move_to(self.engine.timeline.deadline_after(delay))
    }

    /// Moves the deadline to a point in time. Otherwise it is [`reset`](Self::reset). It reads no
    /// clock, unless it is a user's.
    #[inline]
    #[must_use = "false: it has fired, or is about to, and was not moved (see `reset`)"]
    pub fn reset_at(&self, deadline: Instant) -> bool {
        self.move_to(self.engine.timeline.deadline_at(deadline))
    }

    #[inline]
    pub(super) fn move_to(&self, deadline: Subtick) -> bool {
        self.engine.reset(&self.handle, deadline)
    }

    /// Returns whether it has neither expired nor been cancelled.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.handle.is_pending()
    }

    /// Returns whether its task has begun to run.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.handle.is_expired()
    }

    /// Returns whether it was cancelled, or dropped with its driver.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.handle.is_cancelled()
    }

    /// Returns the deadline as of the last successful reset, rounded up to a part of a tick.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.engine.timeline.instant_of(self.handle.deadline())
    }

    /// Puts the waker of the future that polls into a sleeper's timeout. Returns false if that is
    /// not pending, so that it calls no waker.
    ///
    /// # Safety
    /// The timeout is a sleeper's.
    pub(super) unsafe fn watch(&self, waker: &Waker) -> bool {
        if !self.is_pending() {
            return false;
        }
        // SAFETY: it is pending, and the caller says what it is. The comparison can't end it.
        if unsafe { self.handle.waker() }.will_wake(waker) {
            return true;
        }
        // The clone is the user's code, which may do anything, also end this timeout.
        let waker = waker.clone();
        if !self.is_pending() {
            return false;
        }
        // SAFETY: it is pending, and what the caller says.
        let before = unsafe { self.handle.replace_waker(waker) };
        // From here on an end of the timeout wakes the new one.
        drop(before);
        true
    }
}

impl Drop for LocalTimeout {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the handle is taken out here, once, and not used again.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        self.engine.let_go(handle);
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
