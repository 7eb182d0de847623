//! Periodic timeouts whose period can be changed.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::error::ScheduleError;
use super::schedule::Target;
use super::timeout::Timeout;
use crate::entry::{MissedTicks, Next, Repeat, Schedule};
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::time::saturating_ns;

impl Target<'_> {
    pub(super) fn every<F>(self, period: Duration, task: F) -> Result<Periodic, ScheduleError<F>>
    where
        F: FnMut(&mut Run<'_>) + Send + 'static,
    {
        let shared = Arc::new(Period::new(period));
        let repeat = FnEvery { task, period: Arc::clone(&shared) };
        let schedule = Schedule::fixed_rate(period, MissedTicks::Skip);
        let timeout = self.series(period, schedule, repeat, |every| every.task)?;
        Ok(Periodic { timeout, period: shared })
    }
}

/// The period, which the handle and the runs share. In nanoseconds; no protocol depends on it.
#[derive(Debug)]
struct Period(AtomicU64);

impl Period {
    fn new(period: Duration) -> Self {
        Self(AtomicU64::new(saturating_ns(period)))
    }

    fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    #[track_caller]
    fn set(&self, period: Duration) {
        assert!(!period.is_zero(), "the new period is zero: give it one of at least a nanosecond");
        self.0.store(saturating_ns(period), Ordering::Relaxed);
    }
}

/// A closure that is told of its run.
struct FnEvery<F> {
    task: F,
    period: Arc<Period>,
}

impl<F: FnMut(&mut Run<'_>) + Send + 'static> Repeat for FnEvery<F> {
    fn run(&mut self) -> Next {
        let mut run = Run { period: &self.period, ends: false };
        (self.task)(&mut run);
        if run.ends { Next::Done } else { Next::Every(self.period.get()) }
    }
}

/// The handle of a periodic timeout whose period can be changed.
/// [`Timer::schedule_every`](crate::Timer::schedule_every) makes it. It has all methods of a
/// [`Timeout`].
///
/// Dropping it does not end the timeout: [`cancel`](Timeout::cancel) does.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let beat = timer.schedule_every(Duration::from_secs(10), |_| println!("still here"))?;
/// assert!(beat.set_period(Duration::from_secs(60))); // the other side asked for fewer
/// assert!(beat.remaining() > Duration::from_secs(50));
/// assert!(beat.cancel());
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a Periodic detaches it: it still runs, and can't be changed or cancelled any more"]
pub struct Periodic {
    timeout: Timeout,
    period: Arc<Period>,
}

impl Periodic {
    /// Returns the period.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period.get()
    }

    /// Changes the period, and moves the next run to one new period from now, as Go's
    /// `Ticker.Reset` does. Returns false if the timeout has ended; nothing moves then.
    ///
    /// Called during a run, it moves the run after that one. It waits and allocates as
    /// [`Timeout::reset`] does.
    ///
    /// # Panics
    /// Panics if the period is zero.
    #[must_use = "false: the timeout has ended"]
    #[track_caller]
    pub fn set_period(&self, period: Duration) -> bool {
        self.period.set(period);
        self.timeout.reset(period)
    }

    /// Returns the plain handle, which can't change the period.
    pub fn into_timeout(self) -> Timeout {
        self.timeout
    }
}

impl Deref for Periodic {
    type Target = Timeout;

    fn deref(&self) -> &Timeout {
        &self.timeout
    }
}

impl fmt::Debug for Periodic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Periodic").field("timeout", &self.timeout).field("period", &self.period()).finish()
    }
}

/// One run of a periodic timeout, as its task sees it: see
/// [`Timer::schedule_every`](crate::Timer::schedule_every).
#[derive(Debug)]
pub struct Run<'a> {
    period: &'a Period,
    ends: bool,
}

impl Run<'_> {
    /// Returns the period.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period.get()
    }

    /// Changes the period. The next run is due one new period after this one was due.
    ///
    /// # Panics
    /// Panics if the period is zero. Like any panic of the task that ends the timeout.
    #[track_caller]
    pub fn set_period(&mut self, period: Duration) {
        self.period.set(period);
    }

    /// Makes this the last run. The task goes on until it returns.
    pub fn end(&mut self) {
        self.ends = true;
    }
}
