//! The state word: one `AtomicU64` that decides everything about a timeout.
//!
//! ```text
//!  63            10    9       8      7      6         5          4      3      2    1 0
//! ┌────────────────┬───────┬───────┬──────┬──────┬────────────┬──────┬──────┬──────┬─────┐
//! │   deadline     │SLEEPER│BATCHED│ORPHAN│SERIES│RESET_QUEUED│LINKED│ENGINE│HANDLE│phase│
//! └────────────────┴───────┴───────┴──────┴──────┴────────────┴──────┴──────┴──────┴─────┘
//! ```
//!
//! * **phase**: `FREE`, `PENDING`, `EXPIRED`, `CANCELLED`. Exactly one thread takes an entry out of
//!   `PENDING`, by one compare-and-swap: the thread that is about to run its task
//!   ([`State::claim`]), the worker, for periodic timeouts and sleeping futures
//!   ([`State::expire`]), a caller ([`State::cancel`], [`State::give_up`]) or a shutdown
//!   ([`State::withdraw`]). That thread alone owns the task from then on. No exchange is needed if
//!   the engine is the only owner, see below.
//! * **HANDLE**, **ENGINE**: the owners. The last one to give the entry up gives it back to the
//!   arena.
//! * **LINKED**: the worker has taken the entry out of the inbox. The worker sets it by an exchange
//!   with the pending word that it has seen, or by a store if the engine is the only owner. So a
//!   cancel knows for certain what to do. If LINKED is not set, the transfer will find the entry
//!   cancelled; if it is set, the caller has to tell the worker through the cancelled queue.
//! * **RESET_QUEUED**: the entry was reset to an earlier deadline, and its address is in, or on its
//!   way to, the shard's reset queue. While it is set the worker neither fires nor gives back the
//!   entry, so the address in the queue can't become stale.
//! * **BATCHED**: the worker has found the entry due, and has handed it over in a batch, pending.
//!   It is not LINKED then, so a cancel or a reset changes the word alone: the thread that runs the
//!   batch looks at it. If the deadline is a later one by then, that thread pushes the entry to the
//!   inbox again. BATCHED stays set then, so that a cancelled entry does not become a tombstone: it
//!   may not have been pushed yet. Entries of which the engine is the only owner are handed over
//!   unmarked.
//! * **SLEEPER**: the task is the waker of a sleeping future. The bit never changes while the entry
//!   is in use, and neither does SERIES.
//! * **SERIES**: the timeout is periodic. Its entry does not end with EXPIRED: that phase means
//!   that a run has been given to the executor, the runner owns the task, and the entry is in no
//!   list. The runner makes it PENDING again ([`State::rearm`]) or ends it ([`State::end_series`]),
//!   unless a cancel came in between.
//! * **Tombstone**: FREE with HANDLE set. The entry was cancelled before the worker linked it, and
//!   its handle has gone, in one step ([`State::give_up`]) or two. HANDLE now belongs to a
//!   producer, which may make the entry PENDING again in place ([`State::revive`]). While ENGINE is
//!   also set, that place is the inbox, or the list that the worker has taken out of it. See
//!   `thread/tombstones.rs`.
//! * **ORPHAN**: the engine is gone. The arena's final sweep sets it on every entry. See
//!   `arena/mod.rs`.
//!
//! Ordering: every transition that is an exchange is `AcqRel`. The release half publishes what its
//! thread did to the entry before. The acquire half lets the last owner see what all others did.
//!
//! **The engine as the only owner**: while the engine owns an entry and HANDLE is not set, nobody
//! else writes to the word, or reads it to decide anything. Only an owner may, and nobody can
//! become an owner before the entry is armed anew. The arena's final sweep waits for all workers
//! and batches. So the worker links and expires such an entry by plain stores, and the thread that
//! claims it does not write at all. A plain store ends the release sequence of the owner that has
//! gone; therefore the worker *acquires* the word before it stores.

mod tombstone;

use super::outcome::{Begin, Cancel, EngineGone, Expire, HandleGone, Kind, Rearm, Reset, Tell, Transfer};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Subtick;

const PHASE: u64 = 0b11;
const FREE: u64 = 0;
const PENDING: u64 = 1;
const EXPIRED: u64 = 2;
const CANCELLED: u64 = 3;
const HANDLE: u64 = 1 << 2;
const ENGINE: u64 = 1 << 3;
const LINKED: u64 = 1 << 4;
const RESET_QUEUED: u64 = 1 << 5;
/// The same bit during a run of a periodic timeout, when the entry can't be in the reset queue: the
/// timeout was reset since it expired.
const MOVED: u64 = RESET_QUEUED;
const SERIES: u64 = 1 << 6;
const ORPHAN: u64 = 1 << 7;
const BATCHED: u64 = 1 << 8;
const SLEEPER: u64 = 1 << 9;
const OWNERS: u64 = HANDLE | ENGINE;
const DEADLINE_SHIFT: u32 = 10;
const FLAGS: u64 = (1 << DEADLINE_SHIFT) - 1;

// `Subtick::NEVER` is the largest deadline there is: it must fit above the flags.
const _: () = assert!(Subtick::NEVER.get() == u64::MAX >> DEADLINE_SHIFT);

const fn pack(deadline: Subtick, flags: u64) -> u64 {
    (deadline.get() << DEADLINE_SHIFT) | flags
}

const fn deadline_in(word: u64) -> Subtick {
    Subtick::new(word >> DEADLINE_SHIFT)
}

const fn phase_of(word: u64) -> u64 {
    word & PHASE
}

/// A tombstone: it belongs to no timeout, but to a producer, which may revive it.
const fn is_tombstone(word: u64) -> bool {
    word & (PHASE | HANDLE) == FREE | HANDLE
}

/// A run of a periodic timeout is under way, or waits for a thread of the executor.
const fn is_running(word: u64) -> bool {
    word & (PHASE | SERIES) == EXPIRED | SERIES
}

/// No handle or producer (of a tombstone) owns it: see "The engine as the only owner" in the
/// module's documentation.
const fn is_engines_alone(word: u64) -> bool {
    word & HANDLE == 0
}

/// The word of a pending entry once it has expired. The entry of a periodic timeout is in no list
/// from then on.
const fn expired(word: u64) -> u64 {
    let gone = if word & SERIES == 0 { PHASE } else { PHASE | LINKED | RESET_QUEUED };
    (word & !gone) | EXPIRED
}

/// What an entry is armed with, besides the engine's ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArmFlags(u64);

impl ArmFlags {
    pub(crate) const NONE: ArmFlags = ArmFlags(0);
    pub(crate) const HANDLE: ArmFlags = ArmFlags(HANDLE);
    pub(super) const SERIES: ArmFlags = ArmFlags(SERIES);
    pub(super) const SLEEPER: ArmFlags = ArmFlags(SLEEPER);

    #[inline]
    pub(crate) const fn and(self, other: ArmFlags) -> ArmFlags {
        ArmFlags(self.0 | other.0)
    }
}

/// A word that the engine has seen. The entry may have been cancelled or reset since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot(u64);

impl Snapshot {
    #[inline]
    pub(crate) fn deadline(self) -> Subtick {
        deadline_in(self.0)
    }

    /// Returns whether it had expired.
    pub(super) fn has_expired(self) -> bool {
        phase_of(self.0) == EXPIRED
    }

    /// Returns what kind of timeout the entry holds, which does not change.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        match self.0 & (SERIES | SLEEPER) {
            0 => Kind::Once,
            SERIES => Kind::Series,
            _ => Kind::Sleeper,
        }
    }
}

/// The word and its transitions.
#[derive(Debug)]
pub(crate) struct State(AtomicU64);

impl State {
    /// Returns a free entry's word. It is zero, so fresh zeroed memory is an array of free entries.
    #[cfg(any(loom, test))]
    pub(crate) fn free_word() -> Self {
        Self(AtomicU64::new(FREE))
    }

    /// Makes a free entry pending. Only its sole owner calls this, before any other thread sees the
    /// entry. A store is enough: the push to the inbox publishes it.
    #[inline]
    pub(crate) fn arm(&self, deadline: Subtick, flags: ArmFlags) {
        self.0.store(pack(deadline, PENDING | ENGINE | flags.0), Ordering::Relaxed);
    }

    /// Takes [`arm`](Self::arm) back, on an entry that no other thread has seen.
    pub(crate) fn disarm(&self) {
        self.0.store(FREE, Ordering::Relaxed);
    }

    /// Returns the deadline that holds at this moment.
    #[inline]
    pub(crate) fn deadline(&self) -> Subtick {
        deadline_in(self.0.load(Ordering::Relaxed))
    }

    /// Returns whether it will run; for a periodic timeout, run again. Acquire, here and below: a
    /// thread that sees an end sees what led to it.
    pub(crate) fn is_pending(&self) -> bool {
        let word = self.0.load(Ordering::Acquire);
        phase_of(word) == PENDING || is_running(word)
    }

    pub(crate) fn is_expired(&self) -> bool {
        let word = self.0.load(Ordering::Acquire);
        phase_of(word) == EXPIRED && !is_running(word)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        phase_of(self.0.load(Ordering::Acquire)) == CANCELLED
    }

    /// PENDING → CANCELLED, by a caller that owns the entry. A periodic timeout is also cancelled
    /// while a run is under way.
    #[inline]
    pub(in crate::entry) fn cancel(&self) -> Cancel {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if phase_of(word) != PENDING && !is_running(word) {
                return Cancel::TooLate;
            }
            let cancelled = (word & !PHASE) | CANCELLED;
            match self.0.compare_exchange_weak(word, cancelled, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if is_running(word) => return Cancel::WonRunning,
                Ok(_) if word & LINKED != 0 && word & RESET_QUEUED == 0 => return Cancel::WonLinked,
                Ok(_) => return Cancel::Won,
                Err(now) => word = now,
            }
        }
    }

    /// Changes the deadline of a pending entry, by a caller that holds a handle.
    ///
    /// An unchanged deadline needs no write. The answer promises only that the word was pending
    /// with this deadline when it was read.
    #[inline]
    pub(in crate::entry) fn reset(&self, deadline: Subtick, tell: Tell) -> Reset {
        // The usual case: it is pending, the deadline becomes later, and no other thread changes
        // the word.
        let word = self.0.load(Ordering::Relaxed);
        if phase_of(word) == PENDING && deadline > deadline_in(word) {
            let put_off = pack(deadline, word & FLAGS);
            if self.0.compare_exchange(word, put_off, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Reset::Later;
            }
        }
        self.reset_in_any_case(deadline, tell)
    }

    fn reset_in_any_case(&self, deadline: Subtick, tell: Tell) -> Reset {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let running = is_running(word);
            if phase_of(word) != PENDING && !running {
                return Reset::TooLate;
            }
            let old = deadline_in(word);
            if deadline == old && !running {
                return Reset::Later;
            }
            let is_untold = !running && deadline < old && word & LINKED != 0 && word & RESET_QUEUED == 0;
            if is_untold && tell == Tell::NotYet {
                return Reset::NotYet;
            }
            let by_queue = is_untold && tell == Tell::ByQueue;
            // During a run the same bit is MOVED: the runner finds the new deadline when it arms
            // the entry.
            let queued = if by_queue || running { RESET_QUEUED } else { 0 };
            let moved = pack(deadline, (word & FLAGS) | queued);
            match self.0.compare_exchange_weak(word, moved, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if by_queue => return Reset::EarlierQueued,
                Ok(_) if deadline < old && !running => return Reset::Earlier,
                Ok(_) => return Reset::Later,
                Err(now) => word = now,
            }
        }
    }

    /// Sets LINKED on an entry that the worker took out of the inbox. Only the worker calls this.
    #[inline]
    pub(crate) fn link(&self) -> Transfer {
        // Acquire, both. Pairs with the release of the canceller, with that of the producer that
        // revived the entry (for the task in it), and with that of the handle that has gone,
        // because the store below ends its release sequence.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            // A cancelled entry needs no write. If it is revived after this look, `engine_lets_go`
            // says so.
            if phase_of(word) != PENDING {
                return Transfer::Cancelled;
            }
            if is_engines_alone(word) {
                self.0.store(word | LINKED, Ordering::Relaxed);
                return Transfer::Pending(deadline_in(word));
            }
            match self.0.compare_exchange_weak(word, word | LINKED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Transfer::Pending(deadline_in(word)),
                Err(now) => word = now,
            }
        }
    }

    /// Returns the word as it is now. The caller holds the engine's ownership.
    #[inline]
    pub(crate) fn load(&self) -> Snapshot {
        // Acquire: pairs with the release of the handle that has gone. If the engine is the only
        // owner, the step that ends the wait does not look again.
        Snapshot(self.0.load(Ordering::Acquire))
    }

    /// PENDING → EXPIRED, by the worker, for a periodic timeout or a sleeping future, if the
    /// deadline is not after `now`.
    #[inline]
    pub(crate) fn expire(&self, seen: Snapshot, now: Subtick) -> Expire {
        self.end_wait(seen, now, expired, |word| {
            self.0.store(expired(word), Ordering::Relaxed);
            Expire::Fire
        })
    }

    /// Marks a timeout that is due for a batch, by the worker. It stays pending.
    #[inline]
    pub(crate) fn batch(&self, seen: Snapshot, now: Subtick) -> Expire {
        self.end_wait(seen, now, |word| (word & !LINKED) | BATCHED, |_| Expire::Fire)
    }

    /// PENDING → EXPIRED, by the thread that is about to run the task, if the deadline is not after
    /// `now`. The engine gives the entry up in the same step, so the caller has
    /// [copied the task](super::Entry::copy_task) before.
    #[inline]
    pub(crate) fn claim(&self, seen: Snapshot, now: Subtick) -> Expire {
        self.end_wait(seen, now, |word| (word & !(PHASE | ENGINE)) | EXPIRED, |_| Expire::FireLast)
    }

    /// Ends the wait of a timeout that is due: by an exchange for the word that `ended` makes, or
    /// by `alone` if the engine is the only owner. `seen` is what the caller has [seen](Self::load)
    /// of the word since it holds the engine's ownership.
    #[inline(always)]
    fn end_wait(
        &self,
        seen: Snapshot,
        now: Subtick,
        ended: impl Fn(u64) -> u64,
        alone: impl FnOnce(u64) -> Expire,
    ) -> Expire {
        let Snapshot(mut word) = seen;
        loop {
            if word & (PHASE | RESET_QUEUED) != PENDING {
                return if phase_of(word) == PENDING { Expire::ResetQueued } else { Expire::Cancelled };
            }
            if deadline_in(word) > now {
                return Expire::NotBefore(deadline_in(word));
            }
            if is_engines_alone(word) {
                return alone(word);
            }
            // Acquire, also if it fails: pairs with the release of the handle that has gone.
            match self.0.compare_exchange_weak(word, ended(word), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Expire::Fire,
                Err(now) => word = now,
            }
        }
    }

    /// PENDING → EXPIRED, whatever the deadline, by a shutdown that fires what is left. Returns
    /// true if the task is now the caller's to run.
    pub(crate) fn expire_early(&self) -> bool {
        let expire = |word| (phase_of(word) == PENDING).then(|| expired(word));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, expire).is_ok()
    }

    /// Returns whether the run that a periodic timeout was expired for is still wanted. Only its
    /// runner calls this. If so, the run has begun: a later cancel or reset acts on the next run.
    pub(crate) fn begin_run(&self) -> Begin {
        // Acquire: pairs with the release of a cancel or a reset.
        let word = self.0.load(Ordering::Acquire);
        match () {
            () if phase_of(word) == CANCELLED => Begin::Cancelled,
            () if word & MOVED != 0 => Begin::Moved,
            () => Begin::Run(deadline_in(word)),
        }
    }

    /// EXPIRED → PENDING for a periodic timeout. Its runner calls this after it has put the task
    /// back, and pushes the entry next. The deadline is `next`, unless a reset has set another one
    /// since the timeout expired.
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

    /// Clears RESET_QUEUED on an entry that arrived through the reset queue. Only the worker calls
    /// this. The entry may have been reset again since it was sent, so the word as it is now
    /// decides.
    pub(crate) fn arrive(&self) -> Transfer {
        let word = self.0.fetch_and(!RESET_QUEUED, Ordering::AcqRel);
        if phase_of(word) == PENDING { Transfer::Pending(deadline_in(word)) } else { Transfer::Cancelled }
    }

    /// PENDING → CANCELLED, by the closing worker or a shutdown. Returns true if the task is now
    /// the caller's.
    pub(crate) fn withdraw(&self) -> bool {
        self.cancel() != Cancel::TooLate
    }

    /// Gives up the engine's ownership, after the phase has left PENDING.
    #[inline]
    pub(crate) fn engine_lets_go(&self) -> EngineGone {
        // Acquire, both: pairs with the release of the owner that gave the entry up last.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if phase_of(word) == PENDING {
                return EngineGone::NotYet;
            }
            if is_engines_alone(word) {
                return EngineGone::Last;
            }
            match self.0.compare_exchange_weak(word, word & !ENGINE, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return EngineGone::OthersOwn,
                Err(now) => word = now,
            }
        }
    }

    /// Gives up the handle's ownership.
    #[inline]
    pub(in crate::entry) fn handle_lets_go(&self) -> HandleGone {
        // Acquire: if the other owners have gone, the last owner, which is going to reuse the
        // entry, must see what they did to it.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if word & ENGINE == 0 {
                return HandleGone::Last;
            }
            match self.0.compare_exchange_weak(word, word & !HANDLE, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if word & ORPHAN != 0 => return HandleGone::Orphan,
                Ok(_) => return HandleGone::OthersOwn,
                Err(now) => word = now,
            }
        }
    }

    /// Marks the entry free *after* the handle, as its last owner, has put it where it belongs.
    /// This is the handle's last access to the engine's memory: if the arena's final sweep has not
    /// passed this entry yet, the sweep may free everything right after. Returns true if the sweep
    /// has passed and counted this handle.
    #[inline]
    pub(in crate::entry) fn free(&self) -> bool {
        self.0.swap(FREE, Ordering::AcqRel) & ORPHAN != 0
    }

    /// Returns whether the arena's final sweep has passed this entry.
    pub(in crate::entry) fn is_orphan(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ORPHAN != 0
    }

    /// Marks the entry for the arena's final sweep. Returns true if a handle still holds it; the
    /// handle will find ORPHAN when it is dropped. A tombstone belongs to the arena.
    pub(crate) fn orphan(&self) -> bool {
        let word = self.0.fetch_or(ORPHAN, Ordering::AcqRel);
        word & HANDLE != 0 && !is_tombstone(word)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
