//! Timeouts that run once.

use std::time::{Duration, Instant};

use super::Timer;
use super::error::ScheduleError;
use super::timeout::Timeout;

impl Timer {
    /// Runs `task` once, after `delay`.
    ///
    /// The task never runs early. The delay is rounded up to a part of a tick, and the task may
    /// wait for others of its tick: see
    /// [`Builder::tick_duration`](crate::Builder::tick_duration). A delay of zero runs it at
    /// once. `Duration::MAX`, or any other delay that ends centuries after the engine's start,
    /// never runs it.
    ///
    /// The call takes no lock, except on a thread that has destroyed its thread-locals. Such
    /// threads share one state under a lock. Otherwise the call waits in one case: the thread has
    /// no free memory left while more than 16,384 entries wait for a worker that runs. The call
    /// then waits for the worker to catch up, for
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
}
