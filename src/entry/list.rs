//! Lists of entries through their own links, which allocate nothing. What the lists hold is a value
//! that says whose the entry is.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::token::Listable;
use super::{Entry, Link, Owned, entry_ref};
use crate::sync::prefetch;

/// Entries in the order in which they were pushed.
#[derive(Debug)]
pub(crate) struct Chain<T = Owned> {
    first: Link,
    /// Not valid if there is none, or if some were split off.
    last: Link,
    len: usize,
    of: PhantomData<T>,
}

// SAFETY: a chain is the values that were pushed.
unsafe impl<T: Send> Send for Chain<T> {}

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

    /// Appends all entries of another chain.
    pub(crate) fn append(&mut self, other: Self) {
        if other.len > 0 {
            self.join(other.first, other.last, other.len);
        }
    }

    #[inline]
    fn join(&mut self, first: Link, last: Link, len: usize) {
        match NonNull::new(self.last) {
            // SAFETY: the chain owns its entries, and their links.
            Some(end) => unsafe { entry_ref(end) }.set_next(first),
            None => {
                assert!(self.len == 0, "nothing is appended to what stays after a split");
                self.first = first;
            }
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
        // SAFETY: the chain owns its entries, and their links.
        unsafe { entry_ref(end) }.set_next(link);
    }

    /// Takes off the entry that was pushed first.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        // The link of the last entry is not valid.
        self.len = self.len.checked_sub(1)?;
        let entry = NonNull::new(self.first)?;
        // SAFETY: 1. The chain owns its entries, and their links. 2. `push` got the value, and it
        // is given out once, as it is in the chain no more.
        let entry = unsafe {
            self.first = entry_ref(entry).next();
            T::from_raw(entry)
        };
        prefetch(self.first);
        if self.len == 0 {
            self.last = ptr::null_mut();
        }
        Some(entry)
    }
}

/// Entries of which the newest comes out first.
#[derive(Debug)]
pub(crate) struct Stack<T = Owned> {
    first: Link,
    of: PhantomData<T>,
}

// SAFETY: a stack is the values that were pushed.
unsafe impl<T: Send> Send for Stack<T> {}

impl<T: Listable> Stack<T> {
    pub(crate) const fn new() -> Self {
        Self { first: ptr::null_mut(), of: PhantomData }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        entry.entry().set_next(self.first);
        self.first = entry.into_raw().as_ptr();
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let entry = NonNull::new(self.first)?;
        // SAFETY: 1. The stack owns its entries, and their links. 2. `push` got the value, and it
        // is given out once, as it is in the stack no more.
        let entry = unsafe {
            self.first = entry_ref(entry).next();
            T::from_raw(entry)
        };
        prefetch(self.first);
        Some(entry)
    }
}

/// A chain that can be split after each `PART` entries, without going through them: the first entry
/// of each part names that of the next one.
#[derive(Debug)]
pub(crate) struct Parts<const PART: usize> {
    chain: Chain,
    /// The first entries of the first part and of the last, as long as nothing was taken off.
    firsts: Option<(NonNull<Entry>, NonNull<Entry>)>,
}

// SAFETY: they are the entries that were pushed.
unsafe impl<const PART: usize> Send for Parts<PART> {}

impl<const PART: usize> Parts<PART> {
    pub(crate) const fn new() -> Self {
        Self { chain: Chain::new(), firsts: None }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.chain.len
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Owned) {
        if self.len().is_multiple_of(PART) {
            self.begin_part(&entry);
        }
        self.chain.push(entry);
    }

    fn begin_part(&mut self, entry: &Owned) {
        let here = NonNull::from(&**entry);
        self.firsts = match self.firsts {
            _ if self.len() == 0 => Some((here, here)),
            Some((first, last)) => {
                // SAFETY: it is in the chain, which owns its entries and their links.
                unsafe { entry_ref(last) }.set_next_part(here.as_ptr());
                Some((first, here))
            }
            None => None,
        };
    }

    /// Adds an entry whose link to the next part somebody else may use: the chain can't be split.
    #[inline]
    pub(crate) fn push_whole(&mut self, entry: Owned) {
        self.firsts = None;
        self.chain.push(entry);
    }

    /// Appends all entries of another chain. It can't be split any more.
    pub(crate) fn append(&mut self, other: Self) {
        self.firsts = None;
        self.chain.append(other.chain);
    }

    /// Splits off all but the first part. Returns `None` if there is only one.
    pub(crate) fn split_off(&mut self) -> Option<Self> {
        let (first, last_part) = self.firsts.filter(|_| self.len() > PART)?;
        // SAFETY: it is in the chain, which owns its entries and their links.
        let next = NonNull::new(unsafe { entry_ref(first) }.next_part())?;
        let rest = Chain { first: next.as_ptr(), last: self.chain.last, len: self.len() - PART, of: PhantomData };
        self.firsts = None;
        (self.chain.last, self.chain.len) = (ptr::null_mut(), PART);
        Some(Self { chain: rest, firsts: Some((next, last_part)) })
    }

    /// Returns the chain, for its entries to be taken off. It can't be split any more.
    #[inline]
    pub(crate) fn cut(&mut self) -> &mut Chain {
        self.firsts = None;
        &mut self.chain
    }
}
