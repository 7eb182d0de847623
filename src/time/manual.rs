//! A clock that stands still until it is moved.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
use std::fmt;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::clock::Clock;

/// Whoever has to be told that a manual clock has moved: an engine with workers.
pub(crate) trait ClockListener: Send + Sync {
    /// Has it look at the clock, and does not wait.
    fn ring(&self);
    /// Returns when all that has become due has run. False if it could not wait for that, because the calling thread runs a
    /// task.
    fn catch_up(&self) -> bool;
    /// How much it has done so far: a number that only grows.
    fn progress(&self) -> u64;
    /// Whether there is nobody left to tell.
    fn is_gone(&self) -> bool;
}

/// A clock for tests and simulations: it stands still until [`advance`](Self::advance) moves it. Clones share one time.
///
/// With an engine that has workers, `advance` returns when all that became due has run, so a test needs no sleep and no
/// retry. With a driven engine it moves the clock, and [`Driver::turn`](crate::Driver::turn) does the rest.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{ManualClock, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = ManualClock::new();
/// let (timer, mut driver) = Timer::builder().clock(clock.clone()).build_driven()?;
/// let timeout = timer.schedule(Duration::from_secs(3600), || println!("an hour has passed"))?;
/// clock.advance(Duration::from_secs(3599));
/// assert_eq!(driver.turn(), 0);
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(driver.turn(), 1);
/// assert!(timeout.is_expired());
/// # Ok(())
/// # }
/// ```
// Not one of the engine's own protocols: a test tool, in plain std types, except that models see its time move.
#[derive(Clone)]
pub struct ManualClock {
    inner: Arc<Inner>,
}

struct Inner {
    start: Instant,
    advanced_ns: AtomicU64,
    listeners: Mutex<Vec<Arc<dyn ClockListener>>>,
    /// Held by who looks for the next deadline and goes there: of two at once, the second would go too far.
    stepping: Mutex<()>,
}

/// The far end is an instant that can still be added to without overflow.
const FARTHEST_NS: u64 = u64::MAX / 2;

impl ManualClock {
    /// A clock that shows the real time of its making, and stays there.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two clocks made by default would not be equal")]
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Inner {
                start: Instant::now(),
                advanced_ns: AtomicU64::new(0),
                listeners: Mutex::new(Vec::new()),
                stepping: Mutex::new(()),
            }),
        }
    }

    /// The time that this clock shows. Neither blocks nor allocates.
    #[must_use]
    pub fn now(&self) -> Instant {
        // Acquire: whoever sees the moved clock sees what the mover did before.
        let ns = self.inner.advanced_ns.load(Ordering::Acquire);
        self.inner.start + Duration::from_nanos(ns)
    }

    /// Moves the clock forward, in one leap, by at most 292 years in total: a task that becomes due on the way finds the clock at its
    /// end already. (To stop at each deadline, use [`advance_to_next`](Self::advance_to_next).) Returns when every engine with workers
    /// on this clock has run all that became due, and whatever that scheduled for a time that has come, too. Called from a task, of
    /// whatever engine, it waits for none: that might be waiting for itself.
    ///
    /// What an engine hands to an executor of the user's own (not [`ThreadPool`](crate::ThreadPool) or
    /// [`Inline`](crate::Inline)) is waited for only once it has begun to run.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let moved = |now: u64| Some(now.saturating_add(by).min(FARTHEST_NS));
        // AcqRel: pairs with the Acquire in `now`; the update never fails, as `moved` never answers None.
        let _ = self.inner.advanced_ns.fetch_update(Ordering::AcqRel, Ordering::Acquire, moved);
        // Not under the lock: a task may build, or drop, another engine on this clock.
        let mut listeners = self.listeners().clone();
        // First all of them: a task of one may wait for a task of another.
        listeners.iter().for_each(|listener| listener.ring());
        // Again until a whole round has passed in which nothing was done: a task of one engine may have scheduled on
        // another, or on itself.
        loop {
            let progress = || listeners.iter().fold(0_u64, |sum, listener| sum.wrapping_add(listener.progress()));
            let before = progress();
            if !listeners.iter().all(|listener| listener.catch_up()) || progress() == before {
                return;
            }
            listeners = self.listeners().clone();
        }
    }

    /// Whether it can be moved so far.
    pub(crate) fn reaches(&self, by: Duration) -> bool {
        let left = FARTHEST_NS - self.inner.advanced_ns.load(Ordering::Relaxed);
        by <= Duration::from_nanos(left)
    }

    /// Whether the other shows the same time, being a clone.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// One step at a time. Not from a task, which a step waits for.
    pub(crate) fn step(&self) -> std::sync::MutexGuard<'_, ()> {
        self.inner.stepping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn listen(&self, listener: Arc<dyn ClockListener>) {
        let mut listeners = self.listeners();
        listeners.retain(|known| !known.is_gone());
        listeners.push(listener);
    }

    fn listeners(&self) -> std::sync::MutexGuard<'_, Vec<Arc<dyn ClockListener>>> {
        self.inner.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        ManualClock::now(self)
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advanced = Duration::from_nanos(self.inner.advanced_ns.load(Ordering::Relaxed));
        f.debug_struct("ManualClock").field("advanced", &advanced).finish_non_exhaustive()
    }
}
