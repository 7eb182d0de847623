//! Moves a manual clock from deadline to deadline.

use super::Timer;
use crate::executor::is_running_a_task;
use crate::time::ManualClock;

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
        let engine = &timer.engine;
        let is_its_clock = engine.shared.timeline().as_manual().is_some_and(|clock| clock.is_same(self));
        let Some(until) = is_its_clock.then(|| engine.until_next()).flatten() else { return false };
        let is_in_reach = self.reaches(until);
        if is_in_reach {
            self.advance(until);
        }
        is_in_reach
    }
}
