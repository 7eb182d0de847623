//! Timeouts that run once, one or many; and the reset of many timeouts.

use std::time::{Duration, Instant};

use super::Timer;
use super::error::ScheduleError;
use super::timeout::Timeout;
use crate::count::Counts;
use crate::engine::Shared;
use crate::entry::Token;
use crate::shard::Remote;
use crate::sync::prefetch;

impl Timer {
    /// Runs `task` once, after `delay`.
    ///
    /// The task never runs early. The delay is rounded up to a part of a tick, and the task may
    /// wait for others of its tick: see
    /// [`Builder::tick_duration`](crate::Builder::tick_duration). A delay of zero runs it at
    /// once. `Duration::MAX`, or any other delay that ends centuries after the engine's start,
    /// never runs it.
    ///
    /// The call takes no lock once the worker of its shard has started, except on a thread that has
    /// destroyed its thread-locals. Such threads share one state under a lock. Otherwise the call
    /// waits in one case: the thread has no free memory left while more than 16,384 entries wait
    /// for a worker that runs. The call then waits for the worker to catch up, for
    /// [`Builder::max_wait`](crate::Builder::max_wait) at most.
    ///
    /// The call allocates in these cases:
    ///
    /// * The captures are larger than 32 bytes, or aligned to more than 8.
    /// * More timeouts are pending than ever before: see
    ///   [`Builder::capacity`](crate::Builder::capacity).
    /// * The thread uses the engine, or a shard that is not its own, for the first time.
    ///
    /// The first timeout of a shard starts its worker. The call wakes the worker only if this
    /// timeout is due before the worker would wake by itself, or if 8,192 timeouts wait to be
    /// taken in. In a driven engine it calls [`on_earlier`](crate::Driver::on_earlier) instead,
    /// and takes a lock to look the callback up.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let (tell, told) = channel();
    /// let limit =
    ///     timer.schedule(Duration::from_millis(10), move || _ = tell.send("too late"))?;
    /// assert_eq!(told.recv()?, "too late");
    /// assert!(limit.is_expired() && !limit.cancel());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns a [`ScheduleError`] with the task. Its kind is
    /// [`Refusal::Full`](crate::Refusal::Full),
    /// [`Refusal::Shutdown`](crate::Refusal::Shutdown),
    /// [`Refusal::Forked`](crate::Refusal::Forked) or
    /// [`Refusal::OutOfMemory`](crate::Refusal::OutOfMemory). Only the memory for timeouts is
    /// refused with an error. A closure that has to be boxed aborts the process if there is no
    /// memory, as everywhere in Rust.
    #[inline]
    pub fn schedule<F>(&self, delay: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.home_shard().schedule(delay, task)
    }

    /// Runs `task` once, at `deadline`. It is [`schedule`](Self::schedule) with a point in
    /// time.
    ///
    /// A task whose deadline has passed runs at once, or at the end of this part of a tick, as a
    /// deadline is rounded up: see [`Builder::tick_duration`](crate::Builder::tick_duration).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// // One deadline for a request, and for all that it asks of others.
    /// let deadline = Instant::now() + Duration::from_secs(2);
    /// let answer = timer.schedule_at(deadline, || println!("no answer"))?;
    /// let lookup = timer.schedule_at(deadline, || println!("no answer to the lookup"))?;
    /// assert_eq!(answer.deadline(), lookup.deadline());
    /// assert!(answer.cancel() && lookup.cancel());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule).
    pub fn schedule_at<F>(&self, deadline: Instant, task: F) -> Result<Timeout, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.home_shard().schedule_at(deadline, task)
    }

    /// Runs `task` once, after `delay`, and makes no handle.
    ///
    /// It is [`schedule`](Self::schedule) for a timeout that is never cancelled or reset,
    /// without the cost of a handle.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let (tell, told) = channel();
    /// let tell = move || _ = tell.send("5 ms are over");
    /// timer.schedule_detached(Duration::from_millis(5), tell)?;
    /// assert_eq!(told.recv()?, "5 ms are over");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule).
    #[inline]
    pub fn schedule_detached<F>(&self, delay: Duration, task: F) -> Result<(), ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.home_shard().schedule_detached(delay, task)
    }

    /// Schedules many tasks with one delay: all of them or none.
    ///
    /// The call reads the clock once, and makes one exchange on the shard's inbox for all
    /// tasks. It allocates two vectors. Otherwise it allocates and waits as
    /// [`schedule`](Self::schedule) does.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{Timeout, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let tasks = (0..1_000).map(|id| move || println!("session {id} is over"));
    /// let sessions = timer.schedule_many(Duration::from_secs(60), tasks)?;
    /// assert_eq!(timer.pending(), 1_000);
    /// assert!(sessions.iter().all(Timeout::cancel));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`schedule`](Self::schedule), with all the tasks.
    pub fn schedule_many<F>(
        &self,
        delay: Duration,
        tasks: impl IntoIterator<Item = F>,
    ) -> Result<Vec<Timeout>, ScheduleError<Vec<F>>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.home_shard().submit_many(delay, tasks.into_iter().collect())
    }

    /// Moves the deadlines of many timeouts to `delay` from now, and returns how many of them were
    /// pending. Each is [reset](Timeout::reset) as if alone.
    ///
    /// It is for an event loop that has just read from a batch of connections, and pushes out the
    /// idle timeout of each. As a rule the call looks at the clock once, before the first timeout.
    /// It fetches the memory of the next timeouts while it resets one. It wakes a worker at most
    /// once for timeouts of one shard that follow one another and that the worker has not linked
    /// yet, unless the deadline comes, or another thread moves or cancels them, meanwhile.
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
        let shared = &*self.owner.shared;
        let Some(mine) = shared.thread_state().filter(|_| !delay.is_zero()) else {
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
