//! The steps of a periodic timeout's runs: `shard/README.md`, section 6.

use super::{
    BATCHED, CANCELLED, EXPIRED, LINKED, MOVED, OWNERS, PENDING, PHASE, SERIES, Snapshot, State, deadline_in,
    is_running, pack, phase_of,
};
use crate::entry::outcome::{Expire, Kind, Rearm};
use crate::sync::Ordering;
use crate::time::Subtick;

impl State {
    /// PENDING → EXPIRED for a periodic timeout, by the thread that is about to run its task, if
    /// the deadline is not after `now`: the run has begun. A later cancel or reset acts on the next
    /// run. The entry stays the engine's.
    pub(crate) fn begin_run(&self, seen: Snapshot, now: Subtick) -> Expire {
        debug_assert_eq!(seen.kind(), Kind::Series);
        let begun = |word| (word & !(PHASE | LINKED | BATCHED)) | EXPIRED;
        self.end_wait(seen, now, begun, |word| self.0.store(begun(word), Ordering::Relaxed))
    }

    /// EXPIRED → PENDING for a periodic timeout. Its runner calls this after it has put the task
    /// back, and pushes the entry next. The deadline is `next`, unless a reset has set another one
    /// since the run began.
    pub(crate) fn rearm(&self, next: Subtick) -> Rearm {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if phase_of(word) == CANCELLED {
                // Acquire: pairs with the release of the cancel.
                self.0.load(Ordering::Acquire);
                return Rearm::Cancelled;
            }
            let deadline = if word & MOVED != 0 { deadline_in(word) } else { next };
            let armed = pack(deadline, (word & OWNERS) | SERIES | PENDING);
            match self.0.compare_exchange_weak(word, armed, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Rearm::Pending,
                Err(now) => word = now,
            }
        }
    }

    /// Ends a periodic timeout after its last run. Only its runner calls this. Returns false if it
    /// was cancelled meanwhile.
    pub(crate) fn end_series(&self) -> bool {
        let end = |word| is_running(word).then_some(word & !SERIES);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, end).is_ok()
    }
}
