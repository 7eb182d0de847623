//! The state word: one `AtomicU64` that decides everything about a timeout.
//!
//! ```text
//!  63            10   9      8      7      6     5      4      3      2    1 0
//! ┌────────────────┬─────┬───────┬──────┬──────┬──────┬──────┬──────┬──────┬─────┐
//! │   deadline     │WAKER│BATCHED│ORPHAN│SERIES│QUEUED│LINKED│ENGINE│HANDLE│phase│
//! └────────────────┴─────┴───────┴──────┴──────┴──────┴──────┴──────┴──────┴─────┘
//! ```
//!
//! * **phase**: `FREE`, `PENDING`, `EXPIRED`, `CANCELLED`. Exactly one thread takes an entry out of
//!   `PENDING`, by one compare-and-swap: the thread that is about to run its task
//!   ([`State::claim`]), the worker, for a sleeping future ([`State::expire`]), a caller
//!   ([`State::cancel`], [`State::give_up`]) or a shutdown ([`State::withdraw`]). That thread alone
//!   owns the task from then on. No exchange is needed if the engine is the only owner, see below.
//! * **HANDLE**, **ENGINE**, **QUEUED**: the owners. The last one to give the entry up gives it
//!   back to the arena. The handle is the user's. The engine owns an entry that is in the inbox, in
//!   a slot or in a batch.
//! * **QUEUED**: the entry is in a side queue of its shard, or on its way there. The thread that
//!   set the bit pushes the entry, and the worker clears it when it pops the entry
//!   ([`State::pop`]). If the queue is closed, the thread clears it ([`State::unqueue`]). That
//!   thread holds the handle until then.
//! * **LINKED**: the worker has put the entry into a slot. The worker sets it by an exchange with
//!   the pending word that it has seen, or by a store if the engine is the only owner. So a cancel,
//!   or a reset to an earlier deadline, knows for certain what to do. If LINKED is not set, the
//!   worker or the runner will look at the word. If it is set, the caller has to queue the entry,
//!   unless it is queued already.
//! * **BATCHED**: the worker has found the entry due, and has marked it for a batch
//!   ([`State::mark`]). It is pending, and not LINKED, so a cancel or a reset changes the
//!   word alone: the thread that runs the batch looks at it. If the deadline is a later one by
//!   then, that thread pushes the entry to the inbox again. BATCHED stays set then, so that a
//!   cancelled entry does not become a tombstone: it may not have been pushed yet. Entries of which
//!   the engine is the only owner are handed over unmarked. An entry that a shutdown has withdrawn
//!   is marked too.
//! * **WAKER**: the task is the waker of a sleeping future. The bit never changes while the entry
//!   is in use.
//! * **SERIES**: the timeout is periodic. Beside it EXPIRED means that a run is under way: the
//!   runner owns the task, and the entry is in no list but a side queue. The runner makes it
//!   PENDING again ([`State::rearm`]) or ends it ([`State::begin_end`]), unless a cancel came in
//!   between. LINKED beside both says that this was the last run, and the end clears SERIES. Beside
//!   WAKER the bit means something else: the future is changing the waker
//!   ([`State::begin_change`]).
//! * **Tombstone**: FREE with HANDLE set. The entry was cancelled, and its handle has gone, in one
//!   step ([`State::give_up`]), or in two before the worker linked it. HANDLE now belongs to a
//!   producer, which may make the entry PENDING again in place ([`State::revive`]). While ENGINE is
//!   also set, that place is a slot if LINKED is, and otherwise the inbox, or the list that the
//!   worker has taken out of it. See `thread/tombstones.rs`.
//! * **ORPHAN**: the engine is gone. The arena's final sweep sets it on every entry. See
//!   `arena/mod.rs`.
//!
//! Ordering: every transition that is an exchange is `AcqRel`, but for two: [`State::give_up`] is
//! more, and [`State::begin_change`] is less. The release half publishes what its thread did to the
//! entry before. The acquire half lets the last owner see what all others did.
//!
//! **The engine as the only owner**: while the engine owns an entry, and neither HANDLE nor QUEUED
//! is set, nobody else writes to the word, or reads it to decide anything. Only an owner may, and
//! nobody can become an owner before the entry is armed anew. The arena's final sweep waits for all
//! workers and batches. So the worker links such an entry by a plain store, and the thread that
//! claims it does not write at all. A plain store ends the release sequence of the owner that has
//! gone; therefore the worker *acquires* the word before it stores.

mod steps;

use self::steps::{is_changing, is_in_run, is_running};
use super::outcome::{Cancel, EngineGone, Expire, HandleGone, Kind, Popped, Reset};
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
const QUEUED: u64 = 1 << 5;
const SERIES: u64 = 1 << 6;
const ORPHAN: u64 = 1 << 7;
const BATCHED: u64 = 1 << 8;
/// The same bit during a run of a periodic timeout, when the entry is in no batch: the timeout was
/// reset since the run began.
const MOVED: u64 = BATCHED;
const WAKER: u64 = 1 << 9;
const OWNERS: u64 = HANDLE | ENGINE | QUEUED;
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

/// Returns the word of a timeout that has ended in this phase and keeps its entry, to be handed in
/// or woken. A shutdown has withdrawn or expired it early, or its future's sleep is over.
#[inline]
const fn ended_in(word: u64, phase: u64) -> u64 {
    let ended = (word & !(PHASE | LINKED)) | phase | BATCHED;
    // If a future is changing its waker, the engine leaves the entry to it.
    if is_changing(word) { ended & !ENGINE } else { ended }
}

/// Only the engine owns it: see the module's documentation.
const fn is_engines_alone(word: u64) -> bool {
    word & (HANDLE | QUEUED) == 0
}

/// A caller that cancels it, or resets it to an earlier deadline, has to queue it.
const fn is_to_be_queued(word: u64) -> bool {
    word & (LINKED | QUEUED) == LINKED
}

/// The flags that an entry is armed with, besides the engine's ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArmFlags(u64);

impl ArmFlags {
    pub(crate) const NONE: ArmFlags = ArmFlags(0);
    pub(crate) const HANDLE: ArmFlags = ArmFlags(HANDLE);
    pub(super) const SERIES: ArmFlags = ArmFlags(SERIES);
    pub(super) const WAKER: ArmFlags = ArmFlags(WAKER);

    #[inline]
    pub(crate) const fn and(self, other: ArmFlags) -> ArmFlags {
        ArmFlags(self.0 | other.0)
    }
}

/// A word that an owner has seen. The entry may have been cancelled or reset since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot(u64);

impl Snapshot {
    #[inline]
    pub(crate) fn deadline(self) -> Subtick {
        deadline_in(self.0)
    }

    /// Returns whether it was to run; for a periodic timeout, to run again.
    #[inline]
    pub(crate) fn is_pending(self) -> bool {
        phase_of(self.0) == PENDING || is_in_run(self.0)
    }

    pub(crate) fn is_expired(self) -> bool {
        phase_of(self.0) == EXPIRED && !is_in_run(self.0)
    }

    #[inline]
    pub(crate) fn is_cancelled(self) -> bool {
        phase_of(self.0) == CANCELLED
    }

    /// Returns whether the future was changing the waker. The step that ended the wait has left the
    /// waker to it then, and has given the engine's ownership up.
    pub(super) fn is_changing(self) -> bool {
        is_changing(self.0)
    }

    /// Returns whether it was of no timeout, but a producer's, which may revive it.
    #[inline]
    pub(crate) fn is_tombstone(self) -> bool {
        self.0 & (PHASE | HANDLE) == FREE | HANDLE
    }

    /// Returns whether the worker had linked it.
    #[inline]
    pub(crate) fn is_linked(self) -> bool {
        self.0 & LINKED != 0
    }

    /// Returns what kind of timeout the entry holds, which does not change.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        match self.0 & (SERIES | WAKER) {
            0 => Kind::Once,
            SERIES => Kind::Series,
            _ => Kind::Waker,
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

    /// PENDING → CANCELLED, by a caller that owns the entry. A periodic timeout is also cancelled
    /// while a run is under way.
    #[inline]
    pub(in crate::entry) fn cancel(&self) -> Cancel {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            // During a run LINKED is not set.
            let (won, queued) = match phase_of(word) {
                PENDING if is_to_be_queued(word) => (Cancel::WonQueued, QUEUED),
                PENDING => (Cancel::Won, 0),
                _ if is_running(word) => (Cancel::WonRunning, 0),
                _ => return Cancel::TooLate,
            };
            let cancelled = (word & !PHASE) | CANCELLED | queued;
            match self.0.compare_exchange_weak(word, cancelled, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return won,
                Err(now) => word = now,
            }
        }
    }

    /// Changes the deadline of a pending entry, by a caller that holds a handle.
    ///
    /// An unchanged deadline needs no write. The answer promises only that the word was pending
    /// with this deadline when it was read.
    #[inline]
    pub(in crate::entry) fn reset(&self, deadline: Subtick) -> Reset {
        // The usual case: it is pending, the deadline becomes later, and no other thread changes
        // the word.
        let word = self.0.load(Ordering::Relaxed);
        if phase_of(word) == PENDING && deadline > deadline_in(word) {
            let put_off = pack(deadline, word & FLAGS);
            if self.0.compare_exchange(word, put_off, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Reset::Later;
            }
        }
        self.reset_in_a_loop(deadline)
    }

    #[inline(never)]
    fn reset_in_a_loop(&self, deadline: Subtick) -> Reset {
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
            let is_earlier = deadline < old && !running;
            let flag = match () {
                () if is_earlier && is_to_be_queued(word) => QUEUED,
                // The runner finds the new deadline when it arms the entry.
                () if running => MOVED,
                () => 0,
            };
            let moved = pack(deadline, (word & FLAGS) | flag);
            match self.0.compare_exchange_weak(word, moved, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if flag == QUEUED => return Reset::EarlierQueued,
                Ok(_) if is_earlier => return Reset::Earlier,
                Ok(_) => return Reset::Later,
                Err(now) => word = now,
            }
        }
    }

    /// Sets LINKED on an entry that the worker took out of the inbox. Returns its deadline, or
    /// `None` if it was cancelled there. Only the worker calls this.
    #[inline]
    pub(crate) fn link(&self) -> Option<Subtick> {
        // Acquire, both. Pairs with the release of the canceller, with that of the producer that
        // revived the entry (for the task in it), and with that of the handle that has gone,
        // because the store below ends its release sequence.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            // A cancelled entry needs no write. If it is revived after this look, `engine_lets_go`
            // says so.
            if phase_of(word) != PENDING {
                return None;
            }
            if is_engines_alone(word) {
                self.0.store(word | LINKED, Ordering::Relaxed);
                return Some(deadline_in(word));
            }
            match self.0.compare_exchange_weak(word, word | LINKED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(deadline_in(word)),
                Err(now) => word = now,
            }
        }
    }

    /// Clears QUEUED on an entry that the worker has popped off a side queue, unless it was
    /// cancelled in its slot: see [`Popped`]. Only the worker calls this. The entry may have been
    /// reset again since it was pushed, so the word as it is now decides.
    #[inline]
    pub(in crate::entry) fn pop(&self) -> Popped {
        // Acquire, both: pairs with the release of the caller that set QUEUED, and of the owner
        // that gave the entry up last.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let popped = match (phase_of(word), word & LINKED != 0) {
                // Nobody but a handle changes such a word, by going.
                (CANCELLED, true) => return Popped::Cancelled,
                (PENDING, true) => Popped::Moved,
                // The queue was its last owner.
                _ if word & (HANDLE | ENGINE) == 0 => return Popped::Last,
                _ => Popped::Elsewhere,
            };
            match self.0.compare_exchange_weak(word, word & !QUEUED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return popped,
                Err(now) => word = now,
            }
        }
    }

    /// Clears QUEUED on an entry whose push was refused. The caller holds the handle, but of a
    /// tombstone that was [abandoned](Self::abandon).
    pub(in crate::entry) fn unqueue(&self) {
        // Release: pairs with the acquire of the last owner.
        self.0.fetch_and(!QUEUED, Ordering::AcqRel);
    }

    /// Returns the word as it is now. The caller is an owner, or looks for the deadline only.
    #[inline]
    pub(crate) fn load(&self) -> Snapshot {
        // Acquire: a thread that sees an end sees what led to it. For the engine it pairs with the
        // release of the handle that has gone: if the engine is the only owner, the step that ends
        // the wait does not look again. Sequentially consistent for a worker that is claiming: see
        // `Claiming::begin`.
        Snapshot(self.0.load(Ordering::SeqCst))
    }

    /// Marks a timeout that is due for a batch, by the worker. It stays pending.
    #[inline]
    pub(crate) fn mark(&self, seen: Snapshot, now: Subtick) -> Expire {
        self.end_wait(seen, now, || {}, |word| (word & !LINKED) | BATCHED, |_| {})
    }

    /// PENDING → EXPIRED, by the thread that is about to run the task, if the deadline is not after
    /// `now`. The engine gives the entry up in the same step, so `copy` [copies the
    /// task](super::Entry::copy_task) just before it. The timeout runs once.
    #[inline]
    pub(crate) fn claim(&self, seen: Snapshot, now: Subtick, copy: impl FnOnce()) -> Expire {
        debug_assert_eq!(seen.kind(), Kind::Once);
        self.end_wait(seen, now, copy, |word| (word & !(PHASE | ENGINE | LINKED)) | EXPIRED, |_| {})
    }

    /// Ends the wait of a timeout that is due, after a call of `before`: by an exchange for the
    /// word that `ended` makes, or by `alone` if the engine is the only owner. `seen` is what the
    /// caller has [seen](Self::load) of the word since it holds the engine's ownership.
    #[inline(always)]
    fn end_wait(
        &self,
        seen: Snapshot,
        now: Subtick,
        before: impl FnOnce(),
        ended: impl Fn(u64) -> u64,
        alone: impl FnOnce(u64),
    ) -> Expire {
        let Snapshot(word) = seen;
        if phase_of(word) != PENDING {
            return Expire::Cancelled;
        }
        if deadline_in(word) > now {
            return Expire::NotYetDue;
        }
        before();
        if is_engines_alone(word) {
            alone(word);
            return Expire::Alone;
        }
        // A strong exchange, no loop: if it fails, the entry may be another timeout's, of another
        // kind.
        match self.0.compare_exchange(word, ended(word), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) if is_changing(word) => Expire::Left,
            Ok(_) => Expire::Done,
            Err(_) => Expire::Changed,
        }
    }

    /// PENDING → CANCELLED, by the closing worker or a shutdown. The task is then the caller's,
    /// unless its future [is changing](Snapshot::is_changing) it. The entry is in no slot any more.
    /// Returns the word as it was, or `None` if it was not pending.
    pub(crate) fn withdraw(&self) -> Option<Snapshot> {
        self.end_early(|word| ended_in(word, CANCELLED))
    }

    /// Takes a timeout out of PENDING, or marks it for a batch, whatever its deadline, for a
    /// shutdown that runs what is left: a sleeping future is woken, any other is marked. The entry
    /// is in no slot any more. Returns what [`withdraw`](Self::withdraw) does.
    pub(crate) fn fire(&self) -> Option<Snapshot> {
        self.end_early(|word| if word & WAKER == 0 { (word & !LINKED) | BATCHED } else { ended_in(word, EXPIRED) })
    }

    /// The word of the exchange says what kind of timeout that was. Before it the entry may become
    /// that of another timeout.
    fn end_early(&self, ended: impl Fn(u64) -> u64) -> Option<Snapshot> {
        let end = |word| (phase_of(word) == PENDING).then(|| ended(word));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, end).ok().map(Snapshot)
    }

    /// Gives up the engine's ownership, after the phase has left PENDING. The entry is in no slot
    /// any more.
    #[inline]
    pub(crate) fn engine_lets_go(&self) -> EngineGone {
        // Acquire, both: pairs with the release of the owner that gave the entry up last.
        let gone = |word| (phase_of(word) != PENDING && !is_engines_alone(word)).then_some(word & !(ENGINE | LINKED));
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, gone) {
            Ok(_) => EngineGone::OthersOwn,
            Err(word) if phase_of(word) == PENDING => EngineGone::NotYet,
            Err(_) => EngineGone::Last,
        }
    }

    /// Gives up the engine's ownership and that of the side queue, for an entry that was [popped
    /// cancelled](Popped::Cancelled), when it is in no slot any more. Returns true if they were the
    /// last owners.
    #[inline]
    pub(in crate::entry) fn queue_lets_go(&self) -> bool {
        // Acquire, both: pairs with the release of the handle that has gone.
        let gone = |word| (word & HANDLE != 0).then_some(word & !(ENGINE | QUEUED | LINKED));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, gone).is_err()
    }

    /// Gives up the handle's ownership.
    #[inline]
    pub(in crate::entry) fn handle_lets_go(&self) -> HandleGone {
        // Acquire: if the other owners have gone, the last owner, which is going to reuse the
        // entry, must see what they did to it.
        let gone = |word| (word & (ENGINE | QUEUED) != 0).then_some(word & !HANDLE);
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, gone) {
            Ok(word) if word & ORPHAN != 0 => HandleGone::Orphan,
            Ok(_) => HandleGone::OthersOwn,
            Err(_) => HandleGone::Last,
        }
    }

    /// Marks the entry free *after* the handle, as its last owner, has put it where it belongs.
    /// This is the handle's last access to the engine's memory: if the arena's final sweep has not
    /// passed this entry yet, the sweep may free everything right after. Returns true if the sweep
    /// has passed and counted this handle.
    #[inline]
    pub(in crate::entry) fn free(&self) -> bool {
        // AcqRel: pairs with `orphan`. If this comes second, its thread sees what the sweep did.
        self.0.swap(FREE, Ordering::AcqRel) & ORPHAN != 0
    }

    /// Marks the entry for the arena's final sweep. Returns true if a handle still holds it; the
    /// handle will find ORPHAN when it is dropped. A tombstone belongs to the arena.
    pub(crate) fn orphan(&self) -> bool {
        // AcqRel: pairs with `free`. If this comes second, the sweep sees what the handle did.
        let word = self.0.fetch_or(ORPHAN, Ordering::AcqRel);
        word & HANDLE != 0 && !Snapshot(word).is_tombstone()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
