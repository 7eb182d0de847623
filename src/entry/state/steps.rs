//! The steps that only some timeouts take (`shard/README.md`): those of a periodic timeout's runs
//! (section 6), and those of a sleeping future's waker (section 11); the one that leaves a
//! tombstone, and the one that revives it (section 8).

use super::{
    ArmFlags, BATCHED, CANCELLED, ENGINE, EXPIRED, FLAGS, HANDLE, LINKED, MOVED, OWNERS, PENDING, PHASE, QUEUED,
    SERIES, Snapshot, State, WAKER, deadline_in, ended_in, pack, phase_of,
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
        self.end_wait(seen, now, || {}, begun, |word| self.0.store(begun(word), Ordering::Relaxed))
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
        // Release: a thread that reads the end finds the place.
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
        let expired = |word| ended_in(word, EXPIRED);
        self.end_wait(seen, now, || {}, expired, |word| self.0.store(expired(word), Ordering::Relaxed))
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

/// In the inbox, or pending in a slot, with its handle and the engine as the only owners. Not
/// periodic, so that nobody puts a task back into the body.
const fn is_in_place(word: u64, phase: u64) -> bool {
    let linked = if phase == PENDING { LINKED } else { 0 };
    word & FLAGS & !(WAKER | linked) == phase | HANDLE | ENGINE
}

impl State {
    /// Returns the word, if the handle may be [given up](Self::give_up) in one step: it is pending
    /// and the step `cancels` it, or was cancelled before; it is not periodic, and only the
    /// caller's handle and the engine own it.
    #[inline]
    pub(in crate::entry) fn may_be_given_up(&self, cancels: bool) -> Option<Snapshot> {
        // Acquire: if it was cancelled, the caller sees what the canceller did to the entry.
        let word = self.0.load(Ordering::Acquire);
        is_in_place(word, if cancels { PENDING } else { CANCELLED }).then_some(Snapshot(word))
    }

    /// Gives the caller's handle up, and cancels what is pending in the same step, if the word is
    /// still the one that [`may_be_given_up`](Self::may_be_given_up) has seen. Otherwise returns
    /// false, and nothing has changed. The caller has [copied the
    /// task](crate::entry::Entry::copy_task) of what is pending before: this is the handle's last
    /// access to the engine's memory, see `arena/mod.rs`, "The end". The entry becomes a tombstone,
    /// whose HANDLE belongs to a producer, if that has put it on its list before: it `is_listed`.
    /// Otherwise it must not be linked, as nobody would tell the worker.
    #[inline]
    pub(in crate::entry) fn give_up(&self, seen: Snapshot, is_listed: bool) -> bool {
        let Snapshot(word) = seen;
        debug_assert!(is_in_place(word, phase_of(word)));
        let given_up = match is_listed {
            true => word & !PHASE,
            false if seen.is_linked() => return false,
            false => (word & !HANDLE) | CANCELLED,
        };
        // A strong exchange, no loop: if it fails, the worker has just linked the entry, or taken
        // it; or the engine has given the entry up, or a shutdown was faster. Sequentially
        // consistent: see `Claiming::begin`.
        self.0.compare_exchange(word, given_up, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Makes a tombstone pending again, which [may be](Self::may_be_revived). The producer that
    /// owns it calls this, after it has put a task in. Returns true if the entry is still where it
    /// was, in the inbox or in a slot. Returns false if the engine has given the entry up: then the
    /// producer alone owns it, and it is free.
    #[inline]
    pub(in crate::entry) fn revive(&self, deadline: Subtick, flags: ArmFlags) -> bool {
        // Acquire, both: pairs with the release in `engine_lets_go`.
        let word = self.0.load(Ordering::Acquire);
        if word & ENGINE == 0 {
            return false;
        }
        debug_assert!(Snapshot(word).is_tombstone() && self.may_be_revived(deadline, || false));
        let armed = pack(deadline, PENDING | ENGINE | (word & LINKED) | flags.0);
        // A strong exchange, no loop: only the engine changes a tombstone, by giving it up.
        self.0.compare_exchange(word, armed, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Returns whether a tombstone may be revived for this deadline where it is: in the inbox, or
    /// in a slot that comes up no later, of a worker that is not claiming.
    #[inline]
    pub(in crate::entry) fn may_be_revived(&self, deadline: Subtick, is_claiming: impl FnOnce() -> bool) -> bool {
        // Acquire: pairs with the release in `engine_lets_go`. The worker may have copied the task
        // before, without a claim.
        let word = self.0.load(Ordering::Acquire);
        word & LINKED == 0 || (deadline_in(word) <= deadline && !is_claiming())
    }

    /// Gives up a tombstone in a slot. The producer that owns it calls this. Returns true if QUEUED
    /// is the caller's then, who has to push the entry to the cancelled queue. Returns false if the
    /// engine has given the entry up before.
    pub(in crate::entry) fn abandon(&self) -> bool {
        let abandoned = |word| (word & LINKED != 0).then_some((word & !HANDLE) | CANCELLED | QUEUED);
        // Acquire, also if it fails: pairs with the release in `engine_lets_go`.
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, abandoned).is_ok()
    }
}
