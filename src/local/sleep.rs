//! A future that sleeps on a local engine.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::LocalTimeout;
use super::engine::LocalEngine;
use crate::entry::{ArmFlags, Task};
use crate::future::Wait;
use crate::time::{Subtick, Timeline};
use crate::timer::Refusal;

/// A future that is ready when its deadline has come. Only the end of its driver makes it ready
/// before. [`LocalTimer::sleep`](crate::LocalTimer::sleep) makes it.
///
/// It is [`Sleep`](crate::Sleep) for one thread: lazy, `Unpin`, with the waker in its entry, and
/// ready until it is reset. The turn of the [`LocalDriver`](crate::LocalDriver) wakes it. If the
/// engine is full, or has no memory, it asks to be polled again until there is room.
///
/// ```
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
/// use std::time::Duration;
/// use tourbillon::{ManualClock, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = ManualClock::new();
/// let (timer, mut driver) = Timer::builder().clock(clock.clone()).build_local()?;
/// let mut idle = pin!(timer.sleep(Duration::from_secs(30)));
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(idle.as_mut().poll(&mut context).is_pending());
/// idle.reset(Duration::from_secs(60)); // at each packet
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(driver.turn(), 1);
/// assert_eq!(idle.poll(&mut context), Poll::Ready(()));
/// # Ok(())
/// # }
/// ```
#[must_use = "a LocalSleep does nothing unless it is awaited or polled"]
pub struct LocalSleep {
    engine: Rc<LocalEngine>,
    deadline: Subtick,
    stage: Stage,
    /// Whether a reset moved it to a deadline that may have passed, since it was last polled.
    has_moved: bool,
}

enum Stage {
    New,
    Set(LocalTimeout),
    Elapsed { by_shutdown: bool },
}

impl LocalSleep {
    pub(super) fn until(engine: Rc<LocalEngine>, deadline: Subtick) -> Self {
        Self { engine, deadline, stage: Stage::New, has_moved: false }
    }

    /// Returns its deadline, rounded up to a part of a tick.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.engine.timeline.instant_of(self.deadline)
    }

    /// Returns whether it is ready: a poll has found it so, or a turn has woken it.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        match &self.stage {
            Stage::New => false,
            Stage::Set(timeout) => !timeout.is_pending(),
            Stage::Elapsed { .. } => true,
        }
    }

    /// Returns whether a poll has found it ready because its driver is gone, and not because its
    /// deadline has come.
    #[must_use]
    pub fn ended_by_shutdown(&self) -> bool {
        matches!(self.stage, Stage::Elapsed { by_shutdown: true })
    }

    /// Moves the deadline to `delay` from now, later or earlier. It is never ready before the new
    /// one. A future that was ready waits again.
    ///
    /// A move to a later deadline is one store.
    pub fn reset(&mut self, delay: Duration) {
        self.move_to(self.engine.timeline.deadline_after(delay), delay.is_zero());
    }

    /// Moves the deadline to a point in time. Otherwise it is [`reset`](Self::reset).
    pub fn reset_at(&mut self, deadline: Instant) {
        self.move_to(self.engine.timeline.deadline_at(deadline), true);
    }

    fn move_to(&mut self, deadline: Subtick, may_have_come: bool) {
        self.has_moved |= may_have_come;
        self.deadline = deadline;
        if let Stage::Set(timeout) = &self.stage
            && timeout.move_to(deadline)
        {
            return;
        }
        self.stage = Stage::New;
    }

    fn has_come(&self) -> bool {
        self.engine.timeline.has_come(self.deadline)
    }

    fn be_ready(&mut self, by_shutdown: bool) -> Poll<()> {
        self.disarm();
        self.stage = Stage::Elapsed { by_shutdown };
        Poll::Ready(())
    }

    fn disarm(&self) {
        if let Stage::Set(timeout) = &self.stage {
            timeout.cancel();
        }
    }
}

impl Future for LocalSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        match &this.stage {
            Stage::New => {}
            Stage::Elapsed { .. } => return Poll::Ready(()),
            // SAFETY: below it is armed with a waker.
            Stage::Set(timeout) if unsafe { timeout.watch(context.waker()) } => {
                if !std::mem::take(&mut this.has_moved) || !this.has_come() {
                    return Poll::Pending;
                }
            }
            Stage::Set(timeout) => {
                let by_shutdown = timeout.is_cancelled() && !this.has_come();
                return this.be_ready(by_shutdown);
            }
        }
        if this.has_come() {
            return this.be_ready(false);
        }
        this.has_moved = false;
        // The clone is the user's code, and comes before the engine's.
        let task = Task::waker(context.waker().clone());
        match this.engine.arm_held(task, this.deadline, ArmFlags::LOCAL_SLEEPER) {
            Ok(handle) => this.stage = Stage::Set(LocalTimeout::new(Rc::clone(&this.engine), handle)),
            Err(refused) if refused.why == Refusal::Shutdown => return this.be_ready(true),
            Err(refused) => refused.task.run(),
        }
        Poll::Pending
    }
}

impl Wait for LocalSleep {
    fn timeline(&self) -> &Timeline {
        &self.engine.timeline
    }

    fn wait_for(&mut self, delay: Duration) {
        self.reset(delay);
    }

    fn wait_until(&mut self, deadline: Instant) {
        self.reset_at(deadline);
    }

    fn was_ended_by_shutdown(&self) -> bool {
        self.ended_by_shutdown()
    }
}

impl Drop for LocalSleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

impl fmt::Debug for LocalSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSleep").field("deadline", &self.deadline()).field("elapsed", &self.is_elapsed()).finish()
    }
}
