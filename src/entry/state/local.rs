//! The steps of an entry whose owners are all on one thread: see `entry/local.rs`. Each is a load
//! and a store.
//!
//! Of the flags only HANDLE, ENGINE, LINKED, BATCHED and SLEEPER are used. A pending entry is
//! either LINKED, in a slot, or BATCHED, in the list of a turn that is about to run it.
#![cfg(not(loom))]

use super::{
    ArmFlags, BATCHED, CANCELLED, ENGINE, EXPIRED, FREE, HANDLE, LINKED, PENDING, PHASE, State, deadline_in, pack,
    phase_of,
};
use crate::entry::outcome::{LocalClaim, LocalEnd, LocalReset};
use crate::sync::Ordering;
use crate::time::Subtick;

impl State {
    #[inline]
    fn word(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, word: u64) {
        self.0.store(word, Ordering::Relaxed);
    }

    /// Makes a free entry pending, on its way into a slot.
    #[inline]
    pub(in crate::entry) fn arm_linked(&self, deadline: Subtick, flags: ArmFlags) {
        self.set(pack(deadline, PENDING | ENGINE | LINKED | flags.0));
    }

    /// PENDING → CANCELLED. The engine gives the entry up in the same step, if that is in a slot:
    /// the caller takes it out.
    #[inline]
    pub(in crate::entry) fn cancel_here(&self) -> LocalEnd {
        let word = self.word();
        if phase_of(word) != PENDING {
            return LocalEnd::TooLate;
        }
        let is_linked = word & LINKED != 0;
        let kept = if is_linked { !(PHASE | LINKED | ENGINE) } else { !PHASE };
        self.set((word & kept) | CANCELLED);
        if is_linked { LocalEnd::OutOfSlot } else { LocalEnd::InBatch }
    }

    /// Changes the deadline of a pending entry.
    #[inline]
    pub(in crate::entry) fn reset_here(&self, deadline: Subtick) -> LocalReset {
        let word = self.word();
        if phase_of(word) != PENDING {
            return LocalReset::TooLate;
        }
        self.set(pack(deadline, word & super::FLAGS));
        if deadline < deadline_in(word) && word & LINKED != 0 { LocalReset::Earlier } else { LocalReset::Later }
    }

    /// Marks a pending entry, which has come out of its slot, for the turn that is going to run it.
    /// `Err` if its deadline is after `now`: it is linked again.
    #[inline]
    pub(in crate::entry) fn batch_here(&self, now: Subtick) -> Result<(), Subtick> {
        let word = self.word();
        debug_assert_eq!(phase_of(word), PENDING, "a cancelled entry is in no slot");
        if deadline_in(word) > now {
            return Err(deadline_in(word));
        }
        self.set((word & !LINKED) | BATCHED);
        Ok(())
    }

    /// PENDING → EXPIRED for an entry of a turn, if its deadline is not after `now`. The engine
    /// gives it up, unless it is linked again.
    #[inline]
    pub(in crate::entry) fn claim_here(&self, now: Subtick) -> LocalClaim {
        let word = self.word();
        let is_held = word & HANDLE != 0;
        if phase_of(word) != PENDING {
            self.set(if is_held { word & !(ENGINE | BATCHED) } else { FREE });
            return LocalClaim::Cancelled { is_held };
        }
        let deadline = deadline_in(word);
        if deadline > now {
            self.set((word & !BATCHED) | LINKED);
            return LocalClaim::NotBefore(deadline);
        }
        self.set(if is_held { (word & !(PHASE | ENGINE | BATCHED)) | EXPIRED } else { FREE });
        LocalClaim::Run { is_held }
    }

    /// Marks a pending entry, which has come out of its slot, for the end of its engine.
    pub(in crate::entry) fn set_aside_here(&self) {
        self.set((self.word() & !LINKED) | BATCHED);
    }

    /// PENDING → CANCELLED for an entry that was set aside. The engine gives it up. Returns whether
    /// it was pending still, and whether a handle holds it.
    pub(in crate::entry) fn end_here(&self) -> (bool, bool) {
        let word = self.word();
        let is_held = word & HANDLE != 0;
        self.set(if is_held { (word & !(PHASE | BATCHED | ENGINE)) | CANCELLED } else { FREE });
        (phase_of(word) == PENDING, is_held)
    }

    /// Gives up the handle's ownership. Returns true if the engine has given the entry up before.
    #[inline]
    pub(in crate::entry) fn handle_lets_go_here(&self) -> bool {
        let word = self.word();
        let is_last = word & ENGINE == 0;
        self.set(if is_last { FREE } else { word & !HANDLE });
        is_last
    }
}
