//! How a caller shuts an engine down, and the timeouts that a shutdown hands back.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::{ShutdownError, Timer};
use crate::entry::Task;
use crate::executor::is_running_a_task;
use crate::panics;
use crate::sync::{Arc, Mutex, MutexGuard, lock, thread};
use crate::sys::cores::spawn_ordinary;
use crate::sys::fork;

/// Decides what [`Timer::shutdown_with`](crate::Timer::shutdown_with) does with the pending
/// timeouts.
///
/// Once the shutdown has closed the engine, new timeouts are refused in any case. A periodic
/// timeout ends after the run that is under way, or after the run that the shutdown gives it.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{Shutdown, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// timer.schedule_detached(Duration::from_millis(20), || println!("in time"))?;
/// timer.schedule_detached(Duration::from_secs(3600), || println!("not today"))?;
/// let unfired = timer.shutdown_with(Shutdown::Drain(Duration::from_millis(100)))?;
/// assert_eq!(unfired.len(), 1);
/// # Ok(())
/// # }
/// ```
///
/// # The end of a server
///
/// A server accepts no more connections, tells those that are open, waits for them with a limit,
/// and shuts the engine down last. `integrations/examples/graceful_shutdown.rs` does that.
///
/// # Tasks that sleep
///
/// A shutdown ends the [`Sleep`](crate::Sleep)s and the limits that are pending at that moment. A
/// task that is at work then makes its next one later, or resets it. That one ends at its own
/// deadline, and does not tell of the shutdown. So a task that sleeps in a loop also asks
/// [`Timer::is_shutdown`](crate::Timer::is_shutdown) in each turn, after a reset. Better, it ends
/// by a signal of your own, which ends all tasks at once: it waits with `select!` for its sleep,
/// its work, and a `watch` channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shutdown {
    /// The engine cancels them and hands them back. That includes timeouts that are due and have
    /// not begun to run. A batch that an executor holds which is not built in stays its own.
    #[default]
    Cancel,
    /// The executor runs them now, whatever their deadlines. That includes timeouts that never
    /// fire. Pekko's `TaskRunOnClose` does the same.
    FireNow,
    /// The engine goes on until nothing is pending that will ever be due, or for the given time at
    /// most. So one timeout that is due later makes the drain last all of that time.
    ///
    /// The time bounds the drain, and not the call, which also waits for tasks that run already.
    ///
    /// The time is by the engine's clock. A clock that is moved by hand has to be moved meanwhile,
    /// and one that was stopped has to go on, by another thread. Timeouts that are due by then
    /// still run. The timeouts that are left then are cancelled and handed back. So is a timeout
    /// that waited for a thread when a reset put it off.
    ///
    /// Periodic timeouts do not go on, as is the default of the JDK's
    /// `ScheduledThreadPoolExecutor`: no run of theirs begins any more, and they are handed back. A
    /// run that is under way is the last, and that timeout is not handed back. The drain does not
    /// wait for them. To find them the worker looks at each pending timeout once.
    ///
    /// A driven engine does not wait, because only its driver could. The calling thread runs the
    /// timeouts that are due now, and the rest is handed back at once.
    ///
    /// Where the system has no memory for the wheels' cells, some timeouts that are due may be
    /// handed back, too.
    Drain(Duration),
}

/// A timeout that was still pending when its engine was shut down.
///
/// [`run`](Self::run) runs the task. Dropping it drops the task unrun.
/// [`Timeout::is_cancelled`](crate::Timeout::is_cancelled) of its handle is true.
///
/// They come in no particular order, and have no name. To report which they are, keep a list of
/// them beside the engine, or let the destructor of a captured value say so. The closure has to
/// name the whole value (`let report = &mut report;`): one that uses only `Copy` fields of it
/// copies these, and leaves the value and its destructor outside.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// timer.schedule_detached(Duration::from_secs(3600), || println!("in an hour"))?;
/// timer.schedule_detached(Duration::from_secs(60), || println!("in a minute"))?;
/// let mut unfired = timer.shutdown()?;
/// unfired.sort_by_key(|timeout| timeout.deadline());
/// unfired.into_iter().for_each(|timeout| timeout.run()); // the minute's first
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping an Unfired drops its task without running it"]
pub struct Unfired {
    pub(super) deadline: Instant,
    pub(super) task: Task,
}

impl Unfired {
    /// Returns when it would have fired, as of its last reset. For a periodic timeout this is the
    /// time of its next run.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Runs the task on the calling thread, whatever its deadline. The task of a periodic timeout
    /// runs once.
    ///
    /// The call blocks while the task runs.
    ///
    /// # Panics
    /// Panics if the task does, because nothing catches the panic here.
    pub fn run(self) {
        self.task.run();
    }
}

impl fmt::Debug for Unfired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfired").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// `Err` if a user's clock panicked: the caller of a shutdown that blocks would see that panic.
type Answer = std::thread::Result<Result<Vec<Unfired>, ShutdownError>>;

/// The name of the thread that waits for the end.
const THREAD: &str = "tourbillon-end";

impl Timer {
    /// Shuts the engine down, and returns the timeouts that were pending.
    ///
    /// The engine accepts nothing any more. The call cancels and returns the pending timeouts, and
    /// ends the workers. It allocates the returned vector.
    ///
    /// The call blocks until the workers have ended and the tasks that are already running have
    /// returned. [`ThreadPool`](crate::ThreadPool) and [`Inline`](crate::Inline) begin no other
    /// task meanwhile. If the caller is a task of another engine, the call does not wait for
    /// batches that have not begun, because they may be waiting for its thread.
    ///
    /// When the call returns, every timeout that was ever accepted has run, or was cancelled, or is
    /// in the returned vector. There are two exceptions: batches that the call did not wait for,
    /// and batches that a user's executor holds. They run later. If a reset puts one of their
    /// timeouts off, it is dropped.
    ///
    /// Futures that sleep are not in the returned vector. They are ready now, and say so
    /// ([`Sleep::ended_by_shutdown`](crate::Sleep::ended_by_shutdown)).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// timer.schedule_detached(Duration::from_secs(3600), || println!("save"))?;
    /// for unfired in timer.shutdown()? {
    ///     unfired.run(); // or drop it
    /// }
    /// assert!(timer.is_shutdown() && timer.schedule(Duration::ZERO, || ()).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// * [`ShutdownError::FromTask`] if the caller is one of the engine's own tasks.
    /// * [`ShutdownError::AlreadyShutdown`] for all calls after the first, which may still be in
    ///   progress.
    /// * [`ShutdownError::Forked`] in a child process that was forked off after the engine was
    ///   made.
    /// * [`ShutdownError::Global`] for the [`global`](Self::global) engine.
    /// * [`ShutdownError::OutOfMemory`] if there is no memory for the returned vector. The engine
    ///   is shut down then, and another call returns the timeouts.
    pub fn shutdown(&self) -> Result<Vec<Unfired>, ShutdownError> {
        self.shutdown_with(Shutdown::Cancel)
    }

    /// Shuts the engine down, and `how` decides what happens to the pending timeouts. Returns those
    /// that are left.
    ///
    /// Otherwise it is [`shutdown`](Self::shutdown).
    ///
    /// # Errors
    /// Returns the errors of [`shutdown`](Self::shutdown).
    pub fn shutdown_with(&self, how: Shutdown) -> Result<Vec<Unfired>, ShutdownError> {
        self.shutdown_for(is_running_a_task(), how)
    }

    /// `is_in_a_task` says whether a task of any engine waits for the result.
    fn shutdown_for(&self, is_in_a_task: bool, how: Shutdown) -> Result<Vec<Unfired>, ShutdownError> {
        if self.is_global() { Err(ShutdownError::Global) } else { self.owner.engine.shutdown(is_in_a_task, how) }
    }

    /// Returns whether the engine accepts nothing any more, and never will.
    ///
    /// That is so when a shutdown has closed all shards, or the driver has gone. The shutdown may
    /// still be waiting for tasks that run.
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.owner.shared.remotes().iter().all(|remote| remote.is_closed())
    }

    /// Shuts the engine down as [`shutdown_with`](Self::shutdown_with) does, without blocking the
    /// caller. As there, futures that sleep are ready then, and not among what comes back.
    ///
    /// A thread that lives for this one shutdown does the waiting. The call starts it and
    /// allocates. The engine may accept timeouts until that thread has closed it; when the future
    /// is ready it accepts none. Dropping the future does not stop the shutdown; it drops the
    /// timeouts that would have been handed back. So a limit around the future bounds the wait, and
    /// loses them if it is first.
    ///
    /// One of the engine's own tasks may call this, too. It must return and not wait for the
    /// future, because the shutdown waits for it. If a task of another engine calls this, the
    /// shutdown does not wait for batches that have not begun, as with
    /// [`shutdown`](Self::shutdown).
    ///
    /// A driven engine has no threads, so the call itself does the shutdown, and the future is
    /// ready. Called by one of its own tasks, the future's result is
    /// [`FromTask`](ShutdownError::FromTask).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{Shutdown, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # pollster::block_on(async {
    /// let timer = Timer::new()?;
    /// timer.schedule_detached(Duration::from_secs(3600), || println!("not today"))?;
    /// let unfired = timer.shutdown_async(Shutdown::Cancel).await?;
    /// assert_eq!(unfired.len(), 1);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    /// The future's result may be any error of [`shutdown`](Self::shutdown). It is
    /// [`FromTask`](ShutdownError::FromTask) only for a driven engine, or if the system gives no
    /// thread. Then the call itself does the shutdown, and blocks. It is
    /// [`Forked`](ShutdownError::Forked) in a child process that is forked off after the call, too.
    ///
    /// # Panics
    /// The future panics if the engine goes by a [`Clock`](crate::Clock) of the user's that has
    /// panicked. The engine is not shut down then.
    pub fn shutdown_async(&self, how: Shutdown) -> ShutdownFuture {
        let state = Arc::new(Mutex::new(State { waker: None, answer: None }));
        let is_in_a_task = is_running_a_task();
        let shut_down = move |timer: &Timer, state: &Mutex<State>| {
            let answer = catch_unwind(AssertUnwindSafe(|| timer.shutdown_for(is_in_a_task, how)));
            let mut state = lock(state);
            state.answer = Some(answer);
            let waker = state.waker.take();
            // A waker is the user's.
            drop(state);
            panics::catch(|| waker.map(Waker::wake));
        };
        let has_thread = !self.owner.engine.is_driven() && {
            let (timer, theirs) = (self.clone(), Arc::clone(&state));
            let on_thread = move || {
                shut_down(&timer, &theirs);
                // If the future has gone, this drops what nobody has asked for.
                panics::catch(|| drop(theirs));
            };
            spawn_ordinary(thread::Builder::new().name(THREAD.to_owned()), on_thread).is_ok()
        };
        if !has_thread {
            shut_down(self, &state);
        }
        ShutdownFuture { state, generation: fork::generation() }
    }
}

/// A shutdown that is under way. [`Timer::shutdown_async`] begins it.
///
/// It is ready with the timeouts that were pending, as [`Timer::shutdown_with`] returns them: no
/// sleeps. If it is polled once more, the result is [`ShutdownError::AlreadyShutdown`]. It needs no
/// runtime.
#[must_use = "the shutdown goes on, but the timeouts that it hands back are dropped"]
pub struct ShutdownFuture {
    state: Arc<Mutex<State>>,
    /// [`fork::generation`] when it was made. In a forked child the thread that does the shutdown
    /// does not exist, and may hold the lock for ever.
    generation: u64,
}

struct State {
    /// The waker of the task that waits.
    waker: Option<Waker>,
    /// `None` while the shutdown is under way.
    answer: Option<Answer>,
}

impl ShutdownFuture {
    /// Returns `None` in a forked child: the thread that may hold the lock is not there.
    fn state(&self) -> Option<MutexGuard<'_, State>> {
        (!fork::is_forked_since(self.generation)).then(|| lock(&self.state))
    }
}

impl Future for ShutdownFuture {
    type Output = Result<Vec<Unfired>, ShutdownError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A waker is cloned before the lock, and dropped after it: both are user code.
        let mut waker = Some(context.waker().clone());
        let Some(mut state) = self.state() else { return Poll::Ready(Err(ShutdownError::Forked)) };
        let Some(answer) = &mut state.answer else {
            std::mem::swap(&mut state.waker, &mut waker);
            return Poll::Pending;
        };
        let answer = std::mem::replace(answer, Ok(Err(ShutdownError::AlreadyShutdown)));
        drop(state);
        Poll::Ready(answer.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl Drop for ShutdownFuture {
    /// Lets go of the task that waited: a drain may go on for long.
    fn drop(&mut self) {
        // The waker is dropped after the unlock.
        let waker = self.state().and_then(|mut state| state.waker.take());
        drop(waker);
    }
}

impl fmt::Debug for ShutdownFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_under_way = self.state().is_none_or(|state| state.answer.is_none());
        f.debug_struct("ShutdownFuture").field("is_under_way", &is_under_way).finish()
    }
}
