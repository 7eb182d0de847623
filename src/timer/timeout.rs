//! The handle of one timeout.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use crate::engine::Shared;
use crate::entry::{Entry, Handle, Queued, Reset, Token};
use crate::shard::Remote;
use crate::sync::prefetch;
use crate::time::{Subtick, Timeline, UpperBound};

/// A handle of one scheduled timeout. It is 8 bytes, and stays valid for as long as it exists, also
/// after its [`Timer`](crate::Timer) is gone.
///
/// Dropping a handle detaches the timeout, which still fires.
/// [`cancel_on_drop`](Self::cancel_on_drop) makes a [`TimeoutGuard`](crate::TimeoutGuard), which
/// cancels instead. A handle is not `Clone`: put it into an `Arc` to share it.
///
/// Its methods do not block, with these exceptions:
///
/// * [`cancel`](Self::cancel), [`cancel_owned`](Self::cancel_owned) and the drop of a guard drop
///   the task, and so run the destructors of its captures.
/// * In a driven engine, a reset to an earlier deadline may call
///   [`on_earlier`](crate::Driver::on_earlier). So may a cancel when thousands of cancelled
///   timeouts wait.
///
/// Its methods do not allocate, with these exceptions:
///
/// * The drop of a handle may allocate a queue block once in a while, after very many handles of
///   expired timeouts have been dropped.
/// * A thread's first use of an engine, or of a shard that is not its own, allocates a little
///   state.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let idle = timer.schedule(Duration::from_secs(30), || println!("idle"))?;
/// assert!(idle.is_pending());
/// assert!(idle.reset(Duration::from_secs(60))); // a packet has come
/// assert!(idle.cancel()); // the connection was closed
/// assert!(idle.is_cancelled() && !idle.cancel());
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a Timeout detaches it: it still fires, and can't be cancelled or reset any more; \
              write `let _ =` for that, or use `schedule_detached` for a task that runs once"]
pub struct Timeout {
    pub(crate) handle: Handle,
}

const _: () = assert!(size_of::<Option<Timeout>>() == size_of::<usize>());

impl Timeout {
    /// # Safety
    /// The entry was armed with a handle. The caller makes it here, once.
    #[inline]
    pub(super) unsafe fn new(entry: NonNull<Entry>) -> Self {
        // SAFETY: the entry was armed with HANDLE, and the caller makes one `Timeout` of it.
        Self { handle: unsafe { Handle::new(entry) } }
    }

    pub(crate) fn remote(&self) -> &Remote {
        Remote::at(self.handle.home())
    }

    pub(crate) fn shared(&self) -> &Shared {
        Shared::of_remote(self.remote())
    }

    /// Cancels the timeout, and returns whether it was still pending.
    ///
    /// True means that the task has not run and never will. This call has dropped it, on the
    /// calling thread.
    ///
    /// False means that nothing was changed: the task has begun or has run, or the timeout has
    /// ended otherwise. A timeout that is due and waits for a thread can still be cancelled, also
    /// by a task that is due with it and runs first.
    ///
    /// The call is one compare-and-swap. If the worker has already linked the timeout into its
    /// wheel, it is one push more. It wakes the worker only if thousands of cancelled timeouts wait
    /// to be collected.
    ///
    /// For a periodic timeout, true means that no run begins after this. A run that is under way
    /// goes on, and drops the task when it ends. So a task may cancel its own timeout:
    ///
    /// ```
    /// use std::sync::{Arc, OnceLock};
    /// use std::time::Duration;
    /// use tourbillon::{ManualClock, Timeout, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let own: Arc<OnceLock<Timeout>> = Arc::default();
    /// let (this, mut left, second) = (Arc::clone(&own), 3, Duration::from_secs(1));
    /// let beat = timer.schedule_at_fixed_rate(second, second, move || {
    ///     left -= 1;
    ///     if left == 0 {
    ///         this.get().map(Timeout::cancel);
    ///     }
    /// })?;
    /// let beat = own.get_or_init(|| beat);
    /// (0..10).for_each(|_| clock.advance(second));
    /// assert!(beat.is_cancelled() && timer.stats().fired == 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{Timeout, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// /// Called with the answer. True if it came in time.
    /// fn is_in_time(limit: &Timeout) -> bool {
    ///     limit.cancel() // false: the task has begun, and has told the client that it is too late
    /// }
    ///
    /// let timer = Timer::new()?;
    /// let limit = timer.schedule(Duration::from_secs(1), || println!("too late"))?;
    /// assert!(is_in_time(&limit));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Panics if a destructor of the task's captures does. The timeout is cancelled all the same.
    pub fn cancel(&self) -> bool {
        let remote = self.remote();
        let Some(task) = self.handle.cancel(|entry| remote.push_cancelled(entry)) else { return false };
        let shared = Shared::of_remote(remote);
        shared.give_places_back(1);
        shared.count(remote, |counts| counts.cancelled.add(1));
        // Last: a destructor of the task's captures may panic.
        drop(task);
        true
    }

    /// Cancels the timeout, as [`cancel`](Self::cancel) does, and drops the handle.
    ///
    /// Both are one compare-and-swap, as a rule, and tell the worker nothing: the next timeout that
    /// the thread schedules takes over what this one leaves, unless its deadline is an earlier one,
    /// or the worker is just running tasks itself ([`Inline`](crate::Inline)). So this is the
    /// cheapest way to end a timeout.
    ///
    /// It takes more if the thread has ended 64 others since it scheduled one; on another thread's
    /// shard; for a periodic timeout, or one that waits for a thread, or was just reset to an
    /// earlier deadline; in an engine with a limit on pending timeouts; and in a driven engine,
    /// once the driver has seen the timeout. The drop of a [`TimeoutGuard`](crate::TimeoutGuard) is
    /// the same.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let limit = timer.schedule(Duration::from_secs(1), || println!("too late"))?;
    /// let answer = 6 * 7; // the request
    /// assert!(limit.cancel_owned(), "{answer} is in time");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Panics if a destructor of the task's captures does. The timeout is cancelled all the same.
    #[inline]
    pub fn cancel_owned(self) -> bool {
        let this = ManuallyDrop::new(self);
        // SAFETY: the handle is moved out of a value that is never dropped, nor used below.
        match Shared::give_up(unsafe { ptr::read(&raw const this.handle) }, true) {
            Ok(()) => true,
            // The handle is dropped even if a destructor of the task panics here.
            Err(handle) => Self { handle }.cancel(),
        }
    }

    /// Moves the deadline to `delay` from now, later or earlier, and returns whether the timeout
    /// was still pending.
    ///
    /// True means that the timeout is still pending, and does not fire before the new deadline.
    /// False means that nothing was changed: the timeout is no longer pending. The call also
    /// returns false in a child process that was forked off after the engine was made, because
    /// nothing fires there.
    ///
    /// A reset to a later deadline is one compare-and-swap: no message, no wake-up. The worker
    /// finds the new deadline when the old one comes up, as with the "touch" of Kafka's and Tokio's
    /// timers. For an earlier deadline the call tells the worker.
    ///
    /// For a periodic timeout the call moves the next run, also while a run is under way. A fixed
    /// rate goes on from there, or as before if both deadlines are in one
    /// [part of a tick](crate::Builder::tick_duration).
    ///
    /// Among others of its new deadline a timeout that was reset runs anywhere: before those that
    /// were scheduled after the reset, or behind them.
    ///
    /// A server has to look at the returned value. A packet may come at the very moment at which
    /// the idle timeout fires. Then `reset` returns false, and the timeout's task is closing the
    /// connection, or is about to. So the server stops serving it:
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{Timeout, Timer};
    ///
    /// const IDLE: Duration = Duration::from_secs(30);
    ///
    /// /// Called for each packet. False if the connection is being closed.
    /// fn serve(packet: &[u8], idle: &Timeout) -> bool {
    ///     if !idle.reset(IDLE) {
    ///         return false;
    ///     }
    ///     println!("{} bytes", packet.len());
    ///     true
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let idle = timer.schedule(IDLE, || println!("idle: closing"))?;
    /// assert!(serve(b"hello", &idle));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// In a table by keys, a key may get a new session after false and before the old task has run.
    /// So each session has a number, and the task compares it under the table's lock: see the
    /// example `session_table`.
    #[must_use = "false: it has fired, or is about to, and was not moved (see `reset`)"]
    pub fn reset(&self, delay: Duration) -> bool {
        prefetch(self.handle.address().as_ptr());
        let look = UpperBound::look();
        self.reset_by(|timeline| timeline.moment_by(|| look, delay).deadline)
    }

    /// Moves the deadline to a point in time. Otherwise it is [`reset`](Self::reset).
    ///
    /// If that time has passed, the timeout fires at once, or at the end of this part of a tick.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let lease = timer.schedule(Duration::from_secs(10), || println!("the lease is over"))?;
    /// // The other side has renewed it, until a time that it names.
    /// let until = Instant::now() + Duration::from_secs(30);
    /// assert!(lease.reset_at(until) && lease.deadline() >= until);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "false: it has fired, or is about to, and was not moved (see `reset`)"]
    pub fn reset_at(&self, deadline: Instant) -> bool {
        self.reset_by(|timeline| timeline.deadline_at(deadline))
    }

    pub(crate) fn reset_to(&self, deadline: Subtick) -> bool {
        self.reset_by(|_| deadline)
    }

    #[inline]
    fn reset_by(&self, choose: impl FnOnce(&Timeline) -> Subtick) -> bool {
        let remote = self.remote();
        let shared = Shared::of_remote(remote);
        let shared = match shared.thread_state() {
            // Reach the engine through the thread's state. The way through the entry may still be a
            // cache miss. A thread that has a state is not in a forked child.
            Some(mine) => Shared::of_thread(mine),
            None if shared.is_forked() => return false,
            None => shared,
        };
        let is_moved = self.move_to(shared, choose(shared.timeline()));
        if is_moved {
            shared.count(remote, |counts| counts.reset.add(1));
        }
        is_moved
    }

    /// Moves the deadline, and wakes a worker that sleeps past it. The caller counts the reset.
    #[inline]
    pub(super) fn move_to(&self, shared: &Shared, deadline: Subtick) -> bool {
        let push = |entry: Queued<'_>| {
            self.remote().push_moved(entry, || self.handle.snapshot().deadline(), shared.timeline());
        };
        match self.handle.reset(deadline, push) {
            Reset::TooLate => return false,
            // The push of a queued entry has woken a worker that sleeps past it.
            Reset::Later | Reset::EarlierQueued => {}
            Reset::Earlier => self.remote().ring_if_it_sleeps_past(deadline, shared.timeline()),
        }
        true
    }

    /// Returns whether the timeout is pending: it has neither expired nor been cancelled. A
    /// periodic timeout is pending if it will run again, or is running, or is about to end by
    /// itself: then a cancel is too late. The call neither blocks nor allocates.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.handle.snapshot().is_pending()
    }

    /// Returns whether the timeout has expired: its deadline has come, and its task has run, is
    /// running, or is about to. A periodic timeout has expired if its task has returned `None`, or
    /// panicked. The call neither blocks nor allocates.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.handle.snapshot().is_expired()
    }

    /// Returns whether the timeout was cancelled, handed back unfired by a shutdown, or dropped
    /// unrun with its engine. For a periodic timeout this is also true if a shutdown ended it,
    /// after the run under way. The call neither blocks nor allocates.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.handle.snapshot().is_cancelled()
    }

    /// Returns the deadline as of the last successful reset, rounded up to a part of a tick (see
    /// [`Builder::tick_duration`](crate::Builder::tick_duration)).
    ///
    /// For a timeout that is no longer pending, this is its last deadline. For a periodic timeout,
    /// it is that of the next run, or of the run under way. A deadline that is too far for an
    /// [`Instant`], such as never, is shown as one centuries from now.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let limit = timer.schedule(Duration::from_secs(10), || println!("too late"))?;
    /// let remaining = limit.deadline().saturating_duration_since(Instant::now());
    /// assert!(remaining > Duration::from_secs(1));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.shared().timeline().instant_of(self.handle.snapshot().deadline())
    }

    /// Returns how long it is until the deadline: zero if it has come, or if the timeout is not
    /// pending any more, and [`Duration::MAX`] if it never comes.
    ///
    /// It may be more than the delay that was asked for, by up to a part of a tick and some 20 µs:
    /// the deadline was rounded up, and is never early.
    ///
    /// The call reads the engine's clock, and does not allocate.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{ManualClock, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let lease = timer.schedule(Duration::from_secs(10), || println!("the lease is over"))?;
    /// clock.advance(Duration::from_secs(4));
    /// assert_eq!(lease.remaining().as_secs_f64().round(), 6.0);
    /// assert!(lease.cancel() && lease.remaining().is_zero());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let seen = self.handle.snapshot();
        let deadline = seen.deadline();
        match () {
            () if !seen.is_pending() => Duration::ZERO,
            () if deadline == Subtick::NEVER => Duration::MAX,
            () => self.shared().timeline().until(deadline),
        }
    }

    /// Turns the handle into a pointer, which code in another language can keep.
    ///
    /// The pointer is opaque: nobody may read through it. [`from_raw`](Self::from_raw) makes the
    /// handle again. A pointer that is never given back leaks the 64 bytes of the timeout. The call
    /// neither blocks nor allocates.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{Timeout, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let raw = timer.schedule(Duration::from_secs(30), || println!("idle"))?.into_raw();
    /// // SAFETY: the pointer comes from `into_raw`, and is used up here.
    /// let idle = unsafe { Timeout::from_raw(raw) };
    /// assert!(idle.cancel());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "a pointer that does not go back to `from_raw` leaks the timeout's memory"]
    pub fn into_raw(self) -> NonNull<()> {
        ManuallyDrop::new(self).handle.address().cast()
    }

    /// Makes the handle again from its pointer. The call neither blocks nor allocates.
    ///
    /// To use a handle without taking it over, wrap the result in a [`ManuallyDrop`]. Several
    /// threads may do so at a time, as they may share a `&Timeout`.
    ///
    /// # Safety
    /// The pointer comes from [`into_raw`](Self::into_raw). At most one of the handles that are
    /// made from it is dropped or used by value, and nothing uses the pointer or another such
    /// handle from then on.
    pub unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: `into_raw` took the address from a handle, and did not drop it. The caller makes
        // sure that only one handle gives up what that one owned.
        unsafe { Self::new(raw.cast()) }
    }
}

impl Drop for Timeout {
    fn drop(&mut self) {
        // SAFETY: this is the destructor, which runs once. Nothing reads the field after it.
        Shared::drop_handle(unsafe { ptr::read(&raw const self.handle) });
    }
}

impl fmt::Debug for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match () {
            () if self.is_pending() => "pending",
            () if self.is_expired() => "expired",
            () => "cancelled",
        };
        f.debug_struct("Timeout").field("state", &state).field("deadline", &self.deadline()).finish()
    }
}
