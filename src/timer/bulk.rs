//! Resets many timeouts at once.

use std::time::Duration;

use super::Timer;
use super::timeout::Timeout;
use crate::engine::Shared;
use crate::entry::Reset;
use crate::shard::Remote;
use crate::sync::prefetch;
use crate::time::Subtick;

impl Timer {
    /// Moves the deadlines of many timeouts to `delay` from now, and returns how many of them were
    /// pending. Each is [reset](Timeout::reset) as if alone.
    ///
    /// It is for an event loop that has just read from a batch of connections, and pushes out the
    /// idle timeout of each. The call looks at the clock once, before the first timeout. It fetches
    /// the memory of the next timeouts while it resets one. It wakes a worker at most once for
    /// timeouts of one shard that follow one another and that the worker has not linked yet.
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
        if shared.is_forked() || delay.is_zero() {
            // In a forked child none of this engine's is. Others may be of an engine that this
            // process has made. And no delay means the time of each reset.
            return timeouts.into_iter().filter(|timeout| timeout.reset(delay)).count();
        }
        let mut resets =
            Resets { shared, deadline: shared.timeline().deadline_after(delay), of: None, moved: 0, rings: false };
        let (mut ahead, mut next, mut pending) = ([None; AHEAD], 0, 0);
        let mut reset = |timeout: Option<&'a Timeout>| {
            pending += usize::from(timeout.is_some_and(|timeout| resets.reset(timeout, delay)));
        };
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

/// Resets under way. The worker of a shard is woken, and the resets are counted, once for all of
/// its timeouts that follow one another.
struct Resets<'a> {
    shared: &'a Shared,
    deadline: Subtick,
    /// The shard of the last reset.
    of: Option<&'a Remote>,
    /// Timeouts of it that were reset, and are not counted yet.
    moved: u64,
    /// Its worker may sleep past the deadline.
    rings: bool,
}

impl<'a> Resets<'a> {
    #[inline]
    fn reset(&mut self, timeout: &'a Timeout, delay: Duration) -> bool {
        let remote = timeout.remote();
        if !self.of.is_some_and(|of| std::ptr::eq(of, remote)) {
            if !std::ptr::eq(Shared::of_remote(remote), self.shared) {
                // By the clock of its own engine.
                return timeout.reset(delay);
            }
            self.finish();
            self.of = Some(remote);
        }
        match timeout.move_to(self.shared, self.deadline) {
            Reset::TooLate => return false,
            Reset::Later | Reset::EarlierQueued => {}
            Reset::Earlier => self.rings = true,
        }
        self.moved += 1;
        true
    }

    fn finish(&mut self) {
        let Some(remote) = self.of else { return };
        if std::mem::take(&mut self.rings) {
            remote.ring_if_it_sleeps_past(self.deadline, self.shared.timeline());
        }
        let moved = std::mem::take(&mut self.moved);
        if moved > 0 {
            self.shared.count(remote, |counts| counts.reset.add(moved));
        }
    }
}

impl Drop for Resets<'_> {
    /// Also if the caller's iterator panics.
    fn drop(&mut self) {
        self.finish();
    }
}
