//! A timeout that is armed and disarmed again and again.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::{Refusal, ScheduleError};
use super::schedule::Shard;
use super::{Timeout, Timer};
use crate::engine::{EngineRef, Shared};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::thread::NoWait;
use crate::time::Subtick;

impl Timer {
    /// Makes a timeout that can be armed, disarmed, and armed again after it has fired: one for the
    /// whole life of a connection. It is not armed at first. See [`Reusable`].
    ///
    /// The call allocates twice, and arming it allocates nothing. The call does not block.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{ManualClock, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const IDLE: Duration = Duration::from_secs(30);
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let idle = timer.reusable(|| println!("idle"))?;
    /// for _request in 0..3 {
    ///     idle.disarm(); // while the request is served
    ///     clock.advance(Duration::from_secs(60));
    ///     idle.arm(IDLE)?; // while the connection waits for the next one
    ///     clock.advance(Duration::from_secs(10));
    /// }
    /// assert_eq!(timer.pending(), 1);
    /// clock.advance(IDLE); // prints "idle"
    /// assert!(!idle.is_armed());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Gives the task back if the engine is shut down, or the process was forked off after the
    /// engine was made: see [`Refusal::Shutdown`] and [`Refusal::Forked`].
    pub fn reusable<F>(&self, task: F) -> Result<Reusable, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        if self.owner.shared.is_forked() {
            return Err(ScheduleError::new(Refusal::Forked, task));
        }
        if self.is_shutdown() {
            return Err(ScheduleError::new(Refusal::Shutdown, task));
        }
        let state = State { timeout: None, arming: 0, task: Some(Box::new(task)), waiting: None };
        Ok(Reusable { engine: self.engine_ref(), runs: Arc::new(Runs(Mutex::new(state))) })
    }
}

/// A timeout that is armed and disarmed again and again, as Go's `time.Timer` is by `Reset` and
/// `Stop`, and libuv's by `uv_timer_again`. [`Timer::reusable`] makes it.
///
/// It is pending only while it is armed. Its runs never overlap. Dropping it disarms it; a run that
/// is under way goes on. Like a future it keeps its engine alive until it is dropped.
///
/// A shutdown hands an armed one back. If it has come due during a run, it has fired, and runs when
/// that run has ended. [`FireNow`](crate::Shutdown::FireNow) and [`Drain`](crate::Shutdown::Drain)
/// wait for that run; [`Cancel`](crate::Shutdown::Cancel) disarms it. If you disarm or drop it
/// after a shutdown, its [`Unfired`](crate::Unfired) runs nothing.
///
/// The task may arm and disarm its own timeout. It should hold that by a `Weak`: otherwise the two
/// hold each other, and the engine, for ever.
///
/// ```
/// use std::sync::{Arc, OnceLock};
/// use std::time::Duration;
/// use tourbillon::{ManualClock, Reusable, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let own: Arc<OnceLock<Reusable>> = Arc::default();
/// let (this, mut pause) = (Arc::downgrade(&own), Duration::from_secs(1));
/// let retry = timer.reusable(move || {
///     pause *= 2; // try something here, and once more later
///     if let Some(this) = this.upgrade()
///         && let Some(retry) = this.get()
///     {
///         let _ = retry.arm(pause); // an error: the engine is full, or shut down
///     }
/// })?;
/// own.get_or_init(|| retry).arm(pause)?;
/// clock.advance(Duration::from_secs(1));
/// assert!(own.get().is_some_and(Reusable::is_armed));
/// # Ok(())
/// # }
/// ```
///
/// A lock of its own keeps its operations in one order, so each costs two read-modify-writes more
/// than that of a [`Timeout`]. Nobody holds the lock while the task runs, or while an arming waits
/// for a worker that is behind. An arming holds it while it schedules. Code that the engine calls
/// then, a `tracing` subscriber or the callback of
/// [`Driver::on_earlier`](crate::Driver::on_earlier), must not use the same `Reusable`.
///
/// If the task panics, the panic is counted and reported like that of every task, and the timeout
/// may be armed again.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let retransmit = timer.reusable(|| println!("send it again"))?;
/// retransmit.arm(Duration::from_millis(200))?; // a packet was sent
/// assert!(retransmit.disarm()); // it was acknowledged
/// retransmit.arm(Duration::from_millis(300))?; // the next one
/// assert!(retransmit.is_armed());
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a Reusable disarms it"]
pub struct Reusable {
    engine: EngineRef,
    runs: Arc<Runs>,
}

/// The state that the handle shares with the timeout that is scheduled for it.
struct Runs(Mutex<State>);

struct State {
    /// Set from the arming until its run begins, or comes due during another run.
    timeout: Option<Timeout>,
    /// The number of the last arming or disarming. A timeout of an earlier one does not run.
    arming: u64,
    /// `None` during a run.
    task: Option<Box<dyn FnMut() + Send>>,
    /// The deadline of an arming that has come due during a run, and waits for its end.
    waiting: Option<Subtick>,
}

impl Reusable {
    /// Arms it: the task runs once, when `delay` has passed. If it is armed already, this moves it,
    /// to an earlier or a later time.
    ///
    /// A run that is under way is not affected. If the new time comes during that run, the next one
    /// is due when it has ended. The call blocks and allocates as [`Timer::schedule`] does.
    ///
    /// # Errors
    /// Any [`Refusal`] that [`Timer::schedule`] may give: there is no task to hand back. Nothing
    /// has changed then.
    pub fn arm(&self, delay: Duration) -> Result<(), Refusal> {
        self.arm_to(self.engine.shared().timeline().deadline_after(delay))
    }

    /// Arms it for a point in time. If that has passed, the task runs at once, or at the end of
    /// this part of a tick. Otherwise it is [`arm`](Self::arm).
    ///
    /// # Errors
    /// As for [`arm`](Self::arm).
    pub fn arm_at(&self, deadline: Instant) -> Result<(), Refusal> {
        self.arm_to(self.engine.shared().timeline().deadline_at(deadline))
    }

    /// Disarms it. Returns true if it was armed and its run had not begun: that run won't begin.
    ///
    /// The call does not block on a run that is under way, and does not affect it.
    pub fn disarm(&self) -> bool {
        let Some(mut state) = self.state() else { return false };
        let was_armed = state.is_armed();
        let timeout = state.timeout.take();
        state.waiting = None;
        // It may have been claimed, and wait for the lock.
        state.arming += 1;
        drop(state);
        timeout.map(Timeout::cancel_owned);
        was_armed
    }

    /// Returns whether it is armed, and its run has not begun. After a shutdown it is not, once a
    /// run that is under way has ended.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.state().is_some_and(|state| state.is_armed())
    }

    /// Returns `None` in a forked child: another thread of the parent may hold the lock for ever.
    fn state(&self) -> Option<MutexGuard<'_, State>> {
        (!self.engine.shared().is_forked()).then(|| lock(&self.runs.0))
    }

    fn arm_to(&self, deadline: Subtick) -> Result<(), Refusal> {
        if self.engine.shared().is_forked() {
            return Err(Refusal::Forked);
        }
        // The worker may wait for the lock, so nobody waits for the worker under it.
        self.engine.shared().wait_for_entry();
        let _no_wait = NoWait::begin();
        let mut state = lock(&self.runs.0);
        if state.timeout.as_ref().is_some_and(|timeout| timeout.reset_to(deadline)) {
            return Ok(());
        }
        // It was not armed, or its run has not begun and is not to begin: this arming moves it.
        self.runs.schedule(&mut state, self.engine.shared(), deadline)
    }
}

impl State {
    fn is_armed(&self) -> bool {
        self.waiting.is_some() || self.timeout.as_ref().is_some_and(|timeout| !timeout.is_cancelled())
    }
}

impl Runs {
    /// Schedules a timeout for a new arming. If it is refused, nothing has changed.
    fn schedule(self: &Arc<Self>, state: &mut State, shared: &Shared, deadline: Subtick) -> Result<(), Refusal> {
        // The caller holds the lock, for which the worker may wait.
        let _no_wait = NoWait::begin();
        let (runs, arming) = (Arc::clone(self), state.arming + 1);
        let submitted = Shard::home(shared).submit(deadline, move || runs.run(arming));
        let timeout = submitted.map_err(|refused| refused.kind())?;
        state.timeout = Some(timeout);
        state.arming = arming;
        state.waiting = None;
        Ok(())
    }

    /// Runs the task for a timeout that is due, if no later arming or disarming has taken its
    /// place.
    fn run(self: &Arc<Self>, arming: u64) {
        let mut state = lock(&self.0);
        // A thread that has taken the timeout out has begun another arming.
        let is_current = state.arming == arming;
        let Some(timeout) = state.timeout.take_if(|_| is_current) else { return };
        let Some(mut task) = state.task.take() else {
            state.waiting = Some(timeout.handle.snapshot().deadline());
            return;
        };
        let mut panic = None;
        loop {
            drop(state);
            if let Err(this) = catch_unwind(AssertUnwindSafe(&mut task)) {
                panic.replace(this).into_iter().for_each(|before| timeout.shared().report(before));
            }
            state = lock(&self.0);
            let Some(deadline) = state.waiting.take() else { break };
            if !self.runs_on(&mut state, timeout.shared(), deadline) {
                break;
            }
        }
        state.task = Some(task);
        drop(state);
        if let Some(panic) = panic {
            // The runner reports it, as that of every task.
            resume_unwind(panic);
        }
    }

    /// Schedules the run that came due during another one. So other timeouts have their turn before
    /// it. Returns true if the thread that asks is to run it: there is no place for it, or no
    /// memory, or a shutdown runs what is due, and waits for this thread. If the engine has ended
    /// otherwise, nobody runs it.
    fn runs_on(self: &Arc<Self>, state: &mut State, shared: &Shared, deadline: Subtick) -> bool {
        match self.schedule(state, shared, deadline) {
            Err(Refusal::Full | Refusal::OutOfMemory) => true,
            Err(Refusal::Shutdown) => {
                shared.remotes().iter().any(|remote| remote.is_to_fire() || remote.drains_until().is_some())
            }
            Ok(()) | Err(Refusal::Forked | Refusal::ZeroPeriod) => false,
        }
    }
}

impl Drop for Reusable {
    fn drop(&mut self) {
        self.disarm();
    }
}

impl fmt::Debug for Reusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reusable").field("is_armed", &self.is_armed()).finish_non_exhaustive()
    }
}
