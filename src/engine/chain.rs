//! A list of entries through their own links, which takes no memory of its own.

use std::ptr::{self, NonNull};

use crate::entry::{Entry, Link, entry_ref};
use crate::sync::prefetch;

/// Entries that are in no other list, in the order in which they were put in. What else comes with an entry is the holder's affair.
#[derive(Debug)]
pub(crate) struct Chain {
    first: Link,
    last: Link,
    len: usize,
}

// SAFETY: entries of a chain belong to its holder, as far as their links go.
unsafe impl Send for Chain {}

impl Chain {
    pub(crate) const fn new() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut(), len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// # Safety
    /// The entry is in no list, and its link is the caller's until it is taken out again.
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: NonNull<Entry>) {
        self.join(entry.as_ptr(), entry.as_ptr(), 1);
    }

    /// Takes over all of another.
    pub(crate) fn append(&mut self, other: Self) {
        if other.len > 0 {
            self.join(other.first, other.last, other.len);
        }
    }

    #[inline]
    fn join(&mut self, first: Link, last: Link, len: usize) {
        match NonNull::new(self.last) {
            // SAFETY: entries of the chain are ours.
            Some(end) => unsafe { entry_ref(end) }.set_next(first),
            None => self.first = first,
        }
        self.last = last;
        self.len += len;
    }

    /// The entry that was put in first.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<NonNull<Entry>> {
        // The link of the last one leads nowhere.
        self.len = self.len.checked_sub(1)?;
        let entry = NonNull::new(self.first)?;
        // SAFETY: entries of the chain are ours.
        self.first = unsafe { entry_ref(entry) }.next();
        prefetch(self.first);
        if self.len == 0 {
            self.last = ptr::null_mut();
        }
        Some(entry)
    }
}
