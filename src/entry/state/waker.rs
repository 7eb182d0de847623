//! The steps of a sleeping future's timeout: `shard/README.md`, section 11.

use super::{BATCHED, ENGINE, EXPIRED, LINKED, PENDING, PHASE, SERIES, Snapshot, State, WAKER, phase_of};
use crate::entry::outcome::Expire;
use crate::sync::Ordering;
use crate::time::Subtick;

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
