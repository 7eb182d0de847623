//! Timeouts that go together: a connection's, say, which are all cancelled when it closes.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::Timer;
use super::error::ScheduleError;
use super::members::{Members, let_go};
use super::schedule::{Target, schedule_methods};
use super::timeout::{Timeout, cancel};
use crate::entry::{MissedTicks, Schedule};
use crate::executor::report;

/// Timeouts that can be cancelled all at once. Made by [`Timer::group`](crate::Timer::group); has all of the timer's ways to
/// schedule.
///
/// A timeout of a group is one like any other: its handle cancels and resets it, it may fire, it may be detached. The
/// group's [`cancel_all`](Self::cancel_all) cancels those that are still pending. A group takes a lock of its own to
/// schedule, which nobody waits for who does not use the same group.
///
/// Dropping a group lets go of its timeouts, which stay what they are; unless it was made with
/// [`cancel_on_drop`](Self::cancel_on_drop). A group keeps its engine alive, as a `Timer` does.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let connection = timer.group().cancel_on_drop();
/// let idle = connection.schedule(Duration::from_secs(60), || println!("idle for a minute"))?;
/// connection.schedule_detached(Duration::from_secs(5), || println!("no request within 5 s"))?;
/// assert!(idle.reset(Duration::from_secs(60)));
/// drop(connection);
/// assert!(idle.is_cancelled());
/// # Ok(())
/// # }
/// ```
#[must_use = "a Group is only good for scheduling in it"]
pub struct Group {
    timer: Timer,
    members: Members,
    cancels_on_drop: bool,
}

impl Timer {
    /// A new group of timeouts, which can be cancelled all at once.
    pub fn group(&self) -> Group {
        Group::new(self.clone())
    }
}

impl Group {
    pub(super) fn new(timer: Timer) -> Self {
        Self { timer, members: Members::none(), cancels_on_drop: false }
    }

    /// Makes it cancel what is pending in it when it is dropped.
    pub fn cancel_on_drop(mut self) -> Self {
        self.cancels_on_drop = true;
        self
    }

    /// Cancels all that are pending in the group, and returns how many those were. What somebody schedules in it meanwhile may
    /// be missed. Takes time in proportion to how many are pending, and to those that are over and that the group has not come
    /// across yet: it looks at three for each that is scheduled in it. Tasks are dropped here, and if one of them panics at
    /// that, it is counted and reported as one that panicked when it ran.
    ///
    /// For each timeout this is its [`cancel`](Timeout::cancel).
    pub fn cancel_all(&self) -> usize {
        let shared = &self.timer.engine.shared;
        // Not under the lock: a task may hold the group, and schedule in it when it is dropped.
        let cancel_one = |entry| {
            let dispose = |task| {
                let dropped = catch_unwind(AssertUnwindSafe(|| drop(task)));
                dropped.unwrap_or_else(|panic| report(shared, panic));
            };
            // SAFETY: taken out of the list, so this is the group's ownership.
            let cancelled = unsafe { cancel(entry, dispose) };
            // SAFETY: as above, and given up here.
            unsafe { let_go(shared, entry) };
            usize::from(cancelled)
        };
        self.members.take().into_iter().map(cancel_one).sum()
    }

    /// How many are pending in it. Looks at each.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.members.pending()
    }

    fn target(&self) -> Target<'_> {
        Target { shared: &self.timer.engine.shared, shard: None, group: Some(&self.members) }
    }

    schedule_methods!("in this group");
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.cancels_on_drop {
            self.cancel_all();
        }
        // SAFETY: taken out of the list, so this is the group's ownership, which is given up.
        self.members.take().into_iter().for_each(|entry| unsafe { let_go(&self.timer.engine.shared, entry) });
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("pending", &self.pending()).finish_non_exhaustive()
    }
}
