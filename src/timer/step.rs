//! Moves a manual clock from deadline to deadline.

use std::time::Duration;

use super::Timer;
use crate::executor::is_running_a_task;
use crate::time::{Follower, ManualClock};

impl ManualClock {
    /// Moves the clock to the next deadline of `timer`, and returns whether there was one.
    ///
    /// If the timer has workers, the call blocks until all timeouts that are due then have run.
    /// With a driven engine, [`Driver::turn`](crate::Driver::turn) runs them. A timeout that is
    /// already due is the next deadline, too: the clock then stays where it is, and the timeout
    /// runs.
    ///
    /// The call returns false, and the clock stays where it is, in these cases:
    ///
    /// * Nothing is pending that will ever be due, within the 292 years that the clock can go.
    /// * The timer's [`PausableClock`](crate::PausableClock) over this clock stands still.
    /// * The timer is on another clock.
    /// * The caller is a task.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{ManualClock, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let start = clock.now();
    /// let day = Duration::from_secs(24 * 3600);
    /// timer.schedule_detached(90 * day, || println!("a quarter later"))?;
    /// timer.schedule_detached(7 * day, || println!("a week later"))?;
    /// assert!(clock.advance_to_next(&timer));
    /// assert_eq!(clock.now() - start, 7 * day);
    /// assert!(clock.advance_to_next(&timer));
    /// assert_eq!(clock.now() - start, 90 * day);
    /// assert!(!clock.advance_to_next(&timer));
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance_to_next(&self, timer: &Timer) -> bool {
        if is_running_a_task() {
            return false;
        }
        let _step = self.step();
        let engine = &timer.owner.engine;
        let is_its_clock = engine.shared.timeline().as_manual().is_some_and(|clock| clock.is_same(self));
        let next = is_its_clock.then(|| engine.until_next()).flatten().filter(|&until| self.reaches(until));
        next.inspect(|&until| self.advance(until)).is_some()
    }

    /// Moves the clock forward by `by`, from deadline to deadline, and waits at each until what is
    /// due there has run.
    ///
    /// So a task finds the clock at its own deadline, and a periodic timeout runs as often as it
    /// would. The deadlines are those of all engines with workers on this clock. A driven engine is
    /// turned by its owner, who goes from one [`advance_to_next`](Self::advance_to_next) to the
    /// next.
    ///
    /// The call does not wait for tasks of a runtime. It may pass the time of a sleep that a woken
    /// task has not made yet: see [Futures](ManualClock#futures).
    ///
    /// At each step the call hands over to other threads and waits for them. For thousands of steps
    /// [`Inline`](crate::Inline) takes about a third of the time, and a driven engine a tenth.
    ///
    /// Called from a task, it is [`advance`](Self::advance).
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
    /// let (runs, second) = (Arc::new(AtomicU32::new(0)), Duration::from_secs(1));
    /// let count = Arc::clone(&runs);
    /// let task = move || _ = count.fetch_add(1, Ordering::Relaxed);
    /// let beat = timer.schedule_at_fixed_rate(second, second, task)?;
    /// clock.advance_through(60 * second);
    /// assert_eq!(runs.load(Ordering::Relaxed), 60);
    /// # assert!(beat.cancel());
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance_through(&self, by: Duration) {
        if is_running_a_task() {
            return self.advance(by);
        }
        let _step = self.step();
        let end = self.now().checked_add(by);
        let left = || end.map_or(Duration::MAX, |end| end.saturating_duration_since(self.now()));
        while let Some(until) = self.until_next().filter(|&until| until <= left() && self.reaches(until)) {
            self.advance(until);
        }
        self.advance(left());
    }
}
