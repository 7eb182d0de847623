//! The handle that callers hold.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, SystemTime};

use crate::clock::{Micros, WallClock};
use crate::commit::{self, Commit, Patience, Responder};
use crate::due::{DeadLetter, Pending, Scheduled};
use crate::error::Refused;
use crate::handlers::{self, Handlers};
use crate::inbox::{Command, Inbox, Reply};
use crate::stats::{Counters, Stats};
use crate::store::Op;

/// The longest payload.
const PAYLOAD: usize = 1 << 20;
/// The longest key.
const KEY: usize = 1_024;

/// Keyed timeouts that survive the process.
///
/// A clone is another handle of the same. [`stop`](Self::stop) ends it, and so does the drop of the
/// last handle. Pending timeouts stay in the store.
///
/// Each call returns at once, with a [`Commit`]. It neither blocks nor does any I/O: one thread
/// writes for all callers, many calls in one commit. A call is refused if too much waits to be
/// written.
#[derive(Clone)]
pub struct DurableTimer {
    inner: Arc<Inner>,
}

struct Inner {
    inbox: Arc<Inbox>,
    patience: Arc<Patience>,
    handlers: Arc<Handlers>,
    counters: Arc<Counters>,
    wall: Arc<dyn WallClock>,
    writer: ThreadId,
    /// Whether a stop had a limit, and runs have gone on beyond it.
    is_left: AtomicBool,
}

impl DurableTimer {
    pub(crate) fn new(
        inbox: Arc<Inbox>,
        patience: Arc<Patience>,
        handlers: Arc<Handlers>,
        counters: Arc<Counters>,
        wall: Arc<dyn WallClock>,
        writer: ThreadId,
    ) -> Self {
        let is_left = AtomicBool::new(false);
        Self { inner: Arc::new(Inner { inbox, patience, handlers, counters, wall, writer, is_left }) }
    }

    /// Schedules a timeout, in place of any other with this `key`. The last one wins.
    ///
    /// After `delay` the handler of this name runs, and gets the `payload`. If a run of the key is
    /// under way, it goes on, and its end changes nothing. A program that schedules the same key at
    /// each start moves its deadline each time: see [`get`](Self::get).
    ///
    /// # Errors
    ///
    /// [`Refused`], with nothing written: for an unknown handler, a key that is empty, longer than
    /// 1,024 bytes or holds a NUL, a payload longer than 1 MiB, a full queue, or after a stop.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tourbillon_durable::{DurableTimer, Outcome};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("timeouts.db");
    /// # let timer = tourbillon::Timer::new()?;
    /// # let timers = DurableTimer::open(path.to_str().unwrap())?
    /// #     .handler("close_order", |_due| Outcome::Done)
    /// #     .start(&timer)?;
    /// let half_an_hour = Duration::from_secs(1800);
    /// timers.schedule("order:42", half_an_hour, "close_order", b"42")?.wait()?; // on disk
    /// assert!(timers.reset("order:42", half_an_hour)?.wait()?);
    /// assert!(timers.cancel("order:42")?.wait()?);
    /// assert_eq!(timers.get("order:42")?.wait()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedule(
        &self,
        key: &str,
        delay: Duration,
        handler: &str,
        payload: impl AsRef<[u8]>,
    ) -> Result<Commit<Scheduled>, Refused> {
        let op = self.scheduling(key, self.after(delay)?, handler, payload.as_ref(), false)?;
        self.push(op, Reply::Scheduled)
    }

    /// Schedules a timeout, unless one with this `key` is there, whether it waits or runs. Returns
    /// `None` in that case, and changes nothing: neither its deadline nor its payload.
    ///
    /// The store decides in one step. Of several processes that call it for one key, one schedules.
    /// A program may so schedule at each start what it wants to have scheduled once.
    ///
    /// # Errors
    ///
    /// As [`schedule`](Self::schedule).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tourbillon_durable::{DurableTimer, Outcome};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("timeouts.db");
    /// # let timer = tourbillon::Timer::new()?;
    /// # let timers = DurableTimer::open(path.to_str().unwrap())?
    /// #     .handler("report", |_due| Outcome::Done)
    /// #     .start(&timer)?;
    /// let day = Duration::from_secs(86_400);
    /// assert!(timers.schedule_if_absent("report", day, "report", b"")?.wait()?.is_some());
    /// assert!(timers.schedule_if_absent("report", day, "report", b"")?.wait()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedule_if_absent(
        &self,
        key: &str,
        delay: Duration,
        handler: &str,
        payload: impl AsRef<[u8]>,
    ) -> Result<Commit<Option<Scheduled>>, Refused> {
        let op = self.scheduling(key, self.after(delay)?, handler, payload.as_ref(), true)?;
        self.push(op, Reply::ScheduledIfAbsent)
    }

    /// Schedules a timeout for a time of day: see [`schedule`](Self::schedule). One that has gone
    /// runs at once.
    ///
    /// # Errors
    ///
    /// As [`schedule`](Self::schedule).
    pub fn schedule_at(
        &self,
        key: &str,
        due: SystemTime,
        handler: &str,
        payload: impl AsRef<[u8]>,
    ) -> Result<Commit<Scheduled>, Refused> {
        let op = self.scheduling(key, self.at(due)?, handler, payload.as_ref(), false)?;
        self.push(op, Reply::Scheduled)
    }

    /// Schedules a timeout with a payload in JSON, which [`Due::json`](crate::Due::json) reads.
    /// With the feature `json`.
    ///
    /// # Errors
    ///
    /// As [`schedule`](Self::schedule), and [`Refused::Json`] if `payload` can't be written.
    #[cfg(feature = "json")]
    pub fn schedule_json(
        &self,
        key: &str,
        delay: Duration,
        handler: &str,
        payload: &impl serde::Serialize,
    ) -> Result<Commit<Scheduled>, Refused> {
        let payload = serde_json::to_vec(payload).map_err(|error| Refused::Json(error.to_string()))?;
        self.schedule(key, delay, handler, payload)
    }

    /// Moves a timeout to `delay` from now, and begins to count its attempts anew. The answer is
    /// false if no timeout has this key, or if it runs: then it is not moved.
    ///
    /// # Errors
    ///
    /// [`Refused`], with nothing written.
    pub fn reset(&self, key: &str, delay: Duration) -> Result<Commit<bool>, Refused> {
        self.reset_micros(key, self.after(delay)?)
    }

    /// Moves a timeout to a time of day: see [`reset`](Self::reset).
    ///
    /// # Errors
    ///
    /// [`Refused`], with nothing written.
    pub fn reset_at(&self, key: &str, due: SystemTime) -> Result<Commit<bool>, Refused> {
        self.reset_micros(key, self.at(due)?)
    }

    /// Cancels a timeout. After the answer true no process claims it, unless it is scheduled anew.
    /// The answer is false if no timeout has this key, or if it runs.
    ///
    /// A timeout that is claimed and waits for a thread counts as running. A run whose process has
    /// lost its lease does not count: its timeout is cancelled, and its end changes nothing.
    ///
    /// # Errors
    ///
    /// [`Refused`], with nothing written.
    pub fn cancel(&self, key: &str) -> Result<Commit<bool>, Refused> {
        let op = Op::Cancel { key: check_key(key)? };
        self.push(op, Reply::Whether)
    }

    /// Reads the row of a timeout, as it is after all earlier calls of this process.
    ///
    /// # Errors
    ///
    /// [`Refused`], as all calls.
    pub fn get(&self, key: &str) -> Result<Commit<Option<Pending>>, Refused> {
        let op = Op::Get { key: check_key(key)? };
        self.push(op, Reply::Row)
    }

    /// Reads the dead letters, the oldest first, at most so many.
    ///
    /// # Errors
    ///
    /// [`Refused`], as all calls.
    pub fn dead_letters(&self, limit: u32) -> Result<Commit<Vec<DeadLetter>>, Refused> {
        self.push(Op::DeadLetters { limit }, Reply::DeadLetters)
    }

    /// Schedules a dead letter once more, with its payload. The answer is false if there is no such
    /// letter, or if its key has been scheduled since.
    ///
    /// # Errors
    ///
    /// [`Refused`], with nothing written.
    pub fn revive(&self, letter: &DeadLetter, delay: Duration) -> Result<Commit<bool>, Refused> {
        let due = self.after(delay)?;
        let op = Op::Revive { key: check_key(&letter.key)?, generation: letter.generation, due, owned: false };
        self.push(op, Reply::Whether)
    }

    /// Deletes a dead letter. The answer is false if there is no such letter.
    ///
    /// # Errors
    ///
    /// [`Refused`], with nothing written.
    pub fn delete_dead_letter(&self, letter: &DeadLetter) -> Result<Commit<bool>, Refused> {
        let op = Op::DeleteDead { key: check_key(&letter.key)?, generation: letter.generation };
        self.push(op, Reply::Whether)
    }

    /// Pauses a handler in this process, until [`resume`](Self::resume) or a restart. Runs that are
    /// under way go on, and so do those that are just about to begin.
    ///
    /// Timeouts that come up meanwhile wait in the store. Other processes that have the handler run
    /// them. They get those that this process had in its wheel as well, by their next scan. To an
    /// [`Operator`](crate::Operator) a handler that each process has paused is one that no process
    /// has. Does not block.
    ///
    /// # Errors
    ///
    /// [`Refused::NoHandler`] if this process has no such handler, and [`Refused::Forked`].
    ///
    /// ```
    /// # use tourbillon_durable::{DurableTimer, Outcome};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let timer = tourbillon::Timer::new()?;
    /// # let timers = DurableTimer::open(directory.path().join("timeouts.db"))?
    /// #     .handler("call_webhook", |_due| Outcome::Done)
    /// #     .start(&timer)?;
    /// timers.pause("call_webhook")?; // the service behind it is down
    /// assert!(timers.is_paused("call_webhook"));
    /// timers.resume("call_webhook")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause(&self, handler: &str) -> Result<(), Refused> {
        self.switch(handler, true)
    }

    /// Has a paused handler go on. Timeouts that have come up meanwhile run no faster than
    /// [`Builder::overdue_per_second`](crate::Builder::overdue_per_second). Does not block.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    pub fn resume(&self, handler: &str) -> Result<(), Refused> {
        self.switch(handler, false)
    }

    /// Whether a handler of this process is paused.
    #[must_use]
    pub fn is_paused(&self, handler: &str) -> bool {
        self.inner.handlers.get(handler).is_some_and(|handler| handler.is_paused())
    }

    /// Returns the counters of this process. In a forked child they are zero.
    #[must_use]
    pub fn stats(&self) -> Stats {
        if self.inner.patience.is_forked() {
            // A lock may be held by a thread that is not here.
            return Stats::default();
        }
        self.inner.counters.snapshot(self.inner.inbox.waiting())
    }

    /// Stops: refuses calls, writes what was called before, waits for the handlers that run, and
    /// gives the timeouts of this process back to the others. Blocks until then.
    ///
    /// Call it when the process is asked to end, by SIGTERM for instance. Without it the timeouts
    /// that the process has claimed count as those of a crash: the next one runs them one at a
    /// time, and with PostgreSQL only after the lease. A handler that hangs holds it up for ever,
    /// and so does a future that no runtime polls: [`stop_within`](Self::stop_within) has a limit.
    ///
    /// A handler that calls it does not wait for itself: then it returns at once. If the store
    /// can't be reached, or refuses, it is tried for five seconds more; a call that was not written
    /// by then is answered with an error. In a forked child it does nothing.
    pub fn stop(&self) {
        self.inner.stop(Duration::MAX);
    }

    /// Stops as [`stop`](Self::stop), but waits for so long at most. Returns how many runs are
    /// under way then, those included whose ends are not on disk.
    ///
    /// They go on under the lease, and the drop of the last handle does not wait for them any more.
    /// If the process ends before them, they count as those of a crash.
    pub fn stop_within(&self, limit: Duration) -> usize {
        self.inner.stop(limit)
    }

    fn scheduling(
        &self,
        key: &str,
        due: Micros,
        handler: &str,
        payload: &[u8],
        if_absent: bool,
    ) -> Result<Op, Refused> {
        let key = check_key(key)?;
        let Some(handler) = self.inner.handlers.name(handler) else {
            return Err(Refused::NoHandler { name: handler.to_owned(), known: self.inner.handlers.names() });
        };
        check_payload(payload)?;
        Ok(Op::Schedule { key, due, handler, payload: payload.into(), owned: false, if_absent })
    }

    fn reset_micros(&self, key: &str, due: Micros) -> Result<Commit<bool>, Refused> {
        let op = Op::Reset { key: check_key(key)?, due, owned: false };
        self.push(op, Reply::Whether)
    }

    fn push<T>(&self, op: Op, reply: impl FnOnce(Responder<T>) -> Reply) -> Result<Commit<T>, Refused> {
        if self.inner.patience.is_forked() {
            return Err(Refused::Forked);
        }
        let (responder, commit) = commit::channel(&self.inner.patience);
        self.inner.inbox.push(Command { op, reply: reply(responder) })?;
        Ok(commit)
    }

    fn switch(&self, handler: &str, paused: bool) -> Result<(), Refused> {
        if self.inner.patience.is_forked() {
            return Err(Refused::Forked);
        }
        let handlers = &self.inner.handlers;
        if handlers.pause(handler, paused).is_none() {
            let known = handlers.here().map(|(name, _)| name.to_string()).collect();
            return Err(Refused::NoHandler { name: handler.to_owned(), known });
        }
        self.inner.inbox.poke();
        Ok(())
    }

    fn after(&self, delay: Duration) -> Result<Micros, Refused> {
        let now = self.inner.wall.now();
        now.checked_add(delay).and_then(Micros::round_up).ok_or(Refused::TooFar { delay })
    }

    fn at(&self, due: SystemTime) -> Result<Micros, Refused> {
        Micros::round_up(due)
            .ok_or_else(|| Refused::TooFar { delay: due.duration_since(self.inner.wall.now()).unwrap_or_default() })
    }
}

pub(crate) fn is_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && !name.chars().any(char::is_control)
}

pub(crate) fn check_payload(payload: &[u8]) -> Result<(), Refused> {
    let len = payload.len();
    if len > PAYLOAD { Err(Refused::Payload { len, most: PAYLOAD }) } else { Ok(()) }
}

pub(crate) fn check_key(key: &str) -> Result<Arc<str>, Refused> {
    if key.is_empty() || key.len() > KEY || key.contains('\0') {
        return Err(Refused::Key { len: key.len() });
    }
    Ok(key.into())
}

impl Inner {
    /// Returns how many runs are under way after so long.
    fn stop(&self, limit: Duration) -> usize {
        if self.patience.is_forked() {
            return 0;
        }
        self.inbox.stop();
        // A task that is woken by an answer, and is dropped with that, may have the last handle.
        let is_waited_for = handlers::is_runner() || thread::current().id() == self.writer;
        if !is_waited_for {
            if self.inbox.wait_until_over(limit) {
                return 0;
            }
            self.is_left.store(true, Ordering::Relaxed);
        }
        self.counters.snapshot(0).running
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !*self.is_left.get_mut() {
            self.stop(Duration::MAX);
        }
    }
}

impl fmt::Debug for DurableTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableTimer").field("handlers", &self.inner.handlers).finish_non_exhaustive()
    }
}
