//! The handle that schedules on a local engine.

use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tourbillon_wheel::NEVER;

use crate::engine::Engine;
use crate::task::Task;
use crate::{LocalBuilder, LocalSleep, LocalTimeout, LocalTimeoutFuture, ScheduleError};

/// Schedules timeouts on an engine of one thread: of an event loop, or of a runtime that has one
/// for each core, as monoio, compio and glommio have.
/// [`LocalBuilder::build`](crate::LocalBuilder::build) makes it, and its
/// [`LocalDriver`](crate::LocalDriver), which runs what is due.
///
/// It is [`Timer`](tourbillon::Timer) for tasks and futures that need not be `Send`. None of it is
/// shared, so its calls have no lock and no read-modify-write of an atomic, and a `cancel` takes
/// the timeout out of its slot at once. A clone is another handle of the same engine, and costs a
/// count.
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// let (timer, _driver) = tourbillon_local::LocalTimer::builder().build().unwrap();
/// std::thread::spawn(move || timer.now());
/// ```
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use std::time::{Duration, Instant};
/// use tourbillon_local::LocalTimer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (timer, mut driver) = LocalTimer::builder().build()?;
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
    engine: Rc<Engine>,
}

impl LocalTimer {
    /// Returns the options of an engine for this thread alone.
    pub fn builder() -> LocalBuilder {
        LocalBuilder::new()
    }

    pub(crate) fn new(engine: Rc<Engine>) -> Self {
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
    /// Gives the task back in a [`ScheduleError`] if the driver is gone, or if there is no memory.
    #[inline]
    pub fn schedule<F: FnOnce() + 'static>(&self, delay: Duration, task: F) -> Result<LocalTimeout, ScheduleError<F>> {
        self.hold(task, self.engine.ticks.after(delay))
    }

    /// Schedules a task at a point in time. Otherwise it is [`schedule`](Self::schedule).
    ///
    /// The call reads no clock, unless it is a user's. So a loop that has read the time once in a
    /// round schedules all of that round's timeouts with it:
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon_local::LocalTimer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (timer, _driver) = LocalTimer::builder().build()?;
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
        self.hold(task, self.engine.ticks.at(deadline))
    }

    /// Schedules a task that nobody will cancel or reset. It is [`schedule`](Self::schedule)
    /// without a handle.
    ///
    /// # Errors
    /// The same as [`schedule`](Self::schedule).
    #[inline]
    pub fn schedule_detached<F: FnOnce() + 'static>(&self, delay: Duration, task: F) -> Result<(), ScheduleError<F>> {
        let deadline = self.engine.ticks.after(delay);
        self.engine.arm(deadline, false, task, Task::new).map(drop).map_err(ScheduleError::from)
    }

    #[inline]
    fn hold<F: FnOnce() + 'static>(&self, task: F, deadline: u64) -> Result<LocalTimeout, ScheduleError<F>> {
        let key = self.engine.arm(deadline, true, task, Task::new)?;
        Ok(LocalTimeout::new(Rc::clone(&self.engine), key))
    }

    /// Returns a future that is ready after `delay` from now. See [`LocalSleep`].
    pub fn sleep(&self, delay: Duration) -> LocalSleep {
        LocalSleep::until(Rc::clone(&self.engine), self.engine.ticks.after(delay))
    }

    /// Returns a future that is ready at a point in time. If that time has passed, it is ready at
    /// once, or at the end of this part of a tick. Otherwise it is [`sleep`](Self::sleep).
    pub fn sleep_until(&self, deadline: Instant) -> LocalSleep {
        LocalSleep::until(Rc::clone(&self.engine), self.engine.ticks.at(deadline))
    }

    /// Returns a future that gives `future` a time limit, which counts from the first poll at which
    /// `future` is not ready. Its result is a `Result`, with [`Elapsed`](crate::Elapsed) if the
    /// limit was first.
    ///
    /// ```
    /// use std::rc::Rc;
    /// use std::time::Duration;
    /// use tourbillon_local::LocalTimer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (timer, _driver) = LocalTimer::builder().build()?;
    /// let answer = Rc::new(42); // not `Send`
    /// let limited = timer.timeout(Duration::from_secs(1), async move { *answer });
    /// assert_eq!(pollster::block_on(limited), Ok(42));
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout<T: Future>(&self, limit: Duration, future: T) -> LocalTimeoutFuture<T> {
        LocalTimeoutFuture::after(LocalSleep::until(Rc::clone(&self.engine), NEVER), limit, future)
    }

    /// Returns a future that gives `future` a deadline. Otherwise it is [`timeout`](Self::timeout).
    pub fn timeout_at<T: Future>(&self, deadline: Instant, future: T) -> LocalTimeoutFuture<T> {
        LocalTimeoutFuture::until(LocalSleep::until(Rc::clone(&self.engine), NEVER), deadline, future)
    }

    /// Returns the time by the engine's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.engine.ticks.now()
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

impl fmt::Debug for LocalTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalTimer").field("pending", &self.pending()).finish_non_exhaustive()
    }
}
