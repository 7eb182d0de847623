//! The shard that a key chooses.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use super::Timer;
use super::schedule::Shard;

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
        Shard { shared: &self.engine.shared, remote: Some(self.engine.shared.remote(index)) }
    }
}
