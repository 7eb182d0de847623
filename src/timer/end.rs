//! The end of an engine: a shutdown that blocks, and one that async code awaits.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{Shutdown, ShutdownError, Timer, Unfired};
use crate::executor::is_running_a_task;
use crate::panics;
use crate::sync::{Arc, Mutex, lock, thread};
use crate::sys::cores::spawn_ordinary;
use crate::sys::fork;

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
        if self.is_global() { Err(ShutdownError::Global) } else { self.engine.shutdown(is_in_a_task, how) }
    }

    /// Returns whether the engine accepts nothing any more, and never will.
    ///
    /// That is so when a shutdown has closed all shards, or the driver has gone. The shutdown may
    /// still be waiting for tasks that run.
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.engine.shared.remotes().iter().all(|remote| remote.is_closed())
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
        let has_thread = !self.engine.is_driven() && {
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
    /// That of the task that waits.
    waker: Option<Waker>,
    /// `None` while the shutdown is under way.
    answer: Option<Answer>,
}

impl Future for ShutdownFuture {
    type Output = Result<Vec<Unfired>, ShutdownError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.is_forked() {
            return Poll::Ready(Err(ShutdownError::Forked));
        }
        // A waker is cloned before the lock, and dropped after it: both are user code.
        let mut waker = Some(context.waker().clone());
        let mut state = lock(&self.state);
        let Some(answer) = &mut state.answer else {
            std::mem::swap(&mut state.waker, &mut waker);
            return Poll::Pending;
        };
        let answer = std::mem::replace(answer, Ok(Err(ShutdownError::AlreadyShutdown)));
        drop(state);
        Poll::Ready(answer.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl ShutdownFuture {
    fn is_forked(&self) -> bool {
        fork::is_forked_since(self.generation)
    }
}

impl Drop for ShutdownFuture {
    /// Lets go of the task that waited: a drain may go on for long.
    fn drop(&mut self) {
        if self.is_forked() {
            return;
        }
        let waker = lock(&self.state).waker.take();
        drop(waker);
    }
}

impl fmt::Debug for ShutdownFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_under_way = self.is_forked() || lock(&self.state).answer.is_none();
        f.debug_struct("ShutdownFuture").field("is_under_way", &is_under_way).finish()
    }
}
