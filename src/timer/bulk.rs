//! Resets many timeouts at once.

use std::time::Duration;

use super::Timer;
use super::timeout::Timeout;
use crate::count::Counts;
use crate::engine::Shared;
use crate::shard::Remote;
use crate::sync::prefetch;

impl Timer {
    /// Moves the deadlines of many timeouts to `delay` from now, and returns how many of them were
    /// pending. Each is [reset](Timeout::reset) as if alone.
    ///
    /// It is for an event loop that has just read from a batch of connections, and pushes out the
    /// idle timeout of each. The call looks at the clock once, before the first timeout. It fetches
    /// the memory of the next timeouts while it resets one. It wakes a worker at most once for
    /// timeouts of one shard that follow one another and that the worker has not linked yet, unless
    /// the deadline comes, or another thread moves or cancels them, meanwhile.
    ///
    /// The call looks a few timeouts ahead. So while it asks the iterator for the next one, up to
    /// eight before that are not reset yet, and a worker that sleeps may not be woken yet for any.
    /// So the iterator should be quick. If it panics, those few are not reset. A timeout of another
    /// engine is reset, too, by the clock of its own engine.
    ///
    /// The call does not allocate, and does not block.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const IDLE: Duration = Duration::from_secs(30);
    /// let timer = Timer::new()?;
    /// let idle = timer.schedule_many(IDLE, (0..64).map(|n| move || println!("{n} is idle")))?;
    /// // One round of the event loop: some connections are ready.
    /// let ready = [3, 14, 15];
    /// let pending = timer.reset_many(ready.iter().map(|&n| &idle[n]), IDLE);
    /// if pending < ready.len() {
    ///     // Some have fired: find out which by `is_pending`.
    /// }
    /// # assert_eq!(pending, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reset_many<'a>(&self, timeouts: impl IntoIterator<Item = &'a Timeout>, delay: Duration) -> usize {
        let shared = &*self.engine.shared;
        let mine = shared.thread_state();
        let Some(mine) = mine.filter(|_| !delay.is_zero()) else {
            // In a forked child none of this engine's is reset. Others may be of an engine that
            // this process has made. And no delay means the time of each reset.
            return timeouts.into_iter().filter(|timeout| timeout.reset(delay)).count();
        };
        let deadline = shared.timeline().deadline_after(delay);
        // The shard of the last reset, and the thread's counts for it.
        let mut of: Option<(&Remote, &Counts)> = None;
        let mut is_moved = |timeout: &'a Timeout| {
            let remote = timeout.remote();
            let counts = match of {
                Some((last, counts)) if std::ptr::eq(last, remote) => counts,
                // By the clock of its own engine.
                _ if !std::ptr::eq(Shared::of_remote(remote), shared) => return timeout.reset(delay),
                _ => of.insert((remote, shared.counts_of(mine, remote))).1,
            };
            let is_moved = timeout.move_to(shared, deadline);
            counts.reset.add(u64::from(is_moved));
            is_moved
        };
        let (mut ahead, mut next, mut pending) = ([None; AHEAD], 0, 0);
        let mut reset = |timeout: Option<&'a Timeout>| pending += usize::from(timeout.is_some_and(&mut is_moved));
        for timeout in timeouts {
            prefetch(timeout.handle.address().as_ptr());
            reset(ahead[next].replace(timeout));
            next = (next + 1) % AHEAD;
        }
        (0..AHEAD).for_each(|place| reset(ahead[(next + place) % AHEAD]));
        pending
    }
}

/// How many timeouts ahead their memory is asked for: as many cache misses as a core can have under
/// way, more or less.
const AHEAD: usize = 8;
