//! What the inbox and the cancelled queue have in common: an intrusive stack whose head packs an address, a depth and two
//! tags, and the list that comes out of it.

use std::ptr::{self, NonNull};

use crate::entry::{Entry, Link, entry_ref};

/// The stack takes no more: the engine has been shut down.
pub(super) const CLOSED: usize = 2;
/// The low bits of an entry's address, and the high ones that no user-space address has.
const ADDRESS_BITS: u32 = 48;
pub(super) const ADDRESS: usize = ((1 << ADDRESS_BITS) - 1) & !63;
pub(super) const ONE_DEEP: usize = 1 << ADDRESS_BITS;
pub(super) const MAX_DEPTH: usize = usize::MAX >> ADDRESS_BITS;

const _: () = assert!(usize::BITS == 64, "the inbox packs a depth above a 48-bit address: 64-bit targets only");

/// So many entries waiting wake the worker, due or not. Small enough that the entries of a producer that schedules and
/// cancels in a ring stay in its second-level cache (8,192 × 64 bytes = 512 KiB).
pub(crate) const WAKE_DEPTH: usize = if cfg!(loom) { 2 } else { 8_192 };

pub(super) fn depth_of(head: Link) -> usize {
    head.addr() >> ADDRESS_BITS
}

pub(super) fn address_of(head: Link) -> Link {
    head.map_addr(|addr| addr & ADDRESS)
}

/// Entries taken out of a stack, oldest last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken(Link);

impl Taken {
    pub(super) fn new(head: Link) -> Self {
        Self(address_of(head))
    }

    pub(crate) const NONE: Taken = Taken(ptr::null_mut());

    pub(crate) fn is_empty(self) -> bool {
        self.0.is_null()
    }

    /// Takes one off, following the link that `next` reads.
    ///
    /// # Safety
    /// The entries are the caller's, and still in the list by that link.
    #[inline]
    pub(crate) unsafe fn pop(&mut self, next: impl FnOnce(&Entry) -> Link) -> Option<NonNull<Entry>> {
        let entry = NonNull::new(self.0)?;
        // SAFETY: as above.
        self.0 = next(unsafe { entry_ref(entry) });
        crate::sync::prefetch(self.0);
        Some(entry)
    }
}
