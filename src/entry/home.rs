//! Where an entry is at home: the shard that it was scheduled on.

use std::marker::PhantomData;
use std::ptr::NonNull;

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

    /// Returns the address for an entry of the same engine, which is not there for longer than the
    /// remote.
    #[inline]
    pub(super) fn in_entry(self) -> Home<'static> {
        Home(self.0, PhantomData)
    }
}
