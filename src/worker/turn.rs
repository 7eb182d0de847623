//! What a turn reports to the user.

use std::time::Duration;

use crate::engine::{Core, SharedRef, TurnResult};
use crate::time::Subtick;

/// A turn of one shard, for [`Builder::on_turn`](crate::Builder::on_turn). (After the `WheelTick`
/// event of the C# wheels.)
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{Timer, Turn};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let slow = |turn: &Turn| {
///     if turn.took() > Duration::from_millis(1) {
///         println!("{} timeouts took {:?}", turn.expired(), turn.took());
///     }
/// };
/// let timer = Timer::builder().on_turn(slow).build()?;
/// # drop(timer);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    shard: usize,
    number: u64,
    expired: usize,
    linked: usize,
    took: Duration,
}

impl Turn {
    /// Reports a turn at `now` that has just ended. The shard had been turned to `before`. Returns
    /// `None` if no tick has come and nothing has expired.
    pub(crate) fn of(
        shared: &SharedRef,
        shard: &Core,
        turn: TurnResult,
        before: Subtick,
        now: Subtick,
        began_ns: u64,
    ) -> Option<Self> {
        let scale = shared.timeline().scale();
        let [was, is, number] = [before, shard.turned_to(), now.max(before)].map(|at| scale.last_tick(at));
        if is == was && turn.fired == 0 {
            return None;
        }
        // If the clock panics, the turn must still wake the threads and futures that wait for it.
        let now_ns = shared.timeline().try_now_ns().unwrap_or(began_ns);
        Some(Self {
            shard: shard.index(),
            number,
            expired: turn.fired,
            linked: shard.linked(),
            took: Duration::from_nanos(now_ns.saturating_sub(began_ns)),
        })
    }

    /// Returns the shard that was turned.
    #[must_use]
    pub fn shard(&self) -> usize {
        self.shard
    }

    /// Returns the tick that the shard was turned to. All timeouts that were due by then have
    /// expired, within the limits of a turn. Ticks in which there was nothing to do are skipped.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns how many timeouts expired in the turn.
    #[must_use]
    pub fn expired(&self) -> usize {
        self.expired
    }

    /// Returns how many timeouts are in the shard's wheel after the turn. That includes cancelled
    /// ones that have not been collected yet.
    #[must_use]
    pub fn linked(&self) -> usize {
        self.linked
    }

    /// Returns how long the turn took, by the engine's clock. With [`Inline`](crate::Inline) or a
    /// driver, this includes all tasks that ran in the turn.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took
    }
}
