//! What the inbox and the side queues have in common: an intrusive stack whose head packs an
//! address, a depth and two tags, and the list of entries taken out of it.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::entry::{ADDRESS_BITS, Link, Owned, Stacked};

/// Set if the stack accepts nothing more, because the engine has been shut down.
pub(crate) const CLOSED: usize = 2;
/// An entry's address leaves its low bits free, too.
pub(crate) const ADDRESS: usize = ((1 << ADDRESS_BITS) - 1) & !63;
pub(crate) const ONE_DEEP: usize = 1 << ADDRESS_BITS;
/// The bits of the depth.
pub(crate) const DEPTH: usize = !(ONE_DEEP - 1);

/// At this depth the worker is woken even if nothing is due. It is small enough that the entries of
/// a producer that schedules and cancels in a ring stay in its second-level cache (8,192 × 64 bytes
/// = 512 KiB).
pub(crate) const WAKE_DEPTH: usize = if cfg!(loom) {
    2
} else if cfg!(miri) {
    8
} else {
    8_192
};

pub(crate) fn depth_of(head: Link) -> usize {
    head.addr() >> ADDRESS_BITS
}

pub(crate) fn address_of(head: Link) -> Link {
    head.map_addr(|addr| addr & ADDRESS)
}

/// Returns the tags of a stack that is `len` deeper, and at most as deep as the tags can say.
#[inline]
pub(crate) fn deeper_by(tags: usize, len: usize) -> usize {
    #[cold]
    fn deepest(tags: usize) -> usize {
        tags | DEPTH
    }
    match len.checked_mul(ONE_DEEP).and_then(|deeper| tags.checked_add(deeper)) {
        Some(tags) => tags,
        None => deepest(tags),
    }
}

/// Entries taken out of a stack, newest first. They are the worker's.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    first: Link,
    depth: usize,
    of: PhantomData<T>,
}

// SAFETY: the list is the values that were pushed.
unsafe impl<T: Send> Send for Taken<T> {}

impl<T: Stacked> Taken<T> {
    pub(crate) const NONE: Self = Self { first: ptr::null_mut(), depth: 0, of: PhantomData };

    /// # Safety
    /// The caller has taken the head out of a stack of such values, and gives what was in it to
    /// this value.
    pub(super) unsafe fn new(head: Link) -> Self {
        Self { first: address_of(head), depth: depth_of(head), of: PhantomData }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Returns how many entries there were when they were taken, up to 65,535, or 0 if the list is
    /// empty by now.
    pub(crate) const fn depth(&self) -> usize {
        if self.is_empty() { 0 } else { self.depth }
    }

    /// Takes one entry off.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        // SAFETY: the entries are this value's, which gives each out once.
        let entry = unsafe { T::from_raw(NonNull::new(self.first)?) };
        self.first = entry.below();
        crate::sync::prefetch(self.first);
        Some(entry)
    }
}

impl Taken<Owned> {
    /// Puts an entry before all others. The [depth](Self::depth) stays what it was.
    #[inline]
    pub(crate) fn push(&mut self, entry: Owned) {
        entry.set_below(self.first);
        self.first = entry.into_raw().as_ptr();
    }
}
