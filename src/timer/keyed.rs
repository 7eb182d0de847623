//! One shard of an engine, which a key chooses.

use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::time::{Duration, Instant};

use super::Timer;
use super::error::ScheduleError;
use super::schedule::Target;
use super::timeout::Timeout;

/// The shard on which all timeouts of one key live: see
/// [`Timer::shard_for`](crate::Timer::shard_for). It has the methods of a timer for timeouts that
/// run once.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::builder().shards(4).build()?;
/// let user = timer.shard_for("user 4711");
/// let session = user.schedule(Duration::from_secs(900), || println!("signed out"))?;
/// assert!(session.cancel());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Shard<'a> {
    target: Target<'a>,
    index: usize,
}

impl Timer {
    /// Returns the shard of a key, to schedule on.
    ///
    /// All timeouts of one key live on that shard. So they expire in the order of their ticks, and
    /// one worker handles them all. Three cases change the order in which they run:
    ///
    /// * The executor may run them in another order. [`Inline`](crate::Inline), or a pool of one
    ///   thread, keeps the order.
    /// * If the inbox holds more timeouts than
    ///   [`Builder::transfer_limit`](crate::Builder::transfer_limit), the rest waits for the next
    ///   turn. A timeout of the rest may run after one that is due later.
    /// * With a wheel of one level, if more is due in a turn than
    ///   [`Builder::expiry_limit`](crate::Builder::expiry_limit) and the clock then jumps by a
    ///   revolution of the wheel, a timeout that waited for its round may run before some that were
    ///   due earlier.
    ///
    /// The shards are the same in each run of a program, as far as the key hashes the same.
    ///
    /// The returned value borrows the timer, and costs one hash, so call this each time. It neither
    /// blocks nor allocates.
    ///
    /// Without this call a timeout goes to the home shard of the thread that schedules it, which
    /// costs least.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().shards(4).build()?;
    /// let connection_id = 4711;
    /// let first = || println!("first");
    /// timer.shard_for(&connection_id).schedule_detached(Duration::from_secs(1), first)?;
    /// let second = || println!("second");
    /// timer.shard_for(&connection_id).schedule_detached(Duration::from_secs(2), second)?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn shard_for<K: Hash + ?Sized>(&self, key: &K) -> Shard<'_> {
        // A fixed hasher chooses the same shard for a key each time, in each process.
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        #[expect(clippy::cast_possible_truncation, reason = "less than the number of shards")]
        let index = ((u128::from(hash) * self.shards() as u128) >> 64) as usize;
        Shard { target: Target::of_shard(&self.engine.shared, index), index }
    }
}

impl Shard<'_> {
    /// Runs `task` once, after `delay`, on this shard. Otherwise it is
    /// [`Timer::schedule`](crate::Timer::schedule).
    ///
    /// # Errors
    /// Returns the errors of that method.
    #[inline]
    pub fn schedule<F>(&self, delay: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.target.submit_after(delay, task)
    }

    /// Runs `task` once, at `deadline`, on this shard. Otherwise it is
    /// [`Timer::schedule_at`](crate::Timer::schedule_at).
    ///
    /// # Errors
    /// Returns the errors of that method.
    pub fn schedule_at<F>(&self, deadline: Instant, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.target.submit_at(deadline, task)
    }

    /// Runs `task` once, after `delay`, on this shard, without a handle. Otherwise it is
    /// [`Timer::schedule_detached`](crate::Timer::schedule_detached).
    ///
    /// # Errors
    /// Returns the errors of that method.
    #[inline]
    pub fn schedule_detached<F>(&self, delay: Duration, task: F) -> Result<(), ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.target.submit_detached(delay, task)
    }
}

impl fmt::Debug for Shard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard").field("index", &self.index).finish_non_exhaustive()
    }
}
