//! Tombstones as values: see `thread/tombstones.rs`, which keeps them.

use std::ptr::{self, NonNull};

use super::token::Token;
use super::work::Work;
use super::{ArmFlags, Armed, Entry, Handle};
use crate::time::Subtick;

/// A tombstone, and the producer's ownership of it. Or the first of a list of them. Not `Send`: it
/// belongs to one thread.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the entry is lost if it is not revived"]
#[repr(transparent)]
pub(crate) struct Tomb(NonNull<Entry>);

// SAFETY: `repr(transparent)` around a `NonNull<Entry>`. The list of its thread is linked by
// `aside`, which is the producer's, also while the entry is about to become a tombstone.
unsafe impl Token for Tomb {}

impl Tomb {
    /// Makes the tombstone that the entry of a handle is about to become.
    ///
    /// # Safety
    /// The caller puts the tombstone on its thread's list. The handle's owner makes it a tombstone
    /// next, or takes it off the list again. Until then nobody uses the tombstone. The entry is in
    /// no side queue, and meanwhile nobody else uses the handle, which alone could put it there.
    #[inline]
    pub(crate) unsafe fn of(handle: &Handle) -> Self {
        Self(handle.address())
    }

    /// Returns whether it is the entry of this handle.
    pub(crate) fn is_of(&self, handle: &Handle) -> bool {
        self.0 == handle.address()
    }

    /// Puts work in, and makes the entry pending again. Returns its address if it is still where
    /// it was pushed, in the inbox or in what the worker took out of it. Otherwise the engine has
    /// given the entry up: then it is armed, and the caller pushes it.
    #[inline]
    pub(crate) fn revive<W: Work>(
        self,
        work: W,
        deadline: Subtick,
        owners: ArmFlags,
    ) -> Result<NonNull<Entry>, Armed<W>> {
        let flags = owners.and(W::FLAGS);
        let entry = self.entry();
        entry.fill(None, work);
        if entry.state.revive(deadline, flags) {
            return Ok(self.0);
        }
        entry.state.arm(deadline, flags);
        // The engine has let go of it, so it was this thread's alone. It was just armed, and is in
        // no list.
        Err(Armed::of(self.0))
    }

    /// Puts it before others, through which a list of them is linked. It then stands for the list.
    #[inline]
    pub(crate) fn before(self, others: Option<Self>) -> Self {
        self.entry().set_aside(others.map_or(ptr::null_mut(), |next| next.as_link()));
        self
    }

    /// Takes it off the others of its list.
    #[inline]
    pub(crate) fn split(self) -> (Self, Option<Self>) {
        let others = NonNull::new(self.entry().aside()).map(Self);
        (self, others)
    }

    /// Recorded for the models.
    #[cfg(loom)]
    pub(crate) fn set_in_use(&self, in_use: bool) {
        self.entry().set_in_use(in_use);
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn address(&self) -> NonNull<Entry> {
        self.0
    }
}
