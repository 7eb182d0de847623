//! The handle that schedules on a local engine.

use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::engine::{LocalEngine, Refused};
use super::{LocalSleep, LocalTimeout, LocalTimeoutFuture};
use crate::entry::{ArmFlags, Task};
use crate::time::Subtick;
use crate::timer::ScheduleError;

/// Schedules timeouts on an engine of one thread: of an event loop, or of a runtime that has one
/// for each core, as monoio, compio and glommio have.
/// [`Builder::build_local`](crate::Builder::build_local) makes it, and its
/// [`LocalDriver`](crate::LocalDriver), which runs what is due.
///
/// It is [`Timer`](crate::Timer) for tasks and futures that need not be `Send`. None of it is
/// shared, so its calls have no lock and no read-modify-write of an atomic, and a `cancel` takes
/// the timeout out of its slot at once. A clone is another handle of the same engine, and costs a
/// count.
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// let (timer, _driver) = tourbillon::Timer::builder().build_local().unwrap();
/// std::thread::spawn(move || timer.now());
/// ```
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use std::time::{Duration, Instant};
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (timer, mut driver) = Timer::builder().build_local()?;
/// let open = Rc::new(Cell::new(3)); // not `Send`
/// let closes = Rc::clone(&open);
/// let idle = timer.schedule(Duration::from_millis(2), move || closes.set(closes.get() - 1))?;
/// assert!(idle.reset(Duration::from_millis(5))); // at each packet
/// while let Some(at) = driver.next_wakeup() {
///     // The loop waits for its sockets here, for no longer than this.
///     std::thread::sleep(at.saturating_duration_since(Instant::now()));
///     driver.turn();
/// }
/// assert_eq!(open.get(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LocalTimer {
    engine: Rc<LocalEngine>,
}

impl LocalTimer {
    pub(super) fn new(engine: Rc<LocalEngine>) -> Self {
        Self { engine }
    }

    /// Schedules a task that runs once, `delay` from now, on this thread.
    ///
    /// The task runs in [`LocalDriver::turn`](crate::LocalDriver::turn), never early.
    /// [`Duration::MAX`] means never. Dropping the returned handle lets the timeout run.
    ///
    /// The call does not block. It allocates if the task captures more than 24 bytes, or if there
    /// is no free memory for the timeout.
    ///
    /// # Errors
    /// Gives the task back in a [`ScheduleError`] if the driver is gone, if there are
    /// [`max_pending_timeouts`](crate::Builder::max_pending_timeouts), or if there is no memory.
    #[inline]
    pub fn schedule<F: FnOnce() + 'static>(&self, delay: Duration, task: F) -> Result<LocalTimeout, ScheduleError<F>> {
        self.hold(task, self.engine.timeline.deadline_after(delay))
    }

    /// Schedules a task at a point in time. Otherwise it is [`schedule`](Self::schedule).
    ///
    /// The call reads no clock, unless it is a user's. So a loop that has read the time once in a
    /// round schedules all of that round's timeouts with it:
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (timer, _driver) = Timer::builder().build_local()?;
    /// let now = timer.now(); // once a round
    /// for connection in 0..3 {
    ///     let idle = move || println!("{connection} is idle");
    ///     let _ = timer.schedule_at(now + Duration::from_secs(30), idle)?;
    /// }
    /// assert_eq!(timer.pending(), 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The same as [`schedule`](Self::schedule).
    #[inline]
    pub fn schedule_at<F: FnOnce() + 'static>(
        &self,
        deadline: Instant,
        task: F,
    ) -> Result<LocalTimeout, ScheduleError<F>> {
        self.hold(task, self.engine.timeline.deadline_at(deadline))
    }

    /// Schedules a task that nobody will cancel or reset. It is [`schedule`](Self::schedule)
    /// without a handle.
    ///
    /// # Errors
    /// The same as [`schedule`](Self::schedule).
    #[inline]
    pub fn schedule_detached<F: FnOnce() + 'static>(&self, delay: Duration, task: F) -> Result<(), ScheduleError<F>> {
        let deadline = self.engine.timeline.deadline_after(delay);
        self.engine.arm_detached(local(task), deadline).map_err(give_back)
    }

    #[inline]
    fn hold<F: FnOnce() + 'static>(&self, task: F, deadline: Subtick) -> Result<LocalTimeout, ScheduleError<F>> {
        match self.engine.arm_held(local(task), deadline, ArmFlags::HANDLE) {
            Ok(handle) => Ok(LocalTimeout::new(Rc::clone(&self.engine), handle)),
            Err(refused) => Err(give_back(refused)),
        }
    }

    /// Returns a future that is ready after `delay` from now. See [`LocalSleep`].
    pub fn sleep(&self, delay: Duration) -> LocalSleep {
        LocalSleep::until(Rc::clone(&self.engine), self.engine.timeline.deadline_after(delay))
    }

    /// Returns a future that is ready at a point in time. If that time has passed, it is ready at
    /// once. Otherwise it is [`sleep`](Self::sleep).
    pub fn sleep_until(&self, deadline: Instant) -> LocalSleep {
        LocalSleep::until(Rc::clone(&self.engine), self.engine.timeline.deadline_at(deadline))
    }

    /// Returns a future that gives `future` a time limit, which counts from the first poll at which
    /// `future` is not ready. Its result is a `Result`, with [`Elapsed`](crate::Elapsed) if the
    /// limit was first.
    ///
    /// ```
    /// use std::rc::Rc;
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (timer, _driver) = Timer::builder().build_local()?;
    /// let answer = Rc::new(42); // not `Send`
    /// let limited = timer.timeout(Duration::from_secs(1), async move { *answer });
    /// assert_eq!(pollster::block_on(limited), Ok(42));
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout<T: Future>(&self, limit: Duration, future: T) -> LocalTimeoutFuture<T> {
        LocalTimeoutFuture::after(LocalSleep::until(Rc::clone(&self.engine), Subtick::NEVER), limit, future)
    }

    /// Returns a future that gives `future` a deadline. Otherwise it is [`timeout`](Self::timeout).
    pub fn timeout_at<T: Future>(&self, deadline: Instant, future: T) -> LocalTimeoutFuture<T> {
        let deadline_ns = self.engine.timeline.scale().ns_at(deadline);
        LocalTimeoutFuture::until(LocalSleep::until(Rc::clone(&self.engine), Subtick::NEVER), deadline_ns, future)
    }

    /// Returns the time by the engine's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.engine.timeline.now()
    }

    /// Returns how many timeouts are pending, futures that sleep included.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.engine.pending()
    }

    /// Returns how many timeouts have fired, futures included. A turn counts its own when it ends.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.engine.fired.get()
    }

    /// Returns how many tasks, wakers and callbacks have panicked. The process's panic hook has
    /// shown each.
    #[must_use]
    pub fn panicked(&self) -> u64 {
        self.engine.panicked.get()
    }
}

#[inline]
fn local<F: FnOnce() + 'static>(task: F) -> Task {
    // SAFETY: the task goes into an entry of an engine that is in an `Rc`, which never leaves this
    // thread, or comes back at once.
    unsafe { Task::new_local(task) }
}

#[cold]
fn give_back<F: FnOnce() + 'static>(refused: Refused) -> ScheduleError<F> {
    // SAFETY: `local` made the task of an `F`, and it was not armed.
    ScheduleError::new(refused.why, unsafe { refused.task.into_inner::<F>() })
}

impl fmt::Debug for LocalTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalTimer").field("pending", &self.pending()).finish_non_exhaustive()
    }
}
