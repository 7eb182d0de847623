//! A clock that stands still until it is moved.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::clock::{Clock, ClockListener, Follower, Listeners};
use super::tick::{MOST_NS, saturating_ns};
use crate::sync::{AtomicU64, Ordering};

/// A clock for tests and simulations. It stands still until [`advance`](Self::advance) moves it.
/// Clones share one time. Code under test compares times with [`Timer::now`](crate::Timer::now),
/// and not with `Instant::now()`, which knows nothing of this clock.
///
/// With an engine that has workers, `advance` returns when all that became due has run, so a test
/// needs no sleep and no retry. With a driven engine, `advance` only moves the clock, and
/// [`Driver::turn`](crate::Driver::turn) does the rest.
///
/// A timeout whose delay is zero, or whose deadline has passed, is due at once: a worker runs it
/// without an `advance`, and a driver in its next turn.
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
///
/// # Futures
///
/// The engine knows a future from its first poll on. So a test polls it before `advance`. `advance`
/// waits until the wakers have been called, and not until the tasks that they wake have run. A
/// woken task may make its next sleep only after the clock has gone on. So a test lets its tasks
/// run before each step, on a current-thread runtime:
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{ManualClock, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let (start, its) = (timer.now(), timer.clone());
/// let task = tokio::spawn(async move {
///     its.sleep(Duration::from_secs(10)).await;
///     its.sleep(Duration::from_secs(20)).await;
///     its.now() - start
/// });
/// while !task.is_finished() {
///     tokio::task::yield_now().await; // now the task waits for its next deadline
///     clock.advance_to_next(&timer);
/// }
/// assert_eq!(task.await?, Duration::from_secs(30));
/// # Ok(())
/// # })
/// # }
/// ```
///
/// This works for tasks that wait only for this engine and for each other. A task that waits for a
/// socket, or yields by itself, may be late for the next step. One yield runs some sixty tasks. A
/// test that takes one step counts instead: it yields `while timer.pending() < n`, and then calls
/// `advance`. The example `tests_by_a_clock` has both.
///
/// # Tokio's stopped clock
///
/// Only the module [`compat`](crate#features), with the feature `test-util`, goes by a clock that
/// Tokio has stopped (`start_paused`, `pause`). A [`Timer`](crate::Timer), the free functions such
/// as [`sleep`](crate::sleep), and the adapters for hyper, tower and quinn go by their engine's
/// clock. With the default clock they take real time in such a test, and a limit may not end before
/// the test does. So a test gives them a `Timer` with a `ManualClock`, or uses `compat::tokio`.
// In plain std types, because this is a test tool and not one of the engine's protocols. Only the
// time is an atomic of `sync`'s, so that models see it move.
#[derive(Clone)]
pub struct ManualClock {
    inner: Arc<Inner>,
}

struct Inner {
    start: Instant,
    advanced_ns: AtomicU64,
    /// The engines with workers.
    followers: Listeners<dyn Follower>,
    listeners: Listeners<dyn ClockListener>,
    /// Held by the thread that looks for the next deadline and moves the clock there. If two
    /// threads did that at once, the second would move the clock too far.
    stepping: Mutex<()>,
}

/// The last time that an engine counts: whatever is later is never.
const FARTHEST_NS: u64 = MOST_NS - 1;

impl ManualClock {
    /// Returns a clock that shows the time at which it was made.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two clocks made by default would not be equal")]
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Inner {
                start: Instant::now(),
                advanced_ns: AtomicU64::new(0),
                followers: Listeners::none(),
                listeners: Listeners::none(),
                stepping: Mutex::new(()),
            }),
        }
    }

    /// Returns the time that this clock shows. Neither blocks nor allocates.
    #[must_use]
    pub fn now(&self) -> Instant {
        // Acquire: pairs with the AcqRel in `advance`. A thread that sees the moved clock sees what
        // the moving thread did before.
        let ns = self.inner.advanced_ns.load(Ordering::Acquire);
        self.inner.start + Duration::from_nanos(ns)
    }

    /// Moves the clock forward by `by`, in one step, and waits until all that became due has run.
    ///
    /// All calls together move the clock by at most 292 years. A task that becomes due on the way
    /// finds the clock already at its end; [`advance_to_next`](Self::advance_to_next) stops at each
    /// deadline instead. A periodic timeout has missed all its runs but one then: for those use
    /// [`advance_through`](Self::advance_through).
    ///
    /// The call returns when every engine with workers on this clock has run all that became due,
    /// including what those tasks scheduled for a time that has come.
    ///
    /// Called from a task, of whatever engine, it does not wait, because it might wait for itself.
    /// A batch that an engine has given to an executor of the user's (not
    /// [`ThreadPool`](crate::ThreadPool) or [`Inline`](crate::Inline)) is waited for only once it
    /// has begun to run.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{ManualClock, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let timeout = timer.schedule(Duration::from_secs(3600), || println!("an hour has passed"))?;
    /// clock.advance(Duration::from_secs(3600)); // returns when the task has run
    /// assert!(timeout.is_expired());
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance(&self, by: Duration) {
        let moved = |now: u64| Some((now + saturating_ns(by)).min(FARTHEST_NS));
        // AcqRel: pairs with the Acquire in `now`. The update never fails, because `moved` never
        // returns `None`.
        let _ = self.inner.advanced_ns.fetch_update(Ordering::AcqRel, Ordering::Acquire, moved);
        self.inner.listeners.all().iter().for_each(|listener| listener.stepped());
        let mut followers = self.inner.followers.all();
        // First ring all of them: a task of one engine may wait for a task of another.
        followers.iter().for_each(|follower| follower.stepped());
        // Repeat until a whole round has done nothing: a task of one engine may have scheduled on
        // another, or on its own.
        loop {
            let progress = || followers.iter().fold(0_u64, |sum, follower| sum.wrapping_add(follower.progress()));
            let before = progress();
            if !followers.iter().all(|follower| follower.catch_up()) || progress() == before {
                return;
            }
            followers = self.inner.followers.all();
        }
    }

    /// Returns how far the clock has to be moved until something is due on an engine with workers.
    /// `None` if nothing ever will be.
    pub(crate) fn until_next(&self) -> Option<Duration> {
        self.inner.followers.all().iter().filter_map(|follower| follower.until_next()).min()
    }

    /// Returns whether the clock can still be moved by this much.
    pub(crate) fn reaches(&self, by: Duration) -> bool {
        let left = FARTHEST_NS - self.inner.advanced_ns.load(Ordering::Relaxed);
        by <= Duration::from_nanos(left)
    }

    /// Returns whether both are clones of one clock.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Locks out other steps. Must not be called from a task, because a step waits for tasks.
    pub(crate) fn step(&self) -> std::sync::MutexGuard<'_, ()> {
        self.inner.stepping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `advance` wait for an engine.
    pub(crate) fn follow(&self, follower: Weak<dyn Follower>) {
        self.inner.followers.add(follower);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        ManualClock::now(self)
    }

    fn subscribe(&self, listener: Weak<dyn ClockListener>) {
        self.inner.listeners.add(listener);
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advanced = Duration::from_nanos(self.inner.advanced_ns.load(Ordering::Relaxed));
        f.debug_struct("ManualClock").field("advanced", &advanced).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_reaches_what_is_left_of_its_way_and_no_farther() {
        let (clock, way) = (ManualClock::new(), Duration::from_nanos(FARTHEST_NS));
        clock.advance(way / 4);
        assert!(clock.reaches(way - way / 4) && !clock.reaches(way - way / 4 + Duration::from_nanos(1)));
    }
}
