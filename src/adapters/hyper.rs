//! The engine as hyper's timer. (Feature `hyper`.)

use std::pin::Pin;
use std::time::{Duration, Instant};

use ::hyper::rt::{Sleep, Timer};

/// The timer for hyper 1 and hyper-util: for `timer` of a server's or a client's builder, and for
/// `pool_timer` of hyper-util's client. Each sleep is a [`Sleep`](crate::Sleep) in a box, which
/// says when a poll may wait.
///
/// hyper's `header_read_timeout` also counts the time between two requests, so it closes a
/// connection that is kept for longer. `tourbillon-hyper` has a limit for each.
///
/// ```
/// use std::time::Duration;
/// use hyper::server::conn::http1;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let mut server = http1::Builder::new();
/// server.timer(timer.clone()).header_read_timeout(Duration::from_secs(10));
/// # Ok(())
/// # }
/// ```
impl Timer for crate::Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(crate::Timer::sleep(self, duration))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(crate::Timer::sleep_until(self, deadline))
    }

    /// Returns the time of the engine's clock. A [`ManualClock`](crate::ManualClock) thus moves
    /// hyper's time, too.
    fn now(&self) -> Instant {
        crate::Timer::now(self)
    }

    /// Resets a sleep of this crate in place, without allocating. The sleep stays with the engine
    /// that made it. Any other sleep is replaced.
    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<crate::Sleep>() {
            Some(ours) => ours.get_mut().reset_at(new_deadline),
            None => *sleep = Timer::sleep_until(self, new_deadline),
        }
    }
}

impl Sleep for crate::Sleep {}
