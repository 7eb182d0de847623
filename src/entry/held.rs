//! Ownership of an entry, as values that each step takes over.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use super::token::{Listable, Token};
use super::{Entry, Link};

/// The engine's ownership of one entry, which is in no list, so its link `next` is the holder's.
/// `S` says what else holds for the entry, and so which steps may follow. The step that ends that
/// takes the value. There is never more than one for an entry.
#[must_use = "the entry is lost if no step takes it over"]
#[repr(transparent)]
pub(crate) struct Held<S>(NonNull<Entry>, PhantomData<S>);

/// What holds for a [`Held`] entry.
pub(crate) mod is {
    pub(crate) enum Owned {}
    pub(crate) enum Sole {}
    pub(crate) struct Armed<W>(std::marker::PhantomData<fn() -> W>);
    /// Fits this one lifetime, neither a longer one nor a shorter one.
    pub(crate) struct FromSlot<'w>(std::marker::PhantomData<fn(&'w ()) -> &'w ()>);
    pub(crate) enum Marked {}
    pub(crate) enum Won {}
    pub(crate) enum Running {}
    pub(crate) enum Emptied {}
}

/// It was armed, and nothing else is known of it.
pub(crate) type Owned = Held<is::Owned>;

/// Nobody else owns it: it is free, or was never published.
pub(crate) type Sole = Held<is::Sole>;

/// It was armed with a `W`, and nobody but its holder has seen it since.
pub(crate) type Armed<W> = Held<is::Armed<W>>;

/// The worker has taken it out of its slot, because its time has come up. The state word names the
/// owner. If it was cancelled meanwhile, the cancelled queue or the moved queue brings it. It may
/// go back into the wheel that it came out of.
///
/// No other value has this lifetime, so it can't be kept while the wheel goes on.
pub(crate) type FromSlot<'w> = Held<is::FromSlot<'w>>;

/// It becomes no tombstone, also when it is pushed again: it was due, and is marked for a batch; or
/// it is a periodic timeout's, armed again. It is pending, or was cancelled or put off since. It is
/// no future's.
pub(crate) type Marked = Held<is::Marked>;

/// Its holder took it out of PENDING for good, with the task in it, which is the holder's.
pub(crate) type Won = Held<is::Won>;

/// A run of a periodic timeout has begun, and the task in it is the holder's.
pub(crate) type Running = Held<is::Running>;

/// The same, and the task is out.
pub(crate) type Emptied = Held<is::Emptied>;

// SAFETY: the engine's ownership may be passed on between threads, and tasks are `Send`.
unsafe impl<S> Send for Held<S> {}
// SAFETY: `repr(transparent)` around a `NonNull<Entry>`. An entry that somebody has in hand is in
// no list, so its `next` is free.
unsafe impl<S> Token for Held<S> {}

// SAFETY: it is in no list.
unsafe impl<S> Listable for Held<S> {}

impl<S> Held<S> {
    /// The caller holds the entry, and what `S` says holds for it.
    #[inline]
    pub(super) fn of(entry: NonNull<Entry>) -> Self {
        Self(entry, PhantomData)
    }

    /// From here on, what `T` says holds for the entry.
    #[inline]
    pub(super) fn becomes<T>(self) -> Held<T> {
        Held::of(self.0)
    }

    /// Returns the address, for the entry's next owner.
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<Entry> {
        self.0
    }

    /// Returns the link that it had in the list that it was in last.
    #[inline]
    pub(crate) fn next(&self) -> Link {
        Entry::next(self)
    }

    /// Sets the link by which it will be in a list.
    #[inline]
    pub(crate) fn set_next(&self, link: Link) {
        Entry::set_next(self, link);
    }
}

impl<S> Deref for Held<S> {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        self.entry()
    }
}

impl<S> fmt::Debug for Held<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.0).finish()
    }
}
