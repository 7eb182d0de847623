//! The handle of one timeout.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::engine::Shared;
use crate::entry::{Cancel, Entry, Reset, Task, Tell, entry_ref};
use crate::shard::Remote;
use crate::time::{Tick, Timeline};

/// A handle of one scheduled timeout: 8 bytes, good for as long as you keep it, even after its [`Timer`](crate::Timer) is
/// gone.
///
/// Dropping it detaches: the timeout still fires. Keep a [`TimeoutGuard`] ([`cancel_on_drop`](Self::cancel_on_drop)) if it
/// should not.
///
/// None of its methods blocks, but that a cancel drops the task, that a reset, and [`deadline`](Self::deadline), wait while another
/// thread is in the midst of [`Timer::pause`](crate::Timer::pause), for its one look at the clock, and that of a driven engine a
/// reset to earlier may call [`on_earlier`](crate::Driver::on_earlier). None allocates, but that a reset to an earlier deadline, and a drop when very
/// many handles of expired timeouts have been dropped, may allocate a queue block once in a while, and a thread's first use
/// of an engine, or of a shard that is not its own, a little state.
#[must_use = "dropping a Timeout detaches it: it still fires, and can't be cancelled or reset any more \
              (schedule_detached makes none in the first place)"]
pub struct Timeout {
    entry: NonNull<Entry>,
}

const _: () = assert!(size_of::<Option<Timeout>>() == 8);

// SAFETY: all that a handle does with its entry goes through the state word, and what that word allows.
unsafe impl Send for Timeout {}
// SAFETY: as above.
unsafe impl Sync for Timeout {}

/// Cancels a timeout. At last its task is given to `dispose`, unless it is running, and dropped by its runner. False if the
/// timeout was not pending any more.
///
/// # Safety
/// The caller is one of the entry's owners.
#[inline]
pub(super) unsafe fn cancel(entry: NonNull<Entry>, dispose: impl FnOnce(Task)) -> bool {
    // SAFETY: an owner keeps the entry alive.
    let this = unsafe { entry_ref(entry) };
    // SAFETY: the schedule wrote it there, and the remote, a part of the engine, lives as long as any owner.
    let remote = unsafe { &*this.home().cast::<Remote>() };
    let task = match this.state.cancel() {
        Cancel::TooLate => return false,
        Cancel::WonRunning => None,
        Cancel::Won => {
            // SAFETY: just won.
            Some(unsafe { this.take_task() })
        }
        Cancel::WonLinked => {
            // SAFETY: just won.
            let task = unsafe { this.take_task() };
            // SAFETY: won, and the task is out; the owner is here.
            unsafe { remote.push_cancelled(entry) };
            Some(task)
        }
    };
    let shared = Shared::of_remote(remote);
    shared.give_places_back(1);
    shared.count(remote, |counts| counts.cancelled.add(1));
    if let Some(task) = task {
        dispose(task);
    }
    true
}

impl Timeout {
    /// # Safety
    /// The entry was armed with a handle, which is the caller's to make, once.
    pub(super) unsafe fn new(entry: NonNull<Entry>) -> Self {
        Self { entry }
    }

    pub(super) fn as_entry(&self) -> NonNull<Entry> {
        self.entry
    }

    fn entry(&self) -> &Entry {
        // SAFETY: a handle keeps its entry alive.
        unsafe { entry_ref(self.entry) }
    }

    pub(super) fn remote(&self) -> &Remote {
        // SAFETY: the schedule wrote it there, and the remote, a part of the engine, lives as long as the handle.
        unsafe { &*self.entry().home().cast::<Remote>() }
    }

    pub(super) fn shared(&self) -> &Shared {
        Shared::of_remote(self.remote())
    }

    /// Cancels the timeout. True: it has not run and never will, and its task was dropped by this call, on this thread. False: it has been
    /// expired (its task has run, or is about to), cancelled, handed back by a shutdown, or dropped with its engine before.
    ///
    /// If the task's destructor panics, that comes out of here.
    ///
    /// One compare-and-swap; if the worker has already linked the timeout into its wheel, one push more. Wakes nobody,
    /// unless thousands of cancelled timeouts wait to be collected.
    ///
    /// Of a series, true means that it is over: no run begins after this. One that is under way goes on, and drops the task when
    /// it ends; so a task may cancel its own series.
    pub fn cancel(&self) -> bool {
        // SAFETY: the handle is an owner.
        unsafe { cancel(self.entry, drop) }
    }

    /// Pushes the timeout's deadline to `delay` from now, be that later or earlier. True: it is still pending, and will
    /// not fire before the new deadline. False: it is no longer pending, or this is a child process that was forked off after
    /// the engine was made, where nothing will fire; nothing was changed.
    ///
    /// To a later deadline it is one compare-and-swap, no message, no wake-up: the worker finds the new deadline when the
    /// old one comes up (after the "touch" of Kafka's and Tokio's timers). To an earlier one the worker is told.
    ///
    /// Of a series, it is the next run that is moved, also while one is under way; a fixed rate goes on from there.
    ///
    /// A server has to look at the answer. A packet may come in the very moment in which the idle
    /// timeout fires. Then the answer is false, and the timeout's task is closing the connection,
    /// or is about to. So the server stops serving it:
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{Timeout, Timer};
    ///
    /// const IDLE: Duration = Duration::from_secs(30);
    ///
    /// /// Called for each packet. False if the connection is being closed.
    /// fn serve(packet: &[u8], idle: &Timeout) -> bool {
    ///     if !idle.reset(IDLE) {
    ///         return false;
    ///     }
    ///     println!("{} bytes", packet.len());
    ///     true
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let idle = timer.schedule(IDLE, || println!("idle: closing"))?;
    /// assert!(serve(b"hello", &idle));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "false: it has fired, or is about to, and was not moved (see `reset`)"]
    pub fn reset(&self, delay: Duration) -> bool {
        self.reset_by(|timeline| timeline.tick_after(delay))
    }

    /// As [`reset`](Self::reset), to a point in time; one that has passed makes it fire at once.
    #[must_use = "false: it has fired, or is about to, and was not moved (see `reset`)"]
    pub fn reset_at(&self, deadline: Instant) -> bool {
        self.reset_by(|timeline| {
            let later = timeline.tick_of_deadline(deadline);
            // The clock is looked at only if the deadline is an earlier one, and so may have passed.
            let is_earlier = later < self.entry().state.deadline();
            if is_earlier { timeline.tick_at_or_now(deadline) } else { later }
        })
    }

    pub(super) fn reset_to(&self, deadline: Tick) -> bool {
        self.reset_by(|_| deadline)
    }

    #[inline]
    fn reset_by(&self, choose: impl FnOnce(&Timeline) -> Tick) -> bool {
        let shared = self.shared();
        let shared = match shared.thread_state() {
            // By the thread's way to the engine and not by the entry's, which may still be on its way here from memory. (Who has a producer
            // of its own is not in a forked child.)
            Some(mine) => Shared::of_thread(mine),
            None if shared.is_forked() => return false,
            None => shared,
        };
        let deadline = choose(shared.timeline());
        match self.entry().state.reset(deadline, Tell::NotYet) {
            Reset::TooLate => return false,
            Reset::Later => {}
            Reset::Earlier => self.remote().ring_if_it_sleeps_past(deadline),
            Reset::EarlierQueued => unreachable!("the worker is not told yet"),
            Reset::NotYet => return self.reset_to_earlier(shared, deadline),
        }
        shared.count(self.remote(), |counts| counts.reset.add(1));
        true
    }

    /// Of a timeout that the worker has linked, so that it has to be told.
    fn reset_to_earlier(&self, shared: &Shared, deadline: Tick) -> bool {
        // SAFETY: the producer is this thread's, the arena is the engine's.
        let node = shared.with_thread_state(|mine| unsafe { mine.take_node(&shared.arena) });
        let tell = if node.is_some() { Tell::ByQueue } else { Tell::ByRescan };
        let (remote, reset) = (self.remote(), self.entry().state.reset(deadline, tell));
        let unused = match (reset, node) {
            // SAFETY: just taken, and given up if it is sent.
            (Reset::EarlierQueued, Some(node)) => (!unsafe { remote.push_reset(node, self.entry) }).then_some(node),
            (Reset::Earlier, None) => {
                remote.ask_for_rescan(deadline);
                None
            }
            (Reset::Earlier, node) => {
                remote.ring_if_it_sleeps_past(deadline);
                node
            }
            (_, node) => node,
        };
        if let Some(node) = unused {
            // SAFETY: just taken, and sent to nobody.
            unsafe { shared.put_entry(node) };
        }
        let is_reset = reset != Reset::TooLate;
        if is_reset {
            shared.count(remote, |counts| counts.reset.add(1));
        }
        is_reset
    }

    /// Whether it has neither been expired nor cancelled; of a series, whether it will run again, or is running.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.entry().state.is_pending()
    }

    /// Whether its deadline has come and it was given to the executor: its task has run, is running, or is about to. Of a
    /// series: whether it has ended by itself.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.entry().state.is_expired()
    }

    /// Whether it was cancelled, or handed back unfired by a shutdown, or dropped unrun with its engine; of a series also
    /// whether a shutdown has ended it, after whatever runs.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.entry().state.is_cancelled()
    }

    /// The deadline as of the last successful reset, rounded up to the tick at which it is due; of a timeout that is no longer pending, the
    /// last one; of a series, that of the next run, or of the one under way. In a [pause](crate::Timer::pause), as if that ended now. A
    /// deadline that is too far for an [`Instant`] (never, say) is shown as one centuries from now.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.shared().timeline().instant_of(self.entry().state.deadline())
    }

    /// Makes a guard that cancels the timeout when it is dropped.
    pub fn cancel_on_drop(self) -> TimeoutGuard {
        TimeoutGuard { timeout: ManuallyDrop::new(self) }
    }
}

impl Drop for Timeout {
    fn drop(&mut self) {
        // SAFETY: this is the entry's handle, and it is given up here once.
        unsafe { Shared::drop_handle(self.entry) };
    }
}

impl fmt::Debug for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match () {
            () if self.is_pending() => "pending",
            () if self.is_expired() => "expired",
            () => "cancelled",
        };
        f.debug_struct("Timeout").field("state", &state).field("deadline", &self.deadline()).finish()
    }
}

/// A [`Timeout`] that is cancelled when dropped. It has all of the handle's methods.
#[must_use = "dropping a TimeoutGuard cancels the timeout"]
pub struct TimeoutGuard {
    timeout: ManuallyDrop<Timeout>,
}

impl TimeoutGuard {
    /// Gives the plain handle back: it no longer cancels when dropped.
    pub fn into_timeout(self) -> Timeout {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the guard is forgotten, so the handle is taken out once.
        unsafe { ManuallyDrop::take(&mut this.timeout) }
    }
}

impl Deref for TimeoutGuard {
    type Target = Timeout;

    fn deref(&self) -> &Timeout {
        &self.timeout
    }
}

impl Drop for TimeoutGuard {
    fn drop(&mut self) {
        // SAFETY: the guard goes, so the handle is taken out once.
        let timeout = unsafe { ManuallyDrop::take(&mut self.timeout) };
        // The handle is let go even if the task panics in its destructor.
        timeout.cancel();
    }
}

impl fmt::Debug for TimeoutGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimeoutGuard").field(&*self.timeout).finish()
    }
}
