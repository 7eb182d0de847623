//! Periodic timeouts.

use std::time::Duration;

use super::Timer;
use super::error::ScheduleError;
use super::timeout::Timeout;
use crate::entry::{MissedTicks, Schedule};

impl Timer {
    /// Runs `task` periodically: first after `initial`, and the k-th time k `period`s after
    /// that.
    ///
    /// Deadlines come from this schedule and not from the ends of runs, so a periodic timeout
    /// does not drift. If a run ends when the next one is already due, the missed runs are
    /// [skipped](MissedTicks::Skip): a task of 110 ms at a rate of 100 ms runs every 200 ms.
    /// [`schedule_at_fixed_rate_with`](Self::schedule_at_fixed_rate_with) has the other
    /// choices.
    ///
    /// Runs of one periodic timeout never overlap. A panic of the task ends it. Its handle ends
    /// it by [`cancel`](Timeout::cancel), and moves its next run by [`reset`](Timeout::reset).
    /// It counts as one pending timeout, also while it runs. To end it after some runs, let the
    /// task [cancel its own handle](Timeout::cancel), or use
    /// [`schedule_repeating`](Self::schedule_repeating). The call allocates once, for all runs.
    /// Otherwise it allocates and waits as [`schedule`](Self::schedule) does.
    ///
    /// A task that needs the time may capture a clone of the `Timer`, if a
    /// [`TimeoutGuard`](crate::TimeoutGuard) outside of the task cancels it. A detached one would
    /// keep its engine alive for ever.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::Duration;
    /// use tourbillon::{ManualClock, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let runs = Arc::new(AtomicU32::new(0));
    /// let count = Arc::clone(&runs);
    /// let second = Duration::from_secs(1);
    /// let beat = move || _ = count.fetch_add(1, Ordering::Relaxed);
    /// let heartbeat = timer.schedule_at_fixed_rate(second, second, beat)?;
    /// for _ in 0..3 {
    ///     clock.advance(second);
    /// }
    /// assert_eq!(runs.load(Ordering::Relaxed), 3);
    /// assert!(heartbeat.cancel());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule), and
    /// [`Refusal::ZeroPeriod`](crate::Refusal::ZeroPeriod) if `period` is zero.
    pub fn schedule_at_fixed_rate<F>(
        &self,
        initial: Duration,
        period: Duration,
        task: F,
    ) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.schedule_at_fixed_rate_with(initial, period, MissedTicks::default(), task)
    }

    /// Runs `task` periodically at a fixed rate, and `missed` decides what happens to missed
    /// runs.
    ///
    /// Otherwise it is [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::Duration;
    /// use tourbillon::{ManualClock, MissedTicks, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let runs = Arc::new(AtomicU32::new(0));
    /// let count = Arc::clone(&runs);
    /// let second = Duration::from_secs(1);
    /// let task = move || _ = count.fetch_add(1, Ordering::Relaxed);
    /// let _beat =
    ///     timer.schedule_at_fixed_rate_with(second, second, MissedTicks::Burst, task)?;
    /// clock.advance(3 * second); // three runs are due, and a burst makes up for two of them
    /// assert_eq!(runs.load(Ordering::Relaxed), 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    pub fn schedule_at_fixed_rate_with<F>(
        &self,
        initial: Duration,
        period: Duration,
        missed: MissedTicks,
        task: F,
    ) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.home_shard().series(initial, Schedule::FixedRate { period, missed }, task, run_by_schedule)
    }

    /// Runs `task` periodically: first after `initial`, and then `delay` after each run has
    /// ended.
    ///
    /// Otherwise it is [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let second = Duration::from_secs(1);
    /// let ask = || println!("ask the other side");
    /// let poll = timer.schedule_with_fixed_delay(second, 5 * second, ask)?;
    /// assert_eq!(timer.pending(), 1);
    /// assert!(poll.cancel()); // no run begins after this
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule), and
    /// [`Refusal::ZeroPeriod`](crate::Refusal::ZeroPeriod) if `delay` is zero.
    pub fn schedule_with_fixed_delay<F>(
        &self,
        initial: Duration,
        delay: Duration,
        task: F,
    ) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.home_shard().series(initial, Schedule::FixedDelay(delay), task, run_by_schedule)
    }

    /// Runs `task` first after `initial`, and then whenever its last run said.
    ///
    /// Each run returns how long after its end the next run is due, or `None` if there is none.
    /// A delay of zero means the next tick here, and not at once, so that a task can't run
    /// without a break. Use it for schedules of your own, such as retries that back off, and
    /// calendars. Otherwise it is [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let mut pause = Duration::from_millis(100);
    /// let retries = timer.schedule_repeating(Duration::ZERO, move || {
    ///     let done = false; // try something here
    ///     let next = pause;
    ///     pause *= 2;
    ///     (!done).then_some(next)
    /// })?;
    /// # drop(retries);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule).
    pub fn schedule_repeating<F>(&self, initial: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnMut() -> Option<Duration> + Send + 'static,
    {
        self.home_shard().series(initial, Schedule::AsTaskSays, task, |task| task())
    }
}

/// Runs a task that says nothing about the next run.
fn run_by_schedule(task: &mut impl FnMut()) -> Option<Duration> {
    task();
    Some(Duration::ZERO)
}
