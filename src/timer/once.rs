//! Timeouts that run once.

use std::time::{Duration, Instant};

use super::Timer;
use super::error::ScheduleError;
use super::timeout::Timeout;

/// The methods for timeouts that run once, for a type with a `target`.
///
/// [`Timer`] has its own documentation for each. For another type the argument says where they put
/// the timeout.
macro_rules! once_methods {
    ($where:literal) => {
        once_methods! {
            #[doc = concat!("Runs `task` once, after `delay`, ", $where, ".")]
            ///
            /// Otherwise it is [`Timer::schedule`](crate::Timer::schedule).
            ///
            /// # Errors
            /// Returns the errors of that method.
            schedule

            #[doc = concat!("Runs `task` once, at `deadline`, ", $where, ".")]
            ///
            /// Otherwise it is [`Timer::schedule_at`](crate::Timer::schedule_at).
            ///
            /// # Errors
            /// Returns the errors of that method.
            schedule_at

            #[doc = concat!("Runs `task` once, after `delay`, without a handle, ", $where, ".")]
            ///
            /// Otherwise it is [`Timer::schedule_detached`](crate::Timer::schedule_detached).
            ///
            /// # Errors
            /// Returns the errors of that method.
            schedule_detached

            #[doc = concat!("Runs `task` once, between two delays, ", $where, ".")]
            ///
            /// Otherwise it is [`Timer::schedule_between`](crate::Timer::schedule_between).
            ///
            /// # Errors
            /// Returns the errors of that method.
            schedule_between

            #[doc = concat!("Schedules many tasks with one delay, all or none, ", $where, ".")]
            ///
            /// Otherwise it is [`Timer::schedule_many`](crate::Timer::schedule_many).
            ///
            /// # Errors
            /// Returns the errors of that method.
            schedule_many
        }
    };
    (
        $(#[$schedule:meta])* schedule
        $(#[$schedule_at:meta])* schedule_at
        $(#[$schedule_detached:meta])* schedule_detached
        $(#[$schedule_between:meta])* schedule_between
        $(#[$schedule_many:meta])* schedule_many
    ) => {
        $(#[$schedule])*
        #[inline]
        pub fn schedule<F>(&self, delay: Duration, task: F) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            self.target().submit_after(delay, task)
        }

        $(#[$schedule_at])*
        pub fn schedule_at<F>(&self, deadline: Instant, task: F) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            let target = self.target();
            target.submit(target.timeline().deadline_at(deadline), task)
        }

        $(#[$schedule_detached])*
        #[inline]
        pub fn schedule_detached<F>(&self, delay: Duration, task: F) -> Result<(), ScheduleError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            self.target().submit_detached(delay, task)
        }

        $(#[$schedule_between])*
        pub fn schedule_between<F>(
            &self,
            earliest: Duration,
            latest: Duration,
            task: F,
        ) -> Result<Timeout, ScheduleError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            let target = self.target();
            target.submit(target.deadline_between(earliest, latest), task)
        }

        $(#[$schedule_many])*
        pub fn schedule_many<F>(
            &self,
            delay: Duration,
            tasks: impl IntoIterator<Item = F>,
        ) -> Result<Vec<Timeout>, ScheduleError<Vec<F>>>
        where
            F: FnOnce() + Send + 'static,
        {
            self.target().submit_many(delay, tasks.into_iter().collect())
        }
    };
}

pub(super) use once_methods;

impl Timer {
    once_methods! {
        /// Runs `task` once, after `delay`.
        ///
        /// The task never runs early. The delay is rounded up to a part of a tick, and the task may
        /// wait for others of its tick: see
        /// [`Builder::tick_duration`](crate::Builder::tick_duration). A delay of zero runs it at
        /// once. `Duration::MAX`, or any other delay that ends centuries after the engine's start,
        /// never runs it.
        ///
        /// The call takes no lock, except on a thread that has destroyed its thread-locals. Such
        /// threads share one state under a lock. Otherwise the call waits in two cases:
        ///
        /// * The thread has no free memory left while more than 16,384 entries wait for a worker
        ///   that runs. The call then waits for the worker to catch up, for
        ///   [`Builder::max_wait`](crate::Builder::max_wait) at most.
        /// * Another thread is inside [`pause`](Self::pause). The call waits for its one look at
        ///   the clock.
        ///
        /// The call allocates in these cases:
        ///
        /// * The captures are larger than 24 bytes, or aligned to more than 8.
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
        schedule

        /// Runs `task` once, at `deadline`. It is [`schedule`](Self::schedule) with a point in
        /// time.
        ///
        /// A task whose deadline has passed runs at once.
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
        schedule_at

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
        schedule_detached

        /// Runs `task` once, at a tick between two delays that the engine chooses.
        ///
        /// The engine chooses a tick that other timeouts with overlapping ranges have taken, so
        /// that the worker wakes less often. It does not choose a tick that a thousand timeouts
        /// have taken, so that they do not all run at once. Use it for timeouts that need not be
        /// exact: idle timeouts, retries, reports.
        ///
        /// The task never runs before `earliest`, and is not scheduled for a time after `latest`.
        /// If `latest` is less than a tick after `earliest`, or before it, the call is a
        /// [`schedule`](Self::schedule) with `earliest`. A [`reset`](Timeout::reset) of the timeout
        /// is exact. The idea is that of Linux's timer slack and of Envoy's range timers.
        ///
        /// ```
        /// use std::time::Duration;
        /// use tourbillon::Timer;
        ///
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// let timer = Timer::new()?;
        /// let (earliest, latest) = (Duration::from_secs(60), Duration::from_secs(65));
        /// let idle = timer.schedule_between(earliest, latest, || println!("idle"))?;
        /// # drop(idle);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// Returns the errors of [`schedule`](Self::schedule).
        schedule_between

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
        schedule_many
    }
}
