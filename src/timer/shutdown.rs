//! How a caller shuts an engine down, and the timeouts that a shutdown hands back.

use std::fmt;
use std::time::{Duration, Instant};

use crate::entry::Task;

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
    /// and one that was stopped has to go on, by another thread. What is due by then still runs.
    /// The timeouts that are left then are cancelled and handed back. So is a timeout that waited
    /// for a thread when a reset put it off.
    ///
    /// Periodic timeouts do not go on, as is the default of the JDK's
    /// `ScheduledThreadPoolExecutor`: no run of theirs begins any more, and they are handed back. A
    /// run that is under way is the last, and that timeout is not handed back. The drain does not
    /// wait for them. To find them the worker looks at each pending timeout once.
    ///
    /// A driven engine does not wait, because only its driver could. The calling thread runs the
    /// timeouts that are due now, and the rest is handed back at once.
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
