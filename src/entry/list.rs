//! Lists of entries through their own links, which allocate nothing. What the lists hold is a value
//! that says whose the entry is.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::Link;
use super::token::Listable;
use crate::sync::prefetch;

/// Entries in the order in which they were pushed.
#[derive(Debug)]
pub(crate) struct Chain<T> {
    first: Link,
    /// Null if there is none.
    last: Link,
    len: usize,
    of: PhantomData<T>,
}

// SAFETY: a chain is the values that were pushed.
unsafe impl<T: Send> Send for Chain<T> {}

impl<T: Listable> Default for Chain<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Listable> Chain<T> {
    pub(crate) const fn new() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut(), len: 0, of: PhantomData }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        let entry = entry.into_raw().as_ptr();
        self.join(entry, entry, 1);
    }

    /// Adds an entry before all others.
    #[inline]
    pub(crate) fn push_front(&mut self, entry: T) {
        entry.entry().set_next(self.first);
        self.first = entry.into_raw().as_ptr();
        if self.len == 0 {
            self.last = self.first;
        }
        self.len += 1;
    }

    /// Splits off the first `len` entries, or all if there are fewer. Goes through them.
    pub(crate) fn split_off_front(&mut self, len: usize) -> Self {
        if len >= self.len {
            return std::mem::take(self);
        }
        let mut front = Self::new();
        while front.len < len
            && let Some(entry) = self.pop()
        {
            front.push(entry);
        }
        front
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
            // SAFETY: the chain owns its entries, whose fields have interior mutability.
            Some(end) => unsafe { end.as_ref() }.set_next(first),
            None => self.first = first,
        }
        self.last = last;
        self.len += len;
    }

    /// Returns the entry that was pushed first, for a list that the chain goes into.
    pub(crate) fn as_link(&self) -> Option<Link> {
        (self.len > 0).then_some(self.first)
    }

    /// Sets the link of the entry that was pushed last, for a list that the chain goes into.
    #[inline]
    pub(crate) fn set_end(&mut self, link: Link) {
        let end = NonNull::new(self.last).expect("a chain of some entries");
        // SAFETY: the chain owns its entries, whose fields have interior mutability.
        unsafe { end.as_ref() }.set_next(link);
    }

    /// Takes off the entry that was pushed first.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        // The link of the last entry is not valid.
        self.len = self.len.checked_sub(1)?;
        let entry = NonNull::new(self.first)?;
        // SAFETY: 1. The chain owns its entries, whose fields have interior mutability. 2. `push`
        // got the value, and it is given out once, as it is in the chain no more.
        let entry = unsafe {
            self.first = entry.as_ref().next();
            T::from_raw(entry)
        };
        prefetch(self.first);
        if self.len == 0 {
            self.last = ptr::null_mut();
        }
        Some(entry)
    }
}
