//! The count of an engine's owners. [`SharedRef`](super::SharedRef) alone uses it.

use crate::sync::{AtomicUsize, Ordering};

/// How many [`SharedRef`](super::SharedRef)s an engine has.
#[derive(Debug)]
pub(super) struct Owners(AtomicUsize);

impl Owners {
    pub(super) fn one() -> Self {
        Self(AtomicUsize::new(1))
    }

    /// Counts another owner, made from one that exists.
    pub(super) fn add(&self) {
        // Relaxed: the new owner is made from one that exists.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts another owner, if there is one yet. Returns whether there is.
    pub(super) fn add_if_any(&self) -> bool {
        let add_one = |owners: usize| (owners > 0).then_some(owners + 1);
        // Relaxed: the engine has an owner, or this fails.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add_one).is_ok()
    }

    /// Subtracts an owner. Returns whether it was the last one.
    ///
    /// # Safety
    /// The caller was counted, and is subtracted once. It does not use the engine any more, but to
    /// end it if it was the last one.
    pub(super) unsafe fn remove(&self) -> bool {
        // AcqRel: the last owner sees all that the others did.
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
