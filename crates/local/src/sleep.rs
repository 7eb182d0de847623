//! A future that sleeps on a local engine.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tourbillon::Refusal;

use crate::engine::Engine;
use crate::slab::{Key, State};
use crate::task::Task;

/// A future that is ready when its deadline has come. Only the end of its driver makes it ready
/// before. [`LocalTimer::sleep`](crate::LocalTimer::sleep) makes it.
///
/// It is [`Sleep`](tourbillon::Sleep) for one thread: lazy, `Unpin`, with the waker in its entry,
/// and ready until it is reset. The turn of the [`LocalDriver`](crate::LocalDriver) wakes it. If
/// there is no memory, it asks to be polled again until there is.
///
/// ```
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
/// use std::time::Duration;
/// use tourbillon::ManualClock;
/// use tourbillon_local::LocalTimer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = ManualClock::new();
/// let (timer, mut driver) = LocalTimer::builder().clock(clock.clone()).build()?;
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
    engine: Rc<Engine>,
    deadline: u64,
    stage: Stage,
    /// Whether a reset moved it to a deadline that may have passed, since it was last polled.
    has_moved: bool,
}

enum Stage {
    New,
    /// It is held.
    Set(Key),
    Elapsed {
        by_shutdown: bool,
    },
}

impl LocalSleep {
    pub(crate) fn until(engine: Rc<Engine>, deadline: u64) -> Self {
        Self { engine, deadline, stage: Stage::New, has_moved: false }
    }

    /// Returns its deadline, rounded up to a part of a tick.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.engine.ticks.instant(self.deadline)
    }

    /// Returns whether it is ready: a poll has found it so, or a turn has woken it.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        match self.stage {
            Stage::New => false,
            Stage::Set(key) => !self.engine.is_pending(key),
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
        self.move_to(self.engine.ticks.after(delay), delay.is_zero());
    }

    /// Moves the deadline to a point in time. Otherwise it is [`reset`](Self::reset).
    pub fn reset_at(&mut self, deadline: Instant) {
        self.move_to(self.engine.ticks.at(deadline), true);
    }

    fn move_to(&mut self, deadline: u64, may_have_come: bool) {
        self.has_moved |= may_have_come;
        self.deadline = deadline;
        if let Stage::Set(key) = self.stage {
            if self.engine.reset(key, deadline) {
                return;
            }
            self.engine.let_go(key);
        }
        self.stage = Stage::New;
    }

    fn has_come(&self) -> bool {
        self.deadline <= self.engine.ticks.current()
    }

    fn be_ready(&mut self, by_shutdown: bool) -> Poll<()> {
        self.disarm();
        self.stage = Stage::Elapsed { by_shutdown };
        Poll::Ready(())
    }

    fn disarm(&mut self) {
        if let Stage::Set(key) = std::mem::replace(&mut self.stage, Stage::New) {
            // The waker's drop is the user's code, and comes last.
            drop(self.engine.give_up(key));
        }
    }
}

impl Future for LocalSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        match this.stage {
            Stage::New => {}
            Stage::Elapsed { .. } => return Poll::Ready(()),
            Stage::Set(key) if this.engine.watch(key, context.waker()) => {
                if !std::mem::take(&mut this.has_moved) || !this.has_come() {
                    return Poll::Pending;
                }
            }
            Stage::Set(key) => {
                let by_shutdown = this.engine.state(key) == State::Cancelled && !this.has_come();
                return this.be_ready(by_shutdown);
            }
        }
        if this.has_come() {
            return this.be_ready(false);
        }
        this.has_moved = false;
        // The clone is the user's code, and comes before the engine's.
        let waker = context.waker().clone();
        match this.engine.arm(this.deadline, true, waker, Task::wake) {
            Ok(key) => this.stage = Stage::Set(key),
            Err((Refusal::Shutdown, _)) => return this.be_ready(true),
            Err((_, waker)) => waker.wake(),
        }
        Poll::Pending
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
