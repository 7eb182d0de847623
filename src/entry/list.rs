//! Lists of entries, which allocate nothing: a [`Chain`] through their own links, and a [`Part`],
//! from which other threads may take. They hold values that say whose an entry is: see [`Token`]. A
//! list or a queue keeps such a value as an address, and makes the value again when it gives it
//! out.

use std::marker::PhantomData;
use std::mem::transmute_copy;
use std::ptr::{self, NonNull};

use super::{Entry, Held, Link, Marked};
use crate::sync::{AtomicPtr, AtomicUsize, Ordering, prefetch};

/// A value that is the address of an entry, with a promise of whose the entry is.
///
/// # Safety
/// The type is a transparent one around the address. A value that is put into a list owns the
/// entry's link of that list.
pub(crate) unsafe trait Token: Sized {
    /// Returns the address. The value keeps what it owns.
    #[inline]
    fn address(&self) -> NonNull<Entry> {
        const { assert!(size_of::<Self>() == size_of::<Link>()) };
        // SAFETY: an implementor promises `repr(transparent)` around one `NonNull<Entry>`. So both
        // types have the size and the bits of one address.
        unsafe { transmute_copy(self) }
    }

    /// Returns the entry, to the values and the lists of this layer.
    #[inline]
    fn entry(&self) -> &Entry {
        // SAFETY: it is the address of the entry that this value owns a part of, and so keeps
        // alive. All fields have interior mutability: shared references never conflict.
        unsafe { self.address().as_ref() }
    }

    /// Returns the address, with all that the value owned.
    #[inline]
    fn into_raw(self) -> NonNull<Entry> {
        self.address()
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

/// A value that comes out of a queue of a shard, which is a stack.
///
/// # Safety
/// `below` is the link by which the entry was in the queue.
pub(crate) unsafe trait Stacked: Token + Send {
    fn below(&self) -> Link;
}

/// Entries in the order in which they were pushed. They are [`Held`], so that none is in another
/// list.
#[derive(Debug)]
pub(crate) struct Chain<T> {
    first: Link,
    /// Not valid if there is none.
    last: Link,
    len: usize,
    of: PhantomData<T>,
}

// SAFETY: a chain is the values that were pushed.
unsafe impl<T: Send> Send for Chain<T> {}

impl<S> Default for Chain<Held<S>> {
    fn default() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut(), len: 0, of: PhantomData }
    }
}

impl<S> Chain<Held<S>> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Held<S>) {
        let entry = entry.into_raw().as_ptr();
        self.join(entry, entry, 1);
    }

    /// Adds an entry before all others.
    #[inline]
    pub(crate) fn push_front(&mut self, entry: Held<S>) {
        let others = std::mem::take(self);
        self.push(entry);
        self.append(others);
    }

    /// Splits off the first `len` entries, or all if there are fewer. Goes through them.
    pub(crate) fn split_off_front(&mut self, len: usize) -> Self {
        if len >= self.len {
            return std::mem::take(self);
        }
        let mut front = Self::default();
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
        self.set_end(first);
        self.last = last;
        self.len += len;
    }

    /// Returns the entry that was pushed first, for a list that the chain goes into.
    pub(crate) fn as_link(&self) -> Option<Link> {
        (self.len > 0).then_some(self.first)
    }

    /// Sets what comes after the entry that was pushed last, for a list that the chain goes into.
    #[inline]
    pub(crate) fn set_end(&mut self, link: Link) {
        if self.len > 0 {
            // SAFETY: the chain has a last entry, and owns its entries, whose fields have interior
            // mutability.
            unsafe { &*self.last }.next.set(link);
        } else {
            self.first = link;
        }
    }

    /// Takes off the entry that was pushed first.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Held<S>> {
        // The link of the last entry is not valid.
        self.len = self.len.checked_sub(1)?;
        let entry = NonNull::new(self.first)?;
        // SAFETY: `push` got the value, and it is given out once, as it is in the chain no more.
        let entry = unsafe { Held::from_raw(entry) };
        self.first = entry.next();
        prefetch(self.first);
        Some(entry)
    }
}

/// Up to `N` entries in their order. Each goes to the thread that moves the cursor past it, by one
/// read-modify-write.
#[derive(Debug)]
pub(crate) struct Part<const N: usize> {
    /// The place of the first entry that nobody has taken. `N` or more if none is left.
    cursor: AtomicUsize,
    /// The last of these places are filled.
    entries: [AtomicPtr<Entry>; N],
}

impl<const N: usize> Part<N> {
    pub(crate) fn new() -> Self {
        Self { cursor: AtomicUsize::new(N), entries: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) }
    }

    /// Takes the first entries of a chain in.
    ///
    /// # Safety
    /// None is left in it, and no other thread uses it during the call.
    pub(crate) unsafe fn fill(&self, from: &mut Chain<Marked>) {
        let first = N - from.len().min(N);
        for place in &self.entries[first..] {
            let Some(entry) = from.pop() else { break };
            place.store(entry.into_raw().as_ptr(), Ordering::Relaxed);
        }
        // Release: pairs with the Acquire of the thread that takes one, for the places.
        self.cursor.store(first, Ordering::Release);
    }

    /// Takes the first entry that is left.
    #[inline]
    pub(crate) fn take(&self) -> Option<Marked> {
        // Acquire: pairs with the Release in `fill`, for the places. Each take is a
        // read-modify-write, so it continues that release sequence.
        let place = self.cursor.fetch_add(1, Ordering::Acquire);
        self.at(place)
    }

    /// Takes all entries that are left.
    pub(crate) fn take_rest(&self) -> impl Iterator<Item = Marked> {
        // Acquire: as in `take`.
        (self.cursor.swap(N, Ordering::Acquire)..N).filter_map(|place| self.at(place))
    }

    /// Returns the entry at a place that this call alone has moved the cursor past.
    #[inline]
    fn at(&self, place: usize) -> Option<Marked> {
        let entry = NonNull::new(self.entries.get(place)?.load(Ordering::Relaxed))?;
        // SAFETY: `fill` put it there, out of a chain, and the cursor gives each place out once.
        Some(unsafe { Marked::from_raw(entry) })
    }

    /// Returns how many places the cursor has passed, or `None` if none is left.
    pub(crate) fn passed(&self) -> Option<usize> {
        let cursor = self.cursor.load(Ordering::Relaxed);
        (cursor < N).then_some(cursor)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn chain(entries: &[Entry]) -> Chain<Marked> {
        let mut chain = Chain::default();
        // SAFETY: the test owns them, and they are in no list.
        entries.iter().for_each(|entry| chain.push(unsafe { Marked::from_raw(NonNull::from(entry)) }));
        chain
    }

    fn is(taken: Option<Marked>, entry: &Entry) -> bool {
        taken.is_some_and(|taken| taken.into_raw() == NonNull::from(entry))
    }

    #[test]
    fn its_entries_come_out_in_order_to_whoever_takes_them() {
        let entries = [(); 7].map(|()| Entry::new_free());
        let (part, mut from) = (Part::<4>::new(), chain(&entries));
        assert!(part.take().is_none() && part.passed().is_none());
        // SAFETY: it is empty, and there is one thread.
        unsafe { part.fill(&mut from) };
        assert!(is(part.take(), &entries[0]) && part.passed() == Some(1));
        let mut rest = part.take_rest();
        assert!((1..4).all(|n| is(rest.next(), &entries[n])) && rest.next().is_none());
        assert!(part.take().is_none() && part.take_rest().next().is_none());
        // SAFETY: it is empty, and there is one thread.
        unsafe { part.fill(&mut from) };
        assert!((4..7).all(|n| is(part.take(), &entries[n])) && part.take().is_none());
    }
}
