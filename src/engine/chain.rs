//! A list of entries through their own links, which allocates nothing.

use std::ptr::{self, NonNull};

use crate::entry::{Entry, Link, Owned, entry_ref};
use crate::sync::prefetch;

/// Entries that are in no other list, in the order in which they were pushed. Its holder decides
/// what else it owns of an entry.
#[derive(Debug)]
pub(crate) struct Chain {
    first: Link,
    last: Link,
    len: usize,
}

// SAFETY: the links of a chain's entries belong to its holder.
unsafe impl Send for Chain {}

impl Chain {
    pub(crate) const fn new() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut(), len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Owned) {
        let entry = entry.into_raw().as_ptr();
        self.join(entry, entry, 1);
    }

    /// Appends all entries of another chain.
    pub(crate) fn append(&mut self, other: Self) {
        if other.len > 0 {
            self.join(other.first, other.last, other.len);
        }
    }

    #[inline]
    fn join(&mut self, first: Link, last: Link, len: usize) {
        match NonNull::new(self.last) {
            // SAFETY: entries of the chain, and their links, are its holder's.
            Some(end) => unsafe { entry_ref(end) }.set_next(first),
            None => self.first = first,
        }
        self.last = last;
        self.len += len;
    }

    /// Splits off all but the first `len` entries. Nothing may be appended to what stays.
    ///
    /// # Safety
    /// There are more, and `next` is the first of those that go.
    pub(super) unsafe fn split_off(&mut self, len: usize, next: NonNull<Entry>) -> Self {
        let rest = Self { first: next.as_ptr(), last: self.last, len: self.len - len };
        (self.last, self.len) = (ptr::null_mut(), len);
        rest
    }

    /// Returns the entry that was pushed first.
    pub(super) fn first(&self) -> Option<&Entry> {
        // SAFETY: the chain owns its entries.
        NonNull::new(self.first).filter(|_| self.len > 0).map(|first| unsafe { entry_ref(first) })
    }

    /// Takes off the entry that was pushed first.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Owned> {
        // The link of the last entry is not valid.
        self.len = self.len.checked_sub(1)?;
        // SAFETY: the chain owns its entries, and gives each out once.
        let entry = unsafe { Owned::new(NonNull::new(self.first)?) };
        self.first = entry.next();
        prefetch(self.first);
        if self.len == 0 {
            self.last = ptr::null_mut();
        }
        Some(entry)
    }
}
