//! A future that is ready when its deadline has come.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::engine::EngineRef;
use crate::time::{Subtick, Timeline};
use crate::timer::{Refusal, Shard, TimeoutGuard, Timer};

/// A future that is ready when its deadline has come. Only a shutdown makes it ready before.
/// [`Timer::sleep`](crate::Timer::sleep) and [`Timer::sleep_until`](crate::Timer::sleep_until) make
/// it.
///
/// * **Lazy**: the first poll schedules it, if its deadline has not come by then. Dropping it
///   cancels.
/// * **Cheap**: it takes one entry of the engine, with the waker in it. It allocates only at a
///   thread's first use of the engine. A [`reset`](Self::reset) to a later deadline is one
///   compare-and-swap, like [`Timeout::reset`](crate::Timeout::reset).
/// * **`Unpin`**: it can be polled where it lies, without a box or a `pin!`.
/// * **It does not block**, with one exception: the first poll waits for a worker that is far
///   behind, as [`Timer::schedule`](crate::Timer::schedule) does, for
///   [`Builder::max_wait`](crate::Builder::max_wait) at most. With a `max_wait` of zero no poll
///   waits.
/// * Once ready it stays ready, until it is reset.
/// * It counts as a pending timeout from its first poll on, also in
///   [`Timer::stats`](crate::Timer::stats).
/// * The worker or the driver that turns the shard calls the waker, at the end of the turn. If the
///   executor is the handle of a Tokio runtime, that runtime calls the wakers of futures that come
///   up together; the worker does if the runtime has not begun after 2 ms. A waker should be quick,
///   as those of all runtimes are.
///
/// If the engine is full ([`Builder::max_pending_timeouts`](crate::Builder::max_pending_timeouts)),
/// or has no memory, the future asks to be polled again at once until there is room. That costs
/// processor time. The future is neither early nor lost.
///
/// It keeps the engine alive, as a [`Timer`](crate::Timer) does.
///
/// **A shutdown makes it ready** if it is pending then, and so does the end of the driver.
/// [`ended_by_shutdown`](Self::ended_by_shutdown) says so. A future that is made, first polled, or
/// reset after the shutdown is ready at its own deadline, and
/// [`Timer::global`](crate::Timer::global) wakes it. The same holds in a forked child: once the
/// future is polled there, the child's global engine wakes it at its deadline.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # pollster::block_on(async {
/// let timer = Timer::new()?;
/// let mut idle = timer.sleep(Duration::from_secs(30));
/// idle.reset(Duration::from_millis(2)); // in place, as often as you like
/// (&mut idle).await;
/// assert!(idle.is_elapsed());
/// # Ok(())
/// # })
/// # }
/// ```
#[must_use = "a Sleep does nothing unless it is awaited or polled"]
pub struct Sleep {
    /// Stands before the reference, so that it is dropped first: the last future cancels its
    /// timeout, and then the engine ends.
    stage: Stage,
    engine_ref: EngineRef,
    deadline: Subtick,
    /// Whether a reset moved it since it was last polled to a deadline that may have passed.
    has_moved: bool,
}

/// How far the future has come.
enum Stage {
    New,
    /// Its timeout's task is the waker.
    Set(TimeoutGuard),
    /// On the global engine, because its own has been shut down, or belongs to the parent process.
    SetElsewhere(TimeoutGuard),
    Elapsed {
        by_shutdown: bool,
    },
}

impl Sleep {
    pub(super) fn until(engine_ref: EngineRef, deadline: Subtick) -> Self {
        Self { engine_ref, deadline, stage: Stage::New, has_moved: false }
    }

    /// Returns its deadline, as [`Timeout::deadline`](crate::Timeout::deadline) does.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.timeline().instant_of(self.deadline)
    }

    /// Returns whether it is known to be over: it has been ready, or its waker has been called, or
    /// is about to be. The call does not read the clock.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        match &self.stage {
            Stage::New | Stage::SetElsewhere(_) => false,
            Stage::Set(timeout) => !timeout.is_pending(),
            Stage::Elapsed { .. } => true,
        }
    }

    /// Returns whether it was ready before its deadline because its engine was shut down. This is
    /// the one exception to never early. A [`reset`](Self::reset) makes it false again.
    ///
    /// True only for a sleep that was pending at the shutdown. So a loop that sleeps also asks
    /// [`Timer::is_shutdown`](crate::Timer::is_shutdown): see
    /// [`Shutdown`](crate::Shutdown#tasks-that-sleep).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # pollster::block_on(async {
    /// let timer = Timer::new()?;
    /// let mut hour = timer.sleep(Duration::from_secs(3600));
    /// let elsewhere = async { timer.shutdown() };
    /// let ((), unfired) = futures_util::future::join(&mut hour, elsewhere).await;
    /// assert!(hour.ended_by_shutdown() && unfired?.is_empty());
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    #[must_use]
    pub fn ended_by_shutdown(&self) -> bool {
        matches!(self.stage, Stage::Elapsed { by_shutdown: true })
    }

    /// Moves its deadline to `delay` from now, later or earlier, also if it was over.
    ///
    /// A task that waits for it goes on waiting. If it was over, it has to be polled again, like a
    /// new one.
    ///
    /// After a shutdown a reset revives the sleep, on the global engine: it lasts the whole delay,
    /// and nothing tells of the shutdown. A connection that resets its sleep at each packet needs
    /// a [stop signal](crate::Shutdown#tasks-that-sleep), too.
    pub fn reset(&mut self, delay: Duration) {
        let deadline = self.timeline().deadline_after(delay);
        // Nearly all delays lead to a deadline that is yet to come, and cost no look at the clock.
        self.move_to(deadline, delay.is_zero() || deadline < self.deadline);
    }

    /// Moves its deadline to a point in time. Otherwise it is [`reset`](Self::reset).
    pub fn reset_at(&mut self, deadline: Instant) {
        self.move_to(self.timeline().deadline_at(deadline), true);
    }

    #[inline]
    pub(super) fn move_to(&mut self, deadline: Subtick, may_have_come: bool) {
        self.has_moved |= may_have_come;
        self.deadline = deadline;
        let is_moved = match &self.stage {
            Stage::Set(timeout) => timeout.reset_to(deadline),
            Stage::SetElsewhere(timeout) => timeout.reset_to(self.deadline_on(timeout.shared().timeline())),
            Stage::New | Stage::Elapsed { .. } => false,
        };
        if !is_moved {
            // It is over. If it ended just now, the task is woken, and polls this again.
            self.stage = Stage::New;
        }
    }

    pub(super) fn timeline(&self) -> &Timeline {
        self.engine_ref.shared().timeline()
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        // SAFETY: it is called below with this future's own timeouts, whose tasks are wakers. The
        // exclusive reference says that one thread polls them, and that none cancels them.
        let watch = |timeout: &TimeoutGuard| unsafe { timeout.handle.watch(context.waker()) };
        match &this.stage {
            Stage::New => {}
            Stage::Set(timeout) if watch(timeout) => {
                // In a forked child no worker and no driver will wake it. Otherwise the waker is
                // set by now, so it is woken if the deadline comes after this look.
                let is_forked = this.engine_ref.shared().is_forked();
                if !is_forked && (!std::mem::take(&mut this.has_moved) || !this.has_come()) {
                    return Poll::Pending;
                }
            }
            Stage::Set(timeout) => {
                // A cancelled one was ended by a shutdown, and one that has expired perhaps. The
                // clock is read only then.
                let may_be_early = !timeout.is_expired() || timeout.remote().is_closed();
                let by_shutdown = may_be_early && !this.has_come();
                return this.be_ready(by_shutdown);
            }
            Stage::SetElsewhere(timeout) if watch(timeout) && !timeout.shared().is_forked() => return Poll::Pending,
            // The clock of its own engine decides, not that of the global one.
            Stage::SetElsewhere(_) => {}
            Stage::Elapsed { .. } => return Poll::Ready(()),
        }
        if this.has_come() {
            return this.be_ready(false);
        }
        this.has_moved = false;
        this.set(context.waker())
    }
}

impl Sleep {
    /// Begins to sleep for `delay` from now, by the first poll. That looks at the clock once.
    pub(super) fn begin(&mut self, delay: Duration, context: &mut Context<'_>) -> Poll<()> {
        self.deadline = self.timeline().deadline_after(delay);
        if delay.is_zero() { Pin::new(self).poll(context) } else { self.set(context.waker()) }
    }

    #[inline(always)]
    fn set(&mut self, waker: &Waker) -> Poll<()> {
        let submitted = Shard::home(self.engine_ref.shared()).submit(self.deadline, waker.clone());
        match submitted.map_err(|refused| refused.kind()) {
            Ok(timeout) => self.stage = Stage::Set(timeout.cancel_on_drop()),
            // Either may pass.
            Err(Refusal::Full | Refusal::OutOfMemory) => waker.wake_by_ref(),
            // Only a periodic timeout is refused for a zero period.
            Err(Refusal::Shutdown | Refusal::Forked | Refusal::ZeroPeriod) => self.set_elsewhere(waker),
        }
        Poll::Pending
    }

    #[inline]
    fn has_come(&self) -> bool {
        self.timeline().has_come(self.deadline)
    }

    fn be_ready(&mut self, by_shutdown: bool) -> Poll<()> {
        self.stage = Stage::Elapsed { by_shutdown };
        Poll::Ready(())
    }

    /// Nothing turns its own engine any more. The global engine wakes it.
    #[cold]
    fn set_elsewhere(&mut self, waker: &Waker) {
        self.stage = Stage::New;
        // In a model no thread may outlive it, so it has no global engine.
        let global = if cfg!(loom) { None } else { Timer::try_global() };
        let submit =
            |global: &Timer| global.home_shard().submit(self.deadline_on(global.timeline()), waker.clone()).ok();
        match global.and_then(submit) {
            Some(timeout) => self.stage = Stage::SetElsewhere(timeout.cancel_on_drop()),
            // There is no room, or no memory: the global engine of this process does not end.
            None => waker.wake_by_ref(),
        }
    }

    /// Its deadline on another engine's timeline: at least one tick ahead, because a future that
    /// looks at another engine's clock may come back again and again.
    fn deadline_on(&self, timeline: &Timeline) -> Subtick {
        let delay = self.timeline().until(self.deadline);
        timeline.deadline_after(delay.max(timeline.scale().tick_duration()))
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline()).field("elapsed", &self.is_elapsed()).finish()
    }
}
