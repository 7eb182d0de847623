//! Ownership of an entry, as values that each step takes over: [`Owned`] by the engine, and
//! [`Sole`] with nobody else.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use super::token::{Arrival, Listable, Stacked, Token};
use super::work::Work;
use super::{ArmFlags, EngineGone, Entry, Home, Link, Linked};
use crate::time::Subtick;

/// The engine's ownership of one entry that is in no list. The step that ends it takes it by value:
/// to [link](Self::link) the entry, to put it into a list or a queue, to claim it, or to
/// [let it go](Self::let_go). There is never more than one for an entry. What came out of a slot or
/// a side queue is one only after a look.
#[derive(Debug)]
#[must_use = "the entry is lost if no step takes it over"]
#[repr(transparent)]
pub(crate) struct Owned(NonNull<Entry>);

// SAFETY: the engine's ownership may be passed on between threads, and tasks are `Send`.
unsafe impl Send for Owned {}
// SAFETY: `repr(transparent)` around a `NonNull<Entry>`. An entry that somebody has in hand is in
// no list, so its `next` is free.
unsafe impl Token for Owned {}

// SAFETY: it is in no list.
unsafe impl Listable for Owned {}

// SAFETY: the engine's ownership is this value's.
unsafe impl Arrival for Owned {
    #[inline]
    fn as_owned(&self) -> &Owned {
        self
    }
}

// SAFETY: an arrival is in the inbox by its own link.
unsafe impl Stacked for Owned {
    #[inline]
    fn below(&self) -> Link {
        Entry::next(self)
    }
}

impl Owned {
    /// Sets the link by which it will be in the inbox.
    #[inline]
    pub(crate) fn set_below(&self, link: Link) {
        Entry::set_next(self, link);
    }
}

impl Owned {
    /// # Safety
    /// The entry was armed. The caller holds the engine's ownership of it, and hands that to this
    /// value. It is in no list. Its memory lives for as long as this value, which stays with its
    /// engine and its shard.
    #[inline]
    pub(crate) unsafe fn new(entry: NonNull<Entry>) -> Self {
        Self(entry)
    }

    /// Returns the address, for the entry's next owner.
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<Entry> {
        self.0
    }

    /// Marks an entry out of the inbox as linked, and gives it to the wheel, for the slot of its
    /// deadline. Returns it as it was if it was cancelled in the inbox: then the worker lets it go.
    #[inline]
    pub(crate) fn link(self) -> Result<(Linked, Subtick), Self> {
        match self.state.link() {
            Some(deadline) => Ok((Linked::at(self.into_raw()), deadline)),
            None => Err(self),
        }
    }

    /// Ends the engine's ownership of an entry that is not pending any more. Returns the entry if
    /// nobody else owns it: then the caller gives it back. The error is an entry that is pending,
    /// see [`EngineGone::NotYet`].
    #[inline]
    pub(crate) fn let_go(self) -> Result<Option<Sole>, Self> {
        match self.state.engine_lets_go() {
            EngineGone::OthersOwn => Ok(None),
            EngineGone::Last => Ok(Some(Sole(self))),
            EngineGone::NotYet => Err(self),
        }
    }
}

impl Deref for Owned {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        self.entry()
    }
}

/// An entry that nobody else owns, and that is in no list: a free one, or one that was never
/// published.
#[derive(Debug)]
#[must_use = "the entry is lost if it is not given back"]
#[repr(transparent)]
pub(crate) struct Sole(pub(super) Owned);

// SAFETY: `repr(transparent)` around an `Owned`: one address, of an entry that is in no list.
unsafe impl Token for Sole {}

// SAFETY: it is in no list.
unsafe impl Listable for Sole {}

impl Sole {
    /// # Safety
    /// The caller is the entry's only owner, and hands that to this value. The entry is in no list.
    /// Its memory lives for as long as this value, which stays with its engine.
    #[inline]
    pub(crate) unsafe fn new(entry: NonNull<Entry>) -> Self {
        Self(Owned(entry))
    }

    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<Entry> {
        self.0.into_raw()
    }

    /// Returns the link that it had in the list that it was in last.
    #[inline]
    pub(crate) fn next(&self) -> Link {
        Entry::next(self)
    }

    /// Sets the link by which it will be in a list. It is in none, so the link is the holder's.
    #[inline]
    pub(crate) fn set_next(&self, link: Link) {
        Entry::set_next(self, link);
    }

    /// Makes a pending timeout of the entry. `owners` says who owns it besides the engine.
    #[inline]
    pub(crate) fn arm<W: Work>(self, home: Home<'_>, work: W, deadline: Subtick, owners: ArmFlags) -> Armed<W> {
        self.fill(Some(home), work);
        self.state.arm(deadline, owners.and(W::FLAGS));
        Armed(self.0, PhantomData)
    }
}

impl Deref for Sole {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        &self.0
    }
}

/// An entry that was armed with a `W`, and that nobody but its holder has seen since.
#[derive(Debug)]
#[must_use = "the timeout is lost if it is not pushed"]
#[repr(transparent)]
pub(crate) struct Armed<W>(Owned, PhantomData<fn() -> W>);

// SAFETY: `repr(transparent)` around an `Owned`: one address, of an entry that is in no list.
unsafe impl<W> Token for Armed<W> {}

// SAFETY: it is in no list.
unsafe impl<W> Listable for Armed<W> {}

// SAFETY: the engine's ownership is this value's.
unsafe impl<W> Arrival for Armed<W> {
    #[inline]
    fn as_owned(&self) -> &Owned {
        &self.0
    }
}

impl<W: Work> Armed<W> {
    /// What the tombstone was that the engine has let go of, after it was armed.
    #[inline]
    pub(super) fn of(entry: Owned) -> Self {
        Self(entry, PhantomData)
    }

    /// Returns the address, for the handle of the timeout once it is pushed.
    #[inline]
    pub(crate) fn address(&self) -> NonNull<Entry> {
        self.0.0
    }

    /// Takes back [`Sole::arm`].
    pub(crate) fn take_back(self) -> (W, Sole) {
        let Self(entry, _) = self;
        entry.state.disarm();
        // SAFETY: nobody else has seen the entry, so the task is in it. It is of `W::put`, as
        // this value's type says.
        (unsafe { W::of_task(entry.take_task()) }, Sole(entry))
    }
}
