//! A worker that was pinned, and whether it gets its core.
//!
//! A thread that is pinned waits for its core, however long another has it: one of a real-time policy, for example. So a pin that
//! [`Pinning::Auto`](super::Pinning::Auto) chose is given up, for good, when its worker has waited for [`BOUND_NS`] at a time.
//!
//! The worker looks as soon as it runs again ([`Meter`]): if it comes from a sleep by the bound later than it wanted to, and otherwise at one
//! turn in 100 ms. The system counts how long a thread could have run and did not, and that decides. So neither a task that takes long
//! nor a process that was stopped is taken for it.
//!
//! The bound is such that a machine which has a lot to do is rarely taken for it either. Beside four busy threads of the same policy, on two
//! cores, a pinned worker waited for up to 12 ms at a time; 5 of 11,000 waits took more than 8 ms.

use super::cores::{self, PinnedTo};
use super::waits::{Waits, waits};
use crate::events;
use crate::sync::Arc;

/// What a worker may wait for its core at a time.
const BOUND_NS: u64 = 20_000_000;
/// How often a worker looks that is not late.
const LOOK_NS: u64 = 100_000_000;

/// Where a worker was pinned, for all to see.
#[derive(Debug, Default)]
pub(super) struct Pin {
    core: PinnedTo,
}

impl Pin {
    pub(super) fn core(&self) -> Option<usize> {
        self.core.get()
    }

    /// Pins the calling thread, the worker. `may_move` if the pin may be given up. None if the thread could not be pinned.
    pub(super) fn put(this: &Arc<Self>, shard: usize, core: usize, may_move: bool) -> Option<Meter> {
        let is_pinned = cores::pin_current_thread(core, &this.core);
        let pin = Arc::clone(this);
        is_pinned.then(|| Meter { pin, shard, core, may_move, looked_ns: 0, waits: waits(), wanted_ns: None })
    }
}

/// What a pinned worker knows of how it fares.
#[derive(Debug)]
pub(super) struct Meter {
    pin: Arc<Pin>,
    shard: usize,
    core: usize,
    may_move: bool,
    looked_ns: u64,
    /// None if the system does not say.
    waits: Option<Waits>,
    /// When it wanted to run at the latest, if it comes from a sleep.
    wanted_ns: Option<u64>,
}

impl Meter {
    /// The worker has slept, and wanted to wake by then.
    pub(super) fn set_wanted(&mut self, wanted_ns: Option<u64>) {
        self.wanted_ns = wanted_ns;
    }

    /// The worker runs. False if it is pinned no more.
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
            // By the system, when the core went out of the process's cpuset; or by another thread, or a task.
            self.pin.core.take();
            return false;
        }
        if !self.may_move || !has_starved(earlier, now, late_ns) {
            return true;
        }
        self.pin.core.take();
        if cores::unpin(self.core) {
            events::worker_starved(self.shard, self.core);
        }
        false
    }
}

/// Whether a thread has waited for its core for the bound at a time: by what was counted at its last look, and now, and by how late it is
/// after a sleep.
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
    fn a_thread_starves_when_it_waits_for_its_core_and_not_when_it_is_late_for_another_reason() {
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
    fn where_the_system_does_not_count_a_thread_starves_when_it_is_late() {
        assert!(has_starved(None, None, BOUND_NS) && !has_starved(None, None, BOUND_NS - 1));
        assert!(has_starved(None, Some(Waits::default()), BOUND_NS));
    }
}
