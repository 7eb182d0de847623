//! The steps that only one kind of timeout has: those of a periodic timeout's runs
//! (`shard/README.md`, section 6), and those of a sleeping future's (section 11).

use super::{
    BATCHED, CANCELLED, ENGINE, EXPIRED, LINKED, MOVED, OWNERS, PENDING, PHASE, SERIES, Snapshot, State, WAKER,
    deadline_in, pack, phase_of,
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

/// Set beside WAKER while the future puts another waker in. No such timeout is periodic.
const CHANGING: u64 = SERIES;

/// Whether the future is putting another waker in.
pub(super) const fn is_changing(word: u64) -> bool {
    word & (WAKER | CHANGING) == WAKER | CHANGING
}

impl State {
    /// PENDING → EXPIRED, by the worker, if the deadline is not after `now`. The waker is then the
    /// caller's to call, and the engine keeps the entry until it has. If the future is changing the
    /// waker, it is awake: then the engine gives the entry up in the same step, and leaves the
    /// waker to the future.
    #[inline]
    pub(crate) fn expire(&self, seen: Snapshot, now: Subtick) -> Expire {
        let expired = |word: u64| {
            let expired = (word & !(PHASE | LINKED)) | EXPIRED | BATCHED;
            if is_changing(word) { expired & !ENGINE } else { expired }
        };
        self.end_wait(seen, now, expired, |word| self.0.store(expired(word), Ordering::Relaxed))
    }

    /// Begins to change the waker, which the future then may write. Returns false if the timeout is
    /// not pending any more. Only the future, which has the handle, calls this.
    pub(in crate::entry) fn begin_change(&self) -> bool {
        let begin = |word| (phase_of(word) == PENDING).then_some(word | CHANGING);
        // Acquire: nobody else has written the waker, but the future sees what has ended the wait.
        self.0.fetch_update(Ordering::Acquire, Ordering::Acquire, begin).is_ok()
    }

    /// Ends the change. Returns false if the timeout has ended meanwhile: then the waker was left
    /// to the future.
    pub(in crate::entry) fn end_change(&self) -> bool {
        // Release: pairs with the acquire of the thread that ends the wait, and calls the waker.
        let word = self.0.fetch_and(!CHANGING, Ordering::AcqRel);
        phase_of(word) == PENDING
    }
}
