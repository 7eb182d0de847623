//! What the values that own an entry have in common. A list or a queue keeps such a value as an
//! address, and makes the value again when it gives it out.

use std::mem::transmute_copy;
use std::ptr::NonNull;

use super::{Entry, Link};

/// A value that is the address of an entry, with a promise of whose the entry is.
///
/// # Safety
/// The type is a transparent one around the address. What it owns of an entry includes the link of
/// the lists that it is put into.
pub(crate) unsafe trait Token: Sized {
    /// Returns the address, for a list that the value is about to go into.
    #[inline]
    fn as_link(&self) -> Link {
        const { assert!(size_of::<Self>() == size_of::<Link>()) };
        // SAFETY: an implementor promises `repr(transparent)` around one `NonNull<Entry>`. So both
        // types have the size and the bits of one address.
        unsafe { transmute_copy(self) }
    }

    /// Returns the entry, to the values and the lists of this layer.
    #[inline]
    fn entry(&self) -> &Entry {
        // SAFETY: `as_link` is the address of the entry that this value owns a part of, and so
        // keeps alive. All fields have interior mutability: shared references never conflict.
        unsafe { &*self.as_link() }
    }

    /// Returns the address, with all that the value owned.
    #[inline]
    fn into_raw(self) -> NonNull<Entry> {
        NonNull::new(self.as_link()).expect("the address of an entry")
    }

    /// # Safety
    /// The address is one that `into_raw` of this type has returned. It is used once.
    #[inline]
    unsafe fn from_raw(entry: NonNull<Entry>) -> Self {
        // SAFETY: an implementor has the size and the bits of one address, and `into_raw` gave up
        // the value with this address. So the ownership comes back, once.
        unsafe { transmute_copy(&entry) }
    }
}

/// A value whose entry is in no list.
///
/// # Safety
/// The entry's own link is free for a list.
pub(crate) unsafe trait Listable: Token {}

/// A value that comes out of a queue of a shard, which is a stack.
///
/// # Safety
/// `below` is the link by which the entry was in the queue.
pub(crate) unsafe trait Stacked: Token + Send {
    fn below(&self) -> Link;
}
