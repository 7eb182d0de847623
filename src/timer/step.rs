//! A manual clock that goes from deadline to deadline.

use super::Timer;
use crate::executor::is_running_a_task;
use crate::time::ManualClock;

impl ManualClock {
    /// Moves the clock to the next deadline of `timer`, and, if that has workers, returns when all that is due then has run. (With a driven
    /// engine, [`Driver::turn`](crate::Driver::turn) does the rest.) False, and the clock stays where it is, if nothing is pending that
    /// will ever be due (within the 292 years that the clock can go), if the timer is paused, or on another clock, or if this is called
    /// from a task. What is due already counts as the next deadline: the clock then stays, and what is due runs.
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
