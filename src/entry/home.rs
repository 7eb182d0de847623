//! Where an entry is at home: the shard that it was scheduled on.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

#[cfg(loom)]
use crate::sync::ProtocolCell;
use crate::sync::ShownPtr;

/// The address of a shard's remote, which is there for `'a`. Only the shard layer knows its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Home<'a>(NonNull<()>, PhantomData<&'a ()>);

// SAFETY: it stands for a reference to a remote, which any thread may use.
unsafe impl Send for Home<'_> {}
// SAFETY: it stands for a reference to a remote, which any thread may use.
unsafe impl Sync for Home<'_> {}

impl<'a> Home<'a> {
    /// # Safety
    /// This is the address of a `Remote` which is there for `'a`, and a part of its engine.
    #[inline]
    pub(crate) unsafe fn new(remote: NonNull<()>) -> Self {
        Self(remote, PhantomData)
    }

    #[inline]
    pub(crate) fn address(self) -> NonNull<()> {
        self.0
    }
}

/// The place for an entry's home. The sole owner of a free entry writes it. The owners of an entry
/// read it, and any thread may look at it.
///
/// The entry is of the same engine as the home, and is not there for longer than the remote.
#[derive(Debug)]
pub(super) struct HomePlace {
    address: ShownPtr,
    /// Used as the address is, so that loom sees who may.
    #[cfg(loom)]
    owners: ProtocolCell<()>,
}

impl HomePlace {
    #[cfg(any(loom, test))]
    pub(super) fn empty() -> Self {
        Self {
            address: ShownPtr::default(),
            #[cfg(loom)]
            owners: ProtocolCell::new(()),
        }
    }

    #[inline]
    pub(super) fn set(&self, home: Option<Home<'_>>) {
        #[cfg(loom)]
        self.owners.with_mut(|_| ());
        self.address.set(home.map_or(ptr::null_mut(), |home| home.0.as_ptr()));
    }

    #[inline]
    pub(super) fn get(&self) -> Option<Home<'_>> {
        #[cfg(loom)]
        self.owners.with(|_| ());
        self.seen()
    }

    /// Returns what a thread that does not own the entry sees, which may be an earlier home.
    #[inline]
    pub(super) fn seen(&self) -> Option<Home<'_>> {
        NonNull::new(self.address.get()).map(|address| Home(address, PhantomData))
    }
}
