//! The steps of a periodic timeout's runs: `shard/README.md`, section 6.

use super::{
    BATCHED, CANCELLED, EXPIRED, LINKED, MOVED, OWNERS, PENDING, PHASE, SERIES, Snapshot, State, WAKER, deadline_in,
    pack, phase_of,
};
use crate::entry::outcome::{Expire, Kind};
use crate::sync::Ordering;
use crate::time::Subtick;

/// The bit LINKED during a run, when the entry is in no slot: that was the last run, and a cancel
/// is too late.
const LAST: u64 = LINKED;

/// A run of a periodic timeout is under way, and a cancel or a reset acts on the next one.
pub(super) const fn is_running(word: u64) -> bool {
    word & (PHASE | SERIES | WAKER | LAST) == EXPIRED | SERIES
}

/// A run of a periodic timeout is under way, or its last run is about to have ended.
pub(super) const fn is_in_run(word: u64) -> bool {
    is_running(word & !LAST)
}

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
    /// since the run began. Returns false, and changes nothing, if the timeout was cancelled.
    pub(crate) fn rearm(&self, next: Subtick) -> bool {
        let armed = |word| {
            let deadline = if word & MOVED != 0 { deadline_in(word) } else { next };
            (phase_of(word) != CANCELLED).then(|| pack(deadline, (word & OWNERS) | SERIES | PENDING))
        };
        // Acquire, also if it fails: pairs with the release of the cancel.
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, armed).is_ok()
    }

    /// Begins to end a periodic timeout after its last run. Only its runner calls this. Returns
    /// false if it was cancelled meanwhile. From here on a cancel is too late, and the timeout
    /// still reads as pending, so that its runner can give its place back first.
    pub(crate) fn begin_end(&self) -> bool {
        let end = |word| is_running(word).then_some(word | LAST);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, end).is_ok()
    }

    /// Ends what [`begin_end`](Self::begin_end) has begun: the timeout reads as expired.
    pub(crate) fn end_series(&self) {
        // Release: who reads the end finds the place.
        self.0.fetch_and(!(SERIES | LAST), Ordering::AcqRel);
    }
}
