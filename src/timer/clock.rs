//! A timer's time: what it is, and a stop to it.

use std::time::{Duration, Instant};

use super::Timer;

impl Timer {
    /// How long a tick is.
    #[must_use]
    pub fn tick_duration(&self) -> Duration {
        self.engine.shared.timeline().scale().tick_duration()
    }

    /// The last tick that has come, by the engine's clock; the first is 0.
    #[must_use]
    pub fn current_tick(&self) -> u64 {
        self.engine.shared.timeline().current_tick().get()
    }

    /// The time now, by the engine's clock: the real one, or that of [`Builder::clock`](crate::Builder::clock).
    ///
    /// Deadlines count from this time. [`schedule_at`](Self::schedule_at) with `timer.now() +
    /// delay` is [`schedule`](Self::schedule) with `delay`. [`Instant::now`] is not the same: an
    /// engine in a test knows its [`ManualClock`](crate::ManualClock) only. The clock goes on in a
    /// [`pause`](Self::pause), so what counts from it in a pause still comes later by the rest of
    /// it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{ManualClock, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let deadline = timer.now() + Duration::from_secs(5); // of a request in two steps
    /// let first = timer.schedule_at(deadline, || println!("no answer to the first"))?;
    /// clock.advance(Duration::from_secs(2));
    /// assert!(first.cancel()); // answered: the second step has the 3 s that are left
    /// let second = timer.schedule_at(deadline, || println!("no answer to the second"))?;
    /// clock.advance(Duration::from_secs(3));
    /// assert!(second.is_expired());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn now(&self) -> Instant {
        self.engine.shared.timeline().now()
    }

    /// Stops the engine's time: ticks stand still, and nothing becomes due until [`resume`](Self::resume), so that all that is
    /// pending is delayed by the pause, what is scheduled in it included (also by [`schedule_at`](Self::schedule_at); no delay
    /// means the tick after the pause). Scheduling, cancelling and resetting go on working. What was due before may still
    /// run. Pauses don't nest. Does nothing if the engine is paused, or shut down, already, or if this is a child
    /// that was forked off since it was made. May wait for another thread that pauses or resumes.
    pub fn pause(&self) {
        self.engine.pause();
    }

    /// Ends a [`pause`](Self::pause): ticks go on from where they stood. Does nothing without one, or in a forked child.
    pub fn resume(&self) {
        self.engine.resume();
    }

    /// Whether the engine is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.engine.shared.timeline().is_paused()
    }
}
