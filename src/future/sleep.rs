//! A future that is ready when its time has come.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::shard::Stake;
use crate::time::{Tick, Timeline};
use crate::timer::{Alarm, NoAlarm, Ring};

/// A future that is ready when its deadline has come, and not before. Made by [`Timer::sleep`](crate::Timer::sleep) and
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
/// again at once until there is room: that costs processor time, but is neither early nor lost. Once the engine has been shut down nobody
/// wakes it any more: it is ready if it is polled after its deadline. (The handed back [`Unfired`](crate::Unfired) wakes the task that had
/// polled it last by then, unless that was at it; [`Shutdown::FireNow`](crate::Shutdown::FireNow) makes it ready.) The same holds
/// in a child process that was forked off after the engine was made. It keeps the engine, as a [`Timer`](crate::Timer) does.
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
    /// Before the stake: the last future cancels its alarm, and then the engine ends.
    stage: Stage,
    stake: Stake,
    deadline: Tick,
}

/// How far it is.
enum Stage {
    New,
    Set(Alarm),
    Elapsed,
}

impl Sleep {
    pub(super) fn until(stake: Stake, deadline: Tick) -> Self {
        Self { stake, deadline, stage: Stage::New }
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
            Stage::New => false,
            Stage::Set(alarm) => alarm.has_rung(),
            Stage::Elapsed => true,
        }
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
        self.deadline = deadline;
        if let Stage::Set(alarm) = &mut self.stage
            && alarm.move_to(deadline)
        {
            return;
        }
        // It is over; if it was only just so, its task is woken, and polls this again.
        self.stage = Stage::New;
    }

    pub(super) fn timeline(&self) -> &Timeline {
        self.stake.hub().timeline()
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        match &mut this.stage {
            Stage::New => {}
            Stage::Set(alarm) => match alarm.poll(context.waker()) {
                Ring::NotYet => return Poll::Pending,
                Ring::Rang => {
                    this.stage = Stage::Elapsed;
                    return Poll::Ready(());
                }
                Ring::Never => this.stage = Stage::New,
            },
            Stage::Elapsed => return Poll::Ready(()),
        }
        if this.timeline().has_come(this.deadline) {
            this.stage = Stage::Elapsed;
            return Poll::Ready(());
        }
        match Alarm::set(&this.stake, this.deadline, context.waker()) {
            Ok(alarm) => this.stage = Stage::Set(alarm),
            Err(NoAlarm::Now) => context.waker().wake_by_ref(),
            Err(NoAlarm::Ever) => {}
        }
        Poll::Pending
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline()).field("elapsed", &self.is_elapsed()).finish()
    }
}
