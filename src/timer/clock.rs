//! The time of a timer: how to read it, and how to stop it.

use std::time::{Duration, Instant};

use super::Timer;

impl Timer {
    /// Returns how long a tick is. It neither blocks nor allocates.
    #[must_use]
    pub fn tick_duration(&self) -> Duration {
        self.engine.shared.timeline().scale().tick_duration()
    }

    /// Returns the number of the last tick that has come, by the engine's clock. The first tick is
    /// 0.
    ///
    /// In a [`pause`](Self::pause) the number stands still. The call reads the clock. It waits only
    /// for another thread that is inside [`pause`](Self::pause), for one look at the clock.
    #[must_use]
    pub fn current_tick(&self) -> u64 {
        let timeline = self.engine.shared.timeline();
        timeline.scale().division().last_tick(timeline.current())
    }

    /// Returns the time now, by the engine's clock: the real one, or that of
    /// [`Builder::clock`](crate::Builder::clock).
    ///
    /// Deadlines count from this time. [`schedule_at`](Self::schedule_at) with `timer.now() +
    /// delay` is [`schedule`](Self::schedule) with `delay`. [`Instant::now`] is not the same: an
    /// engine in a test knows its [`ManualClock`](crate::ManualClock) only. The clock goes on in a
    /// [`pause`](Self::pause). So a deadline that counts from it in a pause still comes later by
    /// the rest of that pause.
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

    /// Stops the engine's time, until [`resume`](Self::resume).
    ///
    /// Ticks stand still, and nothing becomes due. All pending timeouts are delayed by the pause.
    /// That includes timeouts that are scheduled in the pause, also by
    /// [`schedule_at`](Self::schedule_at). A delay of zero then means the tick after the pause.
    /// Scheduling, cancelling and resetting go on working. Timeouts that were due before the pause
    /// may still run.
    ///
    /// Pauses do not nest. A shutdown ends a pause. The call does nothing if the engine is already
    /// paused or shut down. It does nothing in a child process that was forked off after the engine
    /// was made. It may wait for another thread that pauses or resumes.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{ManualClock, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let timeout = timer.schedule(Duration::from_secs(5), || println!("5 s have passed"))?;
    /// timer.pause();
    /// clock.advance(Duration::from_secs(60)); // for the engine no time has passed
    /// assert!(timeout.is_pending());
    /// timer.resume();
    /// clock.advance(Duration::from_secs(5));
    /// assert!(timeout.is_expired());
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause(&self) {
        self.engine.pause();
    }

    /// Ends a [`pause`](Self::pause). Ticks go on from where they stood.
    ///
    /// The call does nothing if there is no pause, or in a forked child. It may wait for another
    /// thread that pauses or resumes. It wakes the workers that have started, or calls
    /// [`Driver::on_earlier`](crate::Driver::on_earlier).
    pub fn resume(&self) {
        self.engine.resume();
    }

    /// Returns whether the engine is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.engine.shared.timeline().is_paused()
    }
}
