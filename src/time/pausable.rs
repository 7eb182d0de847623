//! A clock that can be stopped for a while.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::time::{Duration, Instant};

use super::clock::{Clock, ClockListener, Listeners, SystemClock};
use super::manual::ManualClock;

/// A clock that can be stopped for a while: by [`pause`](Self::pause), until
/// [`resume`](Self::resume). Clones are one clock, and several engines may be on it.
///
/// In a pause time stands still, so nothing becomes due. The pause delays all timeouts that are
/// pending or are scheduled in it. A task whose delay is zero, or whose deadline has passed, runs
/// at once, also in a pause. A task that was due before the pause may still run.
///
/// Each reading takes a lock that is shared by readers. An engine without such a clock pays
/// nothing.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{ManualClock, PausableClock, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let real = ManualClock::new(); // `PausableClock::new()` is over the system's clock
/// let clock = PausableClock::over(real.clone());
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let timeout = timer.schedule(Duration::from_secs(5), || println!("5 s have passed"))?;
/// clock.pause();
/// real.advance(Duration::from_secs(60)); // for the engine no time has passed
/// assert!(timeout.is_pending());
/// clock.resume();
/// real.advance(Duration::from_secs(5));
/// assert!(timeout.is_expired());
/// # Ok(())
/// # }
/// ```
///
/// # What to know
///
/// * After a pause the clock is behind [`Instant::now`]. So let a deadline count from
///   [`Timer::now`](crate::Timer::now), or from the clock's own [`now`](Clock::now).
/// * A shutdown does not end a pause. [`Shutdown::Drain`](crate::Shutdown::Drain) measures its time
///   by the engine's clock, so call [`resume`](Self::resume) first.
/// * In a forked child make a new clock: another thread of the parent may have held the lock.
#[derive(Clone)]
pub struct PausableClock {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Box<dyn Clock>,
    /// The clock below, if it is one that is moved by hand.
    manual: Option<ManualClock>,
    time: RwLock<Time>,
    listeners: Listeners<dyn ClockListener>,
}

/// How the clock's time follows from that of the clock below.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    /// All pauses so far.
    lost: Duration,
    /// Where time stands, in a pause.
    stands_at: Option<Instant>,
}

impl PausableClock {
    /// Returns a clock over the system's monotonic one. It allocates, and does not block.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two clocks made by default would not be equal")]
    pub fn new() -> Self {
        Self::over(SystemClock)
    }

    /// Returns a clock over another one, a [`ManualClock`] or one of your own. It allocates, and
    /// does not block.
    #[must_use]
    pub fn over(clock: impl Clock) -> Self {
        let any: &dyn Any = &clock;
        let manual = any.downcast_ref::<ManualClock>().cloned();
        let clock: Box<dyn Clock> = Box::new(clock);
        Self { inner: Arc::new(Inner { clock, manual, time: RwLock::default(), listeners: Listeners::none() }) }
    }

    /// Stops the clock. It does nothing if the clock stands already: pauses do not nest. It waits
    /// for threads that are reading the clock.
    pub fn pause(&self) {
        let mut time = self.inner.time.write().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that nobody has seen a later time.
        time.stands_at = Some(self.inner.at(*time));
    }

    /// Lets the clock go on from where it stands, and wakes the workers of all engines on it, or
    /// calls [`Driver::on_earlier`](crate::Driver::on_earlier). It does nothing if there is no
    /// pause. It waits for threads that are reading the clock.
    pub fn resume(&self) {
        let mut time = self.inner.time.write().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = time.stands_at else { return };
        // If the clock below panics, the pause goes on.
        let lost = self.inner.clock.now().saturating_duration_since(at);
        *time = Time { lost, stands_at: None };
        drop(time);
        self.inner.listeners.all().iter().for_each(|listener| listener.stepped());
    }

    /// Returns whether the clock stands still.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.inner.time().stands_at.is_some()
    }

    pub(super) fn manual(&self) -> Option<&ManualClock> {
        self.inner.manual.as_ref()
    }
}

impl Inner {
    fn time(&self) -> RwLockReadGuard<'_, Time> {
        self.time.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, time: Time) -> Instant {
        let now = || {
            let now = self.clock.now();
            now.checked_sub(time.lost).unwrap_or(now)
        };
        time.stands_at.unwrap_or_else(now)
    }
}

impl Clock for PausableClock {
    fn now(&self) -> Instant {
        // The lock is held while the clock below is read. So a pause stops time where no thread has
        // seen it go past.
        let time = self.inner.time();
        self.inner.at(*time)
    }

    fn subscribe(&self, listener: Weak<dyn ClockListener>) {
        self.inner.clock.subscribe(Weak::clone(&listener));
        self.inner.listeners.add(listener);
    }
}

impl fmt::Debug for PausableClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PausableClock").field("is_paused", &self.is_paused()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn time_stands_still_in_a_pause_and_goes_on_from_there() {
        let below = ManualClock::new();
        let clock = PausableClock::over(below.clone());
        let second = Duration::from_secs(1);
        let start = clock.now();
        for pause in 1..=3 {
            below.advance(second);
            clock.pause();
            clock.pause();
            below.advance(7 * second);
            assert!(clock.is_paused() && clock.now() == start + pause * second);
            clock.resume();
            clock.resume();
            assert!(!clock.is_paused() && clock.now() == start + pause * second);
        }
    }

    #[test]
    fn a_clock_below_that_panics_ends_no_pause() {
        struct Broken(ManualClock, Mutex<bool>);
        impl Clock for Arc<Broken> {
            fn now(&self) -> Instant {
                assert!(!*self.1.lock().unwrap_or_else(PoisonError::into_inner), "the clock is broken");
                self.0.now()
            }
        }
        let below = Arc::new(Broken(ManualClock::new(), Mutex::new(false)));
        let clock = PausableClock::over(Arc::clone(&below));
        let start = clock.now();
        clock.pause();
        below.0.advance(Duration::from_secs(5));
        let break_it = |broken| *below.1.lock().unwrap_or_else(PoisonError::into_inner) = broken;
        break_it(true);
        assert!(catch_unwind(AssertUnwindSafe(|| clock.resume())).is_err());
        break_it(false);
        assert!(clock.is_paused() && clock.now() == start);
        clock.resume();
        assert_eq!(clock.now(), start);
    }

    #[test]
    fn no_thread_sees_time_go_back_however_often_it_is_stopped() {
        let clock = PausableClock::new();
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut last = clock.now();
                        for _ in 0..20_000 {
                            let now = clock.now();
                            assert!(now >= last);
                            last = now;
                        }
                    })
                })
                .collect();
            while readers.iter().any(|reader| !reader.is_finished()) {
                clock.pause();
                let at = clock.now();
                assert_eq!(clock.now(), at);
                clock.resume();
            }
        });
    }
}
