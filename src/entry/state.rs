//! The state word: one `AtomicU64` that decides everything about a timeout.
//!
//! ```text
//!  63                              8   7     6      5       4       3       2      1  0
//! ┌─────────────────────────────────┬─────┬──────┬───────┬───────┬───────┬───────┬──────┐
//! │ deadline in ticks               │  -  │ORPHAN│IN_MAIL│LINKED │ENGINE │HANDLE │ phase│
//! └─────────────────────────────────┴─────┴──────┴───────┴───────┴───────┴───────┴──────┘
//! ```
//!
//! * **phase**: `FREE`, `PENDING`, `EXPIRED`, `CANCELLED`. Out of `PENDING` there is exactly one way, taken by whoever
//!   wins one compare-and-swap: the worker ([`State::expire`]), a caller ([`State::cancel`]) or shutdown
//!   ([`State::withdraw`]). The winner, and nobody else, owns the task from then on.
//! * **HANDLE**, **ENGINE**: the two owners. Whoever lets go last gives the entry back to the arena.
//! * **LINKED**: the worker has taken the entry out of the inbox. Set once, by the worker, with a read-modify-write on
//!   this word; so a cancel knows for certain whether the worker will still come across the entry by itself (not
//!   linked: the transfer finds it cancelled) or has to be told (linked: the cancelled queue).
//! * **IN_MAIL**: the entry was reset to an earlier deadline and its address is in, or on its way to, the shard's
//!   `earlier` queue. While it is set the worker neither fires nor gives back the entry, so the address in the queue
//!   can't become stale.
//! * **ORPHAN**: the engine is gone; set on every entry by the arena's last walk. See `arena/mod.rs`.
//!
//! Ordering: every transition is `AcqRel`. The release half publishes what its thread did to the entry before (took the
//! task out, linked it); the acquire half lets the last owner see all that the other owner did.

use crate::sync::{AtomicU64, Ordering};
use crate::time::Tick;

const PHASE: u64 = 0b11;
const FREE: u64 = 0;
const PENDING: u64 = 1;
const EXPIRED: u64 = 2;
const CANCELLED: u64 = 3;
const HANDLE: u64 = 1 << 2;
const ENGINE: u64 = 1 << 3;
const LINKED: u64 = 1 << 4;
const IN_MAIL: u64 = 1 << 5;
const ORPHAN: u64 = 1 << 6;
const TICK_SHIFT: u32 = 8;
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

/// What a caller has to do after its cancel won.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// It was no longer pending: nothing was changed.
    TooLate,
    /// The task is the caller's. The worker will come across the entry by itself: in the inbox or in the mail.
    Won,
    /// The task is the caller's, and the entry has to go on the cancelled queue.
    WonLinked,
}

/// What a caller has to do after a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    /// It was no longer pending: nothing was changed.
    TooLate,
    /// Nothing: the worker finds the new deadline when the old one comes up.
    Later,
    /// Look whether the worker sleeps past the new deadline; it will find the entry by itself once awake.
    Earlier,
    /// Send the entry to the worker through the `earlier` queue; IN_MAIL was set by this call.
    EarlierByMail,
}

/// What the worker found when an entry's slot came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expire {
    /// The worker won: the task is the worker's to run.
    Fire,
    /// It was reset to this later tick meanwhile: link it again.
    NotBefore(Tick),
    /// It is on its way through the `earlier` queue: link it again and decide when it arrives.
    InMail,
    /// It was cancelled; the cancelled queue or the mail brings it.
    Cancelled,
}

/// What a handle that lets go leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleGone {
    /// The engine still owns the entry and will give it back.
    EngineOwns,
    /// The handle is the last owner: it still owns the entry and has to give it back (see [`State::free`]).
    Last,
    /// The engine is gone and counted on this handle.
    Orphan,
}

/// What the worker found when it took an entry out of the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// Still pending, to be linked at this tick.
    Pending(Tick),
    /// Cancelled while in the inbox: the worker lets go of it.
    Cancelled,
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
    pub(crate) fn arm(&self, deadline: Tick, with_handle: bool) {
        let handle = if with_handle { HANDLE } else { 0 };
        self.0.store(pack(deadline, PENDING | ENGINE | handle), Ordering::Relaxed);
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

    pub(crate) fn is_pending(&self) -> bool {
        phase_of(self.0.load(Ordering::Acquire)) == PENDING
    }

    pub(crate) fn is_expired(&self) -> bool {
        phase_of(self.0.load(Ordering::Acquire)) == EXPIRED
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        phase_of(self.0.load(Ordering::Acquire)) == CANCELLED
    }

    /// PENDING → CANCELLED, by a caller that holds a handle.
    #[inline]
    pub(crate) fn cancel(&self) -> Cancel {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if phase_of(word) != PENDING {
                return Cancel::TooLate;
            }
            let cancelled = (word & !PHASE) | CANCELLED;
            match self.0.compare_exchange_weak(word, cancelled, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if word & LINKED != 0 && word & IN_MAIL == 0 => return Cancel::WonLinked,
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
    pub(crate) fn reset(&self, deadline: Tick) -> Reset {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if phase_of(word) != PENDING {
                return Reset::TooLate;
            }
            let old = tick_of(word);
            if deadline == old {
                return Reset::Later;
            }
            let by_mail = deadline < old && word & LINKED != 0 && word & IN_MAIL == 0;
            let mail = if by_mail { IN_MAIL } else { 0 };
            let moved = pack(deadline, (word & FLAGS) | mail);
            match self.0.compare_exchange_weak(word, moved, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if by_mail => return Reset::EarlierByMail,
                Ok(_) if deadline < old => return Reset::Earlier,
                Ok(_) => return Reset::Later,
                Err(now) => word = now,
            }
        }
    }

    /// Sets LINKED, by the worker, on an entry that it took out of the inbox.
    #[inline]
    pub(crate) fn link(&self) -> Transfer {
        // What was cancelled stays so: no need to write to it. Acquire: pairs with the canceller's release.
        if phase_of(self.0.load(Ordering::Acquire)) != PENDING {
            return Transfer::Cancelled;
        }
        let word = self.0.fetch_or(LINKED, Ordering::AcqRel);
        if phase_of(word) == PENDING { Transfer::Pending(tick_of(word)) } else { Transfer::Cancelled }
    }

    /// PENDING → EXPIRED, by the worker, if the deadline is not after `now`.
    #[inline]
    pub(crate) fn expire(&self, now: Tick) -> Expire {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if phase_of(word) != PENDING {
                return Expire::Cancelled;
            }
            if word & IN_MAIL != 0 {
                return Expire::InMail;
            }
            if tick_of(word) > now {
                return Expire::NotBefore(tick_of(word));
            }
            let expired = (word & !PHASE) | EXPIRED;
            match self.0.compare_exchange_weak(word, expired, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Expire::Fire,
                Err(now) => word = now,
            }
        }
    }

    /// Clears IN_MAIL, by the worker, on an entry that arrived through the `earlier` queue. The word may have been reset
    /// again since it was sent: what counts is what it says now.
    pub(crate) fn arrive(&self) -> Transfer {
        let word = self.0.fetch_and(!IN_MAIL, Ordering::AcqRel);
        if phase_of(word) == PENDING { Transfer::Pending(tick_of(word)) } else { Transfer::Cancelled }
    }

    /// PENDING → CANCELLED, by the closing worker or shutdown. True if the task is now the caller's.
    pub(crate) fn withdraw(&self) -> bool {
        self.cancel() != Cancel::TooLate
    }

    /// The engine lets go, after the phase has left PENDING. True if it was the last owner, who gives the entry back.
    #[inline]
    pub(crate) fn engine_lets_go(&self) -> bool {
        // Without HANDLE the engine is alone: nobody can set it again, so a look is enough. The Acquire pairs with the
        // release of the handle that cleared it.
        if self.0.load(Ordering::Acquire) & HANDLE == 0 {
            return true;
        }
        self.0.fetch_and(!ENGINE, Ordering::AcqRel) & HANDLE == 0
    }

    /// The handle lets go.
    #[inline]
    pub(crate) fn handle_lets_go(&self) -> HandleGone {
        // Acquire: if ENGINE is clear, what the engine did to the entry before it let go must be visible to the last
        // owner, who is going to reuse it.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if word & ENGINE == 0 {
                return HandleGone::Last;
            }
            match self.0.compare_exchange_weak(word, word & !HANDLE, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if word & ORPHAN != 0 => return HandleGone::Orphan,
                Ok(_) => return HandleGone::EngineOwns,
                Err(now) => word = now,
            }
        }
    }

    /// The handle, as last owner, marks the entry free *after* it has put it where it belongs. This is the last access to
    /// the engine's memory: if the arena's last walk has not passed here yet, that walk may free everything right after.
    /// True if it has passed and counted on this handle.
    #[inline]
    pub(crate) fn free(&self) -> bool {
        self.0.swap(FREE, Ordering::AcqRel) & ORPHAN != 0
    }

    /// Whether the arena's last walk has passed here.
    pub(crate) fn is_orphan(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ORPHAN != 0
    }

    /// The arena's last walk. True if a handle still holds the entry, and will find ORPHAN when it lets go.
    pub(crate) fn orphan(&self) -> bool {
        self.0.fetch_or(ORPHAN, Ordering::AcqRel) & HANDLE != 0
    }
}
