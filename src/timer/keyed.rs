//! One shard of an engine, chosen by a key.

use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::time::{Duration, Instant};

use super::error::ScheduleError;
use super::schedule::{Target, schedule_methods};
use super::timeout::Timeout;
use crate::engine::Shared;
use crate::entry::{MissedTicks, Schedule};

/// The shard that all timeouts of one key live on: see [`Timer::shard_for`](crate::Timer::shard_for). Has all of the timer's
/// ways to schedule.
#[derive(Clone, Copy)]
pub struct Shard<'a> {
    shared: &'a Shared,
    index: usize,
}

impl<'a> Shard<'a> {
    pub(super) fn of_key<K: Hash + ?Sized>(shared: &'a Shared, key: &K) -> Self {
        // The same for a key each time, in each process.
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        let shards = shared.remotes().len();
        #[expect(clippy::cast_possible_truncation, reason = "less than the number of shards")]
        let index = ((u128::from(hash) * shards as u128) >> 64) as usize;
        Self { shared, index }
    }

    /// Its number, from 0 to one less than [`Timer::shards`](crate::Timer::shards).
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    fn target(&self) -> Target<'a> {
        Target { shared: self.shared, shard: Some(self.index), group: None }
    }

    schedule_methods!("on this shard");
}

impl fmt::Debug for Shard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard").field("index", &self.index).finish_non_exhaustive()
    }
}
