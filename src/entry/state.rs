//! The state word: one `AtomicU64` that decides everything about a timeout.
//!
//! ```text
//!  63                         9    8      7      6       5      4      3       2      1  0
//! ┌────────────────────────────┬──────┬──────┬───────┬──────┬──────┬───────┬───────┬──────┐
//! │ deadline in ticks          │ORPHAN│SERIES│RESET_QUEUED│LINKED│GROUP │ENGINE │HANDLE │ phase│
//! └────────────────────────────┴──────┴──────┴───────┴──────┴──────┴───────┴───────┴──────┘
//! ```
//!
//! * **phase**: `FREE`, `PENDING`, `EXPIRED`, `CANCELLED`. Out of `PENDING` there is exactly one way, taken by whoever
//!   wins one compare-and-swap: the worker ([`State::expire`]), a caller ([`State::cancel`]) or shutdown
//!   ([`State::withdraw`]). The winner, and nobody else, owns the task from then on. (The worker needs none if it is alone, see below.)
//! * **HANDLE**, **ENGINE**, **GROUP**: the owners. Whoever lets go last gives the entry back to the arena.
//! * **LINKED**: the worker has taken the entry out of the inbox. Set by the worker, by an exchange with the pending word that
//!   it has seen, unless it is alone; so a cancel knows for certain whether the worker will still come across the entry by itself (not
//!   linked: the transfer finds it cancelled) or has to be told (linked: the cancelled queue).
//! * **RESET_QUEUED**: the entry was reset to an earlier deadline and its address is in, or on its way to, the shard's
//!   reset queue. While it is set the worker neither fires nor gives back the entry, so the address in the queue
//!   can't become stale.
//! * **SERIES**: the timeout runs again and again. For such a one EXPIRED is not the end: it means that a run has been given
//!   to the executor, the task belongs to the runner, and the entry is in no list. The runner makes it PENDING
//!   again ([`State::rearm`]), or ends it ([`State::end_series`]), unless a cancel has been there in between.
//! * **Kept** is what FREE means while HANDLE is set: the entry was cancelled before the worker linked it, its handle has gone,
//!   and HANDLE is a producer's now, which may make it PENDING again where it is ([`State::revive`]). While ENGINE is set,
//!   too, that is in the inbox, or among what the worker has taken out of it. See `shard/kept.rs`.
//! * **ORPHAN**: the engine is gone; set on every entry by the arena's final sweep. See `arena/mod.rs`.
//!
//! Ordering: every transition that is an exchange is `AcqRel`. The release half publishes what its thread did to the entry before (took the
//! task out, linked it); the acquire half lets the last owner see all that the other owner did.
//!
//! **Alone**: while an entry is the engine's, and HANDLE and GROUP are not set, nobody else writes to the word, nor ever will: only
//! an owner may, and nobody can become one before the entry is armed anew. (The arena's final sweep waits for all workers and batches.)
//! So the worker links and expires it by plain stores. They end the release sequence of the owner that has gone; therefore the worker
//! has *acquired* the word before it stores.

use super::outcome::{Begin, Cancel, EngineGone, Expire, HandleGone, Rearm, Reset, Tell, Transfer};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Tick;

const PHASE: u64 = 0b11;
const FREE: u64 = 0;
const PENDING: u64 = 1;
const EXPIRED: u64 = 2;
const CANCELLED: u64 = 3;
const HANDLE: u64 = 1 << 2;
const ENGINE: u64 = 1 << 3;
const GROUP: u64 = 1 << 4;
const LINKED: u64 = 1 << 5;
const RESET_QUEUED: u64 = 1 << 6;
/// The same bit while a run of a series is under way, when the entry can't be in the reset queue: it was reset since it expired.
const MOVED: u64 = RESET_QUEUED;
const SERIES: u64 = 1 << 7;
const ORPHAN: u64 = 1 << 8;
const OWNERS: u64 = HANDLE | ENGINE | GROUP;
const TICK_SHIFT: u32 = 9;
const FLAGS: u64 = (1 << TICK_SHIFT) - 1;

// `Tick::NEVER` is the largest deadline there is: it must fit above the flags.
const _: () = assert!(Tick::NEVER.get() == u64::MAX >> TICK_SHIFT);

const fn pack(tick: Tick, flags: u64) -> u64 {
    (tick.get() << TICK_SHIFT) | flags
}

const fn tick_of(word: u64) -> Tick {
    Tick::new(word >> TICK_SHIFT)
}

const fn phase_of(word: u64) -> u64 {
    word & PHASE
}

/// Cancelled before the worker linked it, and nobody's but its handle's and the engine's.
const fn is_cancelled_unlinked(word: u64) -> bool {
    word & FLAGS == CANCELLED | HANDLE | ENGINE
}

/// No timeout's, but a producer's, to arm it again.
const fn is_tombstone(word: u64) -> bool {
    word & (PHASE | HANDLE) == FREE | HANDLE
}

/// A run of a series is under way, or waits for a thread of the executor.
const fn is_running(word: u64) -> bool {
    word & (PHASE | SERIES) == EXPIRED | SERIES
}

/// Neither a handle nor a group, nor a producer that keeps it, has a part in it: see the module's documentation, "alone".
const fn is_engines_alone(word: u64) -> bool {
    word & (HANDLE | GROUP) == 0
}

/// The word of a pending entry, expired. A series' entry is in no list from then on.
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
    pub(crate) const GROUP: ArmFlags = ArmFlags(GROUP);
    pub(crate) const SERIES: ArmFlags = ArmFlags(SERIES);

    #[inline]
    pub(crate) const fn and(self, other: ArmFlags) -> ArmFlags {
        ArmFlags(self.0 | other.0)
    }
}

/// The word and its transitions.
#[derive(Debug)]
pub(crate) struct State(AtomicU64);

impl State {
    /// A free entry. All zero, so that fresh zeroed memory is an array of free entries.
    #[cfg(any(loom, test))]
    pub(crate) fn free_word() -> Self {
        Self(AtomicU64::new(FREE))
    }

    /// Makes a free entry pending. Only its sole owner calls this, before it shows the entry to anyone: no
    /// read-modify-write is needed, the push onto the inbox publishes it.
    #[inline]
    pub(crate) fn arm(&self, deadline: Tick, flags: ArmFlags) {
        self.0.store(pack(deadline, PENDING | ENGINE | flags.0), Ordering::Relaxed);
    }

    /// Whether an entry was cancelled before the worker linked it, and nobody but the caller's handle and the engine owns it:
    /// so that it may be [kept](Self::leave_tombstone). Acquire: what the canceller did to the entry is to be seen.
    #[inline]
    pub(crate) fn may_be_tombstone(&self) -> bool {
        is_cancelled_unlinked(self.0.load(Ordering::Acquire))
    }

    /// The handle of an entry that was cancelled goes, and a producer keeps the entry, which has put it where it keeps such
    /// entries already: if it is kept, this is the handle's last access to the engine's memory (see `arena/mod.rs`, "The end").
    #[inline]
    pub(crate) fn leave_tombstone(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        // Without the loop of a weak exchange: if it fails, the engine has let go, or has ended.
        is_cancelled_unlinked(word)
            && self.0.compare_exchange(word, word & !PHASE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Makes a kept entry pending again, by its keeper, which has put a task in: true. It is where it was, on its way out of the
    /// inbox. False: the engine has let go of it, so that it is free, and the keeper's alone.
    #[inline]
    pub(crate) fn revive(&self, deadline: Tick, flags: ArmFlags) -> bool {
        // Acquire, both: pairs with the release of the engine that has let go.
        let word = self.0.load(Ordering::Acquire);
        if word & ENGINE == 0 {
            return false;
        }
        debug_assert!(is_tombstone(word));
        let armed = pack(deadline, PENDING | ENGINE | flags.0);
        // Without the loop of a weak exchange: nothing else is done to a kept entry than that the engine lets go.
        self.0.compare_exchange(word, armed, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Takes [`arm`](Self::arm) back, on an entry that was never shown to anyone.
    pub(crate) fn disarm(&self) {
        self.0.store(FREE, Ordering::Relaxed);
    }

    /// The deadline that holds at this moment.
    #[inline]
    pub(crate) fn deadline(&self) -> Tick {
        tick_of(self.0.load(Ordering::Relaxed))
    }

    /// Whether it will run, or, a series, run again. Acquire, here and below: whoever sees an end sees what led to it.
    pub(crate) fn is_pending(&self) -> bool {
        let word = self.0.load(Ordering::Acquire);
        phase_of(word) == PENDING || is_running(word)
    }

    pub(crate) fn is_expired(&self) -> bool {
        let word = self.0.load(Ordering::Acquire);
        phase_of(word) == EXPIRED && !is_running(word)
    }

    /// Whether it runs again and again. Of an entry whose run is the caller's.
    #[inline]
    pub(crate) fn is_series(&self) -> bool {
        // Relaxed: the bit stays as it was armed as long as a run is under way.
        self.0.load(Ordering::Relaxed) & SERIES != 0
    }

    /// The deadline, and whether it runs again and again, of an entry whose run is the caller's.
    #[inline]
    pub(crate) fn look(&self) -> (Tick, bool) {
        // Relaxed: as above.
        let word = self.0.load(Ordering::Relaxed);
        (tick_of(word), word & SERIES != 0)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        phase_of(self.0.load(Ordering::Acquire)) == CANCELLED
    }

    /// PENDING → CANCELLED, by a caller that owns the entry; of a series also while a run is under way.
    #[inline]
    pub(crate) fn cancel(&self) -> Cancel {
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
    /// An unchanged tick needs no write: that the word was pending with this very deadline when it was read is all that
    /// the answer promises.
    #[inline]
    pub(crate) fn reset(&self, deadline: Tick, tell: Tell) -> Reset {
        // Nearly always it is pending, and put off, and nobody else is at it.
        let word = self.0.load(Ordering::Relaxed);
        if phase_of(word) == PENDING && deadline > tick_of(word) {
            let put_off = pack(deadline, word & FLAGS);
            if self.0.compare_exchange(word, put_off, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Reset::Later;
            }
        }
        self.reset_in_any_case(deadline, tell)
    }

    fn reset_in_any_case(&self, deadline: Tick, tell: Tell) -> Reset {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let running = is_running(word);
            if phase_of(word) != PENDING && !running {
                return Reset::TooLate;
            }
            let old = tick_of(word);
            if deadline == old && !running {
                return Reset::Later;
            }
            let is_untold = !running && deadline < old && word & LINKED != 0 && word & RESET_QUEUED == 0;
            if is_untold && tell == Tell::NotYet {
                return Reset::NotYet;
            }
            let by_queue = is_untold && tell == Tell::ByQueue;
            // MOVED, of a run that is under way, is the same bit: the runner finds the new deadline when it arms the entry.
            let mail = if by_queue || running { RESET_QUEUED } else { 0 };
            let moved = pack(deadline, (word & FLAGS) | mail);
            match self.0.compare_exchange_weak(word, moved, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if by_queue => return Reset::EarlierQueued,
                Ok(_) if deadline < old && !running => return Reset::Earlier,
                Ok(_) => return Reset::Later,
                Err(now) => word = now,
            }
        }
    }

    /// Sets LINKED, by the worker, on an entry that it took out of the inbox.
    #[inline]
    pub(crate) fn link(&self) -> Transfer {
        // Acquire, both: pairs with the release of the canceller; of the keeper that armed the entry again, for the task in it; and of the
        // handle that has gone, as the store below breaks off what that released.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            // No need to write to what was cancelled. (Should it be armed again, `engine_lets_go` says so.)
            if phase_of(word) != PENDING {
                return Transfer::Cancelled;
            }
            if is_engines_alone(word) {
                self.0.store(word | LINKED, Ordering::Relaxed);
                return Transfer::Pending(tick_of(word));
            }
            match self.0.compare_exchange_weak(word, word | LINKED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Transfer::Pending(tick_of(word)),
                Err(now) => word = now,
            }
        }
    }

    /// PENDING → EXPIRED, by the worker, if the deadline is not after `now`.
    #[inline]
    pub(crate) fn expire(&self, now: Tick) -> Expire {
        // Acquire: pairs with the release of the handle that has gone, as in `link`.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if phase_of(word) != PENDING {
                return Expire::Cancelled;
            }
            if word & RESET_QUEUED != 0 {
                return Expire::ResetQueued;
            }
            if tick_of(word) > now {
                return Expire::NotBefore(tick_of(word));
            }
            if is_engines_alone(word) {
                self.0.store(expired(word), Ordering::Relaxed);
                return Expire::Fire;
            }
            match self.0.compare_exchange_weak(word, expired(word), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Expire::Fire,
                Err(now) => word = now,
            }
        }
    }

    /// PENDING → EXPIRED, whatever the deadline, by a shutdown that fires what is left. True if the task is now the caller's to run.
    pub(crate) fn expire_early(&self) -> bool {
        let expire = |word| (phase_of(word) == PENDING).then(|| expired(word));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, expire).is_ok()
    }

    /// Of a series that has expired, by its runner: whether the run that it was expired for is still wanted. From here on it
    /// has begun: a cancel or a reset that comes later acts on the next one.
    pub(crate) fn begin_run(&self) -> Begin {
        // Acquire: pairs with the release of a cancel or a reset.
        let word = self.0.load(Ordering::Acquire);
        match () {
            () if phase_of(word) == CANCELLED => Begin::Cancelled,
            () if word & MOVED != 0 => Begin::Moved,
            () => Begin::Run(tick_of(word)),
        }
    }

    /// EXPIRED → PENDING, of a series, by its runner, which has put the task back and is going to push the entry. The deadline
    /// is `next`, unless a reset has set another one since the series expired.
    pub(crate) fn rearm(&self, next: Tick) -> Rearm {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if phase_of(word) == CANCELLED {
                // Acquire: pairs with the release of the cancel.
                self.0.load(Ordering::Acquire);
                return Rearm::Cancelled;
            }
            let deadline = if word & MOVED != 0 { tick_of(word) } else { next };
            let armed = pack(deadline, (word & OWNERS) | SERIES | PENDING);
            match self.0.compare_exchange_weak(word, armed, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Rearm::Pending,
                Err(now) => word = now,
            }
        }
    }

    /// The end of a series after its last run, by its runner. False if it was cancelled meanwhile.
    pub(crate) fn end_series(&self) -> bool {
        let end = |word| is_running(word).then_some(word & !SERIES);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, end).is_ok()
    }

    /// Clears RESET_QUEUED, by the worker, on an entry that arrived through the reset queue. The word may have been reset
    /// again since it was sent: what counts is what it says now.
    pub(crate) fn arrive(&self) -> Transfer {
        let word = self.0.fetch_and(!RESET_QUEUED, Ordering::AcqRel);
        if phase_of(word) == PENDING { Transfer::Pending(tick_of(word)) } else { Transfer::Cancelled }
    }

    /// PENDING → CANCELLED, by the closing worker or shutdown. True if the task is now the caller's.
    pub(crate) fn withdraw(&self) -> bool {
        self.cancel() != Cancel::TooLate
    }

    /// The engine lets go, after the phase has left PENDING.
    #[inline]
    pub(crate) fn engine_lets_go(&self) -> EngineGone {
        // Acquire, both: pairs with the release of the owner that was cleared last.
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

    /// The group lets go. True if it was the last owner, who gives the entry back.
    pub(crate) fn group_lets_go(&self) -> bool {
        self.0.fetch_and(!GROUP, Ordering::AcqRel) & (HANDLE | ENGINE) == 0
    }

    /// The handle lets go.
    #[inline]
    pub(crate) fn handle_lets_go(&self) -> HandleGone {
        // Acquire: if the others are gone, what they did to the entry before they let go must be visible to the last
        // owner, who is going to reuse it.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if word & (ENGINE | GROUP) == 0 {
                return HandleGone::Last;
            }
            match self.0.compare_exchange_weak(word, word & !HANDLE, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if word & ORPHAN != 0 => return HandleGone::Orphan,
                Ok(_) => return HandleGone::OthersOwn,
                Err(now) => word = now,
            }
        }
    }

    /// The handle, as last owner, marks the entry free *after* it has put it where it belongs. This is the last access to
    /// the engine's memory: if the arena's final sweep has not passed here yet, that walk may free everything right after.
    /// True if it has passed and counted on this handle.
    #[inline]
    pub(crate) fn free(&self) -> bool {
        self.0.swap(FREE, Ordering::AcqRel) & ORPHAN != 0
    }

    /// Whether the arena's final sweep has passed here.
    pub(crate) fn is_orphan(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ORPHAN != 0
    }

    /// The arena's final sweep. True if a handle still holds the entry, and will find ORPHAN when it lets go. (What a producer
    /// keeps is the arena's.)
    pub(crate) fn orphan(&self) -> bool {
        let word = self.0.fetch_or(ORPHAN, Ordering::AcqRel);
        word & HANDLE != 0 && !is_tombstone(word)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
