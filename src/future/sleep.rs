//! A future that is ready when its time has come.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::engine::EngineRef;
use crate::time::{Tick, Timeline};
use crate::timer::{Alarm, NoAlarm, Ring};

/// A future that is ready when its deadline has come, and not before, but for a shutdown. Made by [`Timer::sleep`](crate::Timer::sleep) and
/// [`Timer::sleep_until`](crate::Timer::sleep_until).
///
/// * **Lazy**: nothing is scheduled before it is first polled and its deadline has not come. Dropping it cancels.
/// * **Cheap**: an entry of the engine is all it takes, with the waker in it; no allocation (but at a thread's first use of
///   the engine). A [`reset`](Self::reset) to later is one compare-and-swap, as [`Timeout::reset`](crate::Timeout::reset) is.
/// * **`Unpin`**: it can be polled where it lies, without a box or a `pin!`.
/// * Once ready it stays ready, until it is reset.
/// * It counts as a timeout that is pending from its first poll on, also in [`Timer::stats`](crate::Timer::stats). Who turns the shard (its
///   worker, or the driver) calls the waker, when the turn is over: not the executor, for which the way would be longer than the work. A
///   waker should be quick, as those of all runtimes are.
///
/// If the engine is full ([`Builder::max_pending_timeouts`](crate::Builder::max_pending_timeouts)), or has no memory, it asks to be polled
/// again at once until there is room: that costs processor time, but is neither early nor lost. In a child process that was forked off
/// after the engine was made nobody wakes it: it is ready if it is polled after its deadline. It keeps the engine, as a
/// [`Timer`](crate::Timer) does.
///
/// **A shutdown makes it ready**, if it is pending then, as it does when the driver goes:
/// [`ended_by_shutdown`](Self::ended_by_shutdown) says so. One that is made, first polled, or reset after that is ready at its own deadline,
/// woken by [`Timer::global`](crate::Timer::global).
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
    /// Before the reference: the last future cancels its alarm, and then the engine ends.
    stage: Stage,
    engine_ref: EngineRef,
    deadline: Tick,
    /// It was moved forward since it was polled, and may have passed its deadline by that.
    has_moved: bool,
    ended_by_shutdown: bool,
}

/// How far it is.
enum Stage {
    New,
    Set(Alarm),
    /// On the process's own engine, as this one's has been shut down.
    SetElsewhere(Alarm),
    Elapsed,
}

impl Sleep {
    pub(super) fn until(engine_ref: EngineRef, deadline: Tick) -> Self {
        Self { engine_ref, deadline, stage: Stage::New, has_moved: false, ended_by_shutdown: false }
    }

    /// Its deadline, rounded up to the tick at which it is ready. As of [`Timeout::deadline`](crate::Timeout::deadline).
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.timeline().instant_of(self.deadline)
    }

    /// Whether it is known to be over: it has been ready, or its waker has been called, or is about to be. Does not look at the clock.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        match &self.stage {
            Stage::New | Stage::SetElsewhere(_) => false,
            Stage::Set(alarm) => alarm.has_rung(),
            Stage::Elapsed => true,
        }
    }

    /// Whether it was ready before its deadline, because its engine was shut down. (The one exception to never early.) False again
    /// after a [`reset`](Self::reset).
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
        self.ended_by_shutdown
    }

    /// Moves it to `delay` from now, be that later or earlier, and whether or not it was over. A task that waits for it goes on waiting;
    /// if it was over, it has to be polled again, as a new one has.
    pub fn reset(&mut self, delay: Duration) {
        self.reset_to(self.timeline().tick_after(delay));
    }

    /// As [`reset`](Self::reset), to a point in time.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.reset_to(self.timeline().tick_at_or_now(deadline));
    }

    pub(super) fn reset_to(&mut self, deadline: Tick) {
        self.has_moved |= deadline < self.deadline;
        self.deadline = deadline;
        if let Stage::Set(alarm) = &mut self.stage
            && alarm.move_to(deadline)
        {
            return;
        }
        // It is over; if it was only just so, its task is woken, and polls this again.
        self.stage = Stage::New;
        self.ended_by_shutdown = false;
    }

    pub(super) fn timeline(&self) -> &Timeline {
        self.engine_ref.shared().timeline()
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let ring = match &mut this.stage {
            Stage::New => None,
            Stage::Set(alarm) => Some((alarm.poll(context.waker()), alarm.is_shut_down())),
            Stage::SetElsewhere(alarm) => match alarm.poll(context.waker()) {
                Ring::NotYet => return Poll::Pending,
                // Its own clock is the one that counts.
                Ring::Rang | Ring::Ended | Ring::Never => None,
            },
            Stage::Elapsed => return Poll::Ready(()),
        };
        match ring {
            // A waker is set, so that it is woken if its time comes after this look.
            Some((Ring::NotYet, _)) if !std::mem::take(&mut this.has_moved) || !this.has_come() => {
                return Poll::Pending;
            }
            // By its alarm, as a rule: the clock is looked at only if it may have been something else that rang it.
            Some((Ring::Rang, is_shut_down)) => return this.be_ready(is_shut_down && !this.has_come()),
            Some((Ring::Ended, _)) => return this.be_ready(!this.has_come()),
            Some((Ring::NotYet | Ring::Never, _)) | None => {}
        }
        if this.has_come() {
            return this.be_ready(false);
        }
        this.has_moved = false;
        match Alarm::set(&this.engine_ref, this.deadline, context.waker()) {
            Ok(alarm) => this.stage = Stage::Set(alarm),
            Err(NoAlarm::Now) => context.waker().wake_by_ref(),
            Err(NoAlarm::Ever) => this.set_elsewhere(context.waker()),
        }
        Poll::Pending
    }
}

impl Sleep {
    fn has_come(&self) -> bool {
        self.timeline().has_come(self.deadline)
    }

    fn be_ready(&mut self, ended_by_shutdown: bool) -> Poll<()> {
        self.stage = Stage::Elapsed;
        self.ended_by_shutdown = ended_by_shutdown;
        Poll::Ready(())
    }

    /// Nobody turns its own engine any more: the process's own one wakes it.
    #[cold]
    fn set_elsewhere(&mut self, waker: &Waker) {
        self.stage = Stage::New;
        if self.engine_ref.shared().is_forked() {
            return;
        }
        match Alarm::set_elsewhere(self.timeline().until(self.deadline), waker) {
            Ok(alarm) => self.stage = Stage::SetElsewhere(alarm),
            Err(NoAlarm::Now) => waker.wake_by_ref(),
            // Only a child of this process has no engine that could.
            Err(NoAlarm::Ever) => {}
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline()).field("elapsed", &self.is_elapsed()).finish()
    }
}
