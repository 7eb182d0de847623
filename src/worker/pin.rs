//! Gives a worker's pin up if the worker does not get its core.
//!
//! A pinned thread waits for its core as long as another thread has it, for example one of a
//! real-time policy. So when a worker has waited for [`BOUND_NS`] at a time, a pin that
//! [`Pinning::Auto`](super::Pinning::Auto) chose is given up, for good. Two kinds of threads can
//! find this out, and the first one gives the pin up:
//!
//! 1. *The worker*, as soon as it runs again ([`Meter`]). It looks when it comes from a sleep later
//!    than it wanted to by the bound, and otherwise at one turn in 100 ms. The system counts how
//!    long a thread could have run and did not, and this count decides. So a task that takes long,
//!    or a process that was stopped, does not cost the worker its pin.
//! 2. *A thread that schedules* while many entries wait, or that calls `Timer::health`
//!    ([`Pin::look`]). It is there because the worker can't check while it does not run. If the
//!    worker sleeps past its wake-up time by the bound, and could run, it is waiting for its core.
//!    If the worker is not asleep, it takes two looks: the worker is waiting for its core if it
//!    should have run at both, the bound apart, could run, and has had no processor in between.
//!
//! The bound is long enough that a busy machine rarely costs a worker its pin. Beside four busy
//! threads of the same policy, on two cores, a pinned worker waited for up to 12 ms at a time; 5 of
//! 11,000 waits took more than 8 ms.
//!
//! Exactly one thread gives the pin up, because [`Watched`] can be taken out of its lock once. The
//! worker takes it out when it ends: another thread may get its number then.

use crate::engine::Shared;
use crate::events;
use crate::shard::Remote;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::sys::cores::{self, PinnedTo};
use crate::sys::schedstat::{Seen, Waits, waits};

/// How long a worker may wait for its core at a time.
const BOUND_NS: u64 = 20_000_000;
/// How often a worker that is not late checks.
const LOOK_NS: u64 = 100_000_000;

/// Where a worker is pinned. Any thread may read it.
#[derive(Debug, Default)]
pub(super) struct Pin {
    core: PinnedTo,
    /// `None` if the pin is not to be given up. Only the worker waits for this lock, and no longer
    /// than a look takes.
    watched: Mutex<Option<Watched>>,
}

/// A worker that other threads look at.
#[derive(Debug)]
struct Watched {
    worker: Seen,
    suspicion: Option<Suspicion>,
}

/// A look at which the worker should have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Suspicion {
    at_ns: u64,
    /// When the worker's last turn had begun.
    turn_ns: Option<u64>,
    processor_ns: u64,
}

impl Pin {
    pub(super) fn core(&self) -> Option<usize> {
        self.core.get()
    }

    /// Pins the calling thread, the worker. `is_watched` says whether the pin may be given up.
    /// Returns `None` if the thread could not be pinned.
    pub(super) fn put(this: &Arc<Self>, shard: usize, core: usize, is_watched: bool) -> Option<Meter> {
        if !cores::pin_current_thread(core, &this.core) {
            return None;
        }
        let worker = if is_watched { Seen::current() } else { None };
        *lock(&this.watched) = worker.map(|worker| Watched { worker, suspicion: None });
        Some(Meter { pin: Arc::clone(this), shard, core, looked_ns: 0, waits: waits(), wanted_ns: None })
    }

    /// Checks from another thread whether the worker gets its core.
    #[cold]
    pub(super) fn look(&self, shared: &Shared, shard: usize) {
        // A forked child has no worker, and the worker's number may belong to any thread there.
        if self.core().is_none() || shared.is_forked() {
            return;
        }
        // If this fails, another thread looks, or the worker ends.
        let Ok(mut watched) = self.watched.try_lock() else { return };
        if watched.as_mut().is_some_and(|watched| watched.is_starved(shared, shared.remote(shard))) {
            self.give_up(watched, shard);
        }
    }

    /// Lets the worker run wherever the process may, unless another thread has done that.
    fn give_up(&self, mut watched: MutexGuard<'_, Option<Watched>>, shard: usize) {
        let Some(Watched { worker, .. }) = watched.take() else { return };
        let from = self.core.take().filter(|&core| cores::unpin(worker.number, core));
        // Unlock first: a subscriber to events may schedule, and come here again.
        drop(watched);
        if let Some(core) = from {
            events::worker_starved(shard, core);
        }
    }
}

impl Watched {
    fn is_starved(&mut self, shared: &Shared, remote: &Remote) -> bool {
        let suspicion = self.suspicion.take();
        let sleeps_until = remote.sleeps_until();
        let timeline = shared.timeline();
        let now_ns = timeline.now_ns();
        if sleeps_until.is_some_and(|until| now_ns < timeline.scale().ns_of(until).saturating_add(BOUND_NS)) {
            return false;
        }
        let Some(processor_ns) = self.worker.processor_ns() else { return false };
        if sleeps_until.is_some() {
            return self.worker.can_run() == Some(true) && self.worker.processor_ns() == Some(processor_ns);
        }
        let seen = Suspicion { at_ns: now_ns, turn_ns: remote.heartbeat.last(), processor_ns };
        let suspicion = suspicion.filter(|earlier| Suspicion { at_ns: now_ns, ..*earlier } == seen).unwrap_or(seen);
        self.suspicion = Some(suspicion);
        now_ns.saturating_sub(suspicion.at_ns) >= BOUND_NS && self.worker.can_run() == Some(true)
    }
}

/// What a pinned worker knows about its waits for its core.
#[derive(Debug)]
pub(super) struct Meter {
    pin: Arc<Pin>,
    shard: usize,
    core: usize,
    looked_ns: u64,
    /// `None` if the system does not report them.
    waits: Option<Waits>,
    /// When the worker wanted to run at the latest, if it comes from a sleep.
    wanted_ns: Option<u64>,
}

impl Meter {
    /// Records that the worker has slept, and wanted to wake at `wanted_ns`.
    pub(super) fn set_wanted(&mut self, wanted_ns: Option<u64>) {
        self.wanted_ns = wanted_ns;
    }

    /// Records that the worker runs. Returns `false` if it is no longer pinned.
    #[inline]
    pub(super) fn goes_on(&mut self, now_ns: u64) -> bool {
        let late_ns = self.wanted_ns.take().map_or(0, |wanted_ns| now_ns.saturating_sub(wanted_ns));
        let is_time = late_ns >= BOUND_NS || now_ns.saturating_sub(self.looked_ns) >= LOOK_NS;
        !is_time || self.look(now_ns, late_ns)
    }

    #[cold]
    fn look(&mut self, now_ns: u64, late_ns: u64) -> bool {
        self.looked_ns = now_ns;
        let now = waits();
        let earlier = std::mem::replace(&mut self.waits, now);
        if !cores::is_pinned_here(self.core) {
            // The system unpinned it, when the core left the process's cpuset, or another thread or
            // a task did.
            self.pin.core.take();
            return false;
        }
        if has_starved(earlier, now, late_ns) {
            self.pin.give_up(lock(&self.pin.watched), self.shard);
        }
        self.pin.core().is_some()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        *lock(&self.pin.watched) = None;
    }
}

/// Returns whether a thread has waited for its core for the bound at a time. It goes by the counts
/// at the last look and now, and by how late the thread is after a sleep.
fn has_starved(earlier: Option<Waits>, now: Option<Waits>, late_ns: u64) -> bool {
    let is_late = late_ns >= BOUND_NS;
    let (Some(earlier), Some(now)) = (earlier, now) else { return is_late };
    let waited_ns = now.waited_ns.saturating_sub(earlier.waited_ns);
    let each_ns = waited_ns / now.runs.saturating_sub(earlier.runs).max(1);
    each_ns >= BOUND_NS || (is_late && waited_ns >= late_ns / 2)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_thread_starves_only_if_it_waits_for_its_core() {
        let begun = Waits { waited_ns: 500 * MS, runs: 1_000 };
        let after = |waited_ns, runs| Some(Waits { waited_ns: begun.waited_ns + waited_ns, runs: begun.runs + runs });
        let starves = |now, late_ns| has_starved(Some(begun), now, late_ns);
        assert!(!starves(after(0, 1), 0), "it ran at once");
        assert!(starves(after(950 * MS, 1), 0), "nobody knows when it was called, but it waited");
        assert!(starves(after(940 * MS, 1), 950 * MS));
        assert!(starves(after(35 * MS, 90), 30 * MS), "the last wait was the long one, as it was late");
        assert!(!starves(after(30 * MS, 90), 9 * MS), "many short waits, on a machine that is loaded");
        assert!(!starves(after(MS, 1), 950 * MS), "the process was stopped, or the machine stood still");
        assert!(!starves(after(0, 0), 950 * MS));
    }

    #[test]
    fn without_system_counts_a_late_thread_starves() {
        assert!(has_starved(None, None, BOUND_NS) && !has_starved(None, None, BOUND_NS - 1));
        assert!(has_starved(None, Some(Waits::default()), BOUND_NS));
    }
}
