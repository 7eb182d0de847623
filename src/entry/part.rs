//! A few entries that one thread runs one after the other, and that another thread may take over.

use std::ptr::{self, NonNull};

use super::list::Chain;
use super::token::Token;
use super::{Entry, Marked};
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};

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
        // Release: pairs with the Acquire of whoever takes one, for the places.
        self.cursor.store(first, Ordering::Release);
    }

    /// Takes the first entry that is left.
    #[inline]
    pub(crate) fn take(&self) -> Option<Marked> {
        let place = self.cursor.fetch_add(1, Ordering::Acquire);
        self.at(place)
    }

    /// Takes all entries that are left.
    pub(crate) fn take_rest(&self) -> impl Iterator<Item = Marked> {
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
        let mut chain = Chain::new();
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
