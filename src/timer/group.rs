//! Timeouts that end together, such as those of a connection, which are all cancelled when it
//! closes.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::Timer;
use super::error::ScheduleError;
use super::every::{Periodic, Run};
use super::members::{Members, let_go};
use super::once::once_methods;
use super::periodic::periodic_methods;
use super::schedule::Target;
use super::timeout::{Timeout, cancel};
use crate::entry::{FnNext, FnRepeat, Member, MissedTicks, Schedule};
use crate::executor::report;

/// Timeouts that can be cancelled all at once. [`Timer::group`](crate::Timer::group) makes a group.
/// It has all `schedule` methods of a timer.
///
/// A timeout of a group is like any other. Its handle cancels and resets it, it may fire, and it
/// may be detached. [`cancel_all`](Self::cancel_all) cancels the timeouts of the group that are
/// still pending. To schedule in a group takes the group's lock, and may allocate for its list.
/// Only threads that use the same group wait for that lock.
///
/// Dropping a group detaches its timeouts, which stay pending. A group made with
/// [`cancel_on_drop`](Self::cancel_on_drop) cancels them. A group keeps its engine alive, as a
/// `Timer` does.
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
    /// Makes a new group of timeouts, which can be cancelled all at once. It neither blocks nor
    /// allocates.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let requests = timer.group();
    /// requests.schedule_detached(Duration::from_secs(5), || println!("the first is slow"))?;
    /// requests.schedule_detached(Duration::from_secs(5), || println!("the second is slow"))?;
    /// assert_eq!(requests.pending(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn group(&self) -> Group {
        Group::new(self.clone())
    }
}

impl Group {
    pub(super) fn new(timer: Timer) -> Self {
        Self { timer, members: Members::none(), cancels_on_drop: false }
    }

    /// Makes the group cancel its pending timeouts when it is dropped, as by
    /// [`cancel_all`](Self::cancel_all).
    pub fn cancel_on_drop(mut self) -> Self {
        self.cancels_on_drop = true;
        self
    }

    /// Cancels all pending timeouts of the group, and returns how many it cancelled.
    ///
    /// Each of them is cancelled as by its [`cancel`](Timeout::cancel). A timeout that another
    /// thread schedules in the group meanwhile may be missed.
    ///
    /// The call takes time in proportion to the pending timeouts, and to those that are over and
    /// that the group has not looked at since. Each schedule in the group looks at three.
    ///
    /// The calling thread drops the tasks. If the destructor of a task panics, the engine counts
    /// and reports the panic as that of a task, and the call goes on. The call takes the group's
    /// lock, and does not hold it while it drops tasks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let connection = timer.group();
    /// let idle = connection.schedule(Duration::from_secs(60), || println!("idle"))?;
    /// connection.schedule_detached(Duration::from_secs(5), || println!("no request"))?;
    /// assert_eq!(connection.cancel_all(), 2);
    /// assert!(idle.is_cancelled());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel_all(&self) -> usize {
        let shared = &self.timer.engine.shared;
        // The lock is not held here: a task may hold the group, and schedule in it when it is
        // dropped.
        let cancel_one = |member: Member| {
            let dispose = |task| {
                let dropped = catch_unwind(AssertUnwindSafe(|| drop(task)));
                dropped.unwrap_or_else(|panic| report(shared, panic));
            };
            let cancelled = cancel(&member, dispose);
            let_go(shared, member);
            usize::from(cancelled)
        };
        self.members.take().into_iter().map(cancel_one).sum()
    }

    /// Returns how many timeouts of the group are pending. It looks at each entry under the group's
    /// lock, and does not allocate.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.members.pending()
    }

    fn target(&self) -> Target<'_> {
        Target::of_group(&self.timer.engine.shared, &self.members)
    }

    once_methods!("in this group");
    periodic_methods!("in this group");
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.cancels_on_drop {
            self.cancel_all();
        }
        self.members.take().into_iter().for_each(|member| let_go(&self.timer.engine.shared, member));
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("pending", &self.pending()).finish_non_exhaustive()
    }
}
