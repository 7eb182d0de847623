//! The steps before a timeout is due.

use std::ptr::NonNull;

use super::held::{Armed, Owned, Sole};
use super::token::Stacked;
use super::work::Work;
use super::{ArmFlags, EngineGone, Entry, Home, Link, Linked};
use crate::time::Subtick;

// SAFETY: it is in the inbox by its own link.
unsafe impl Stacked for Owned {
    #[inline]
    fn below(&self) -> Link {
        self.next()
    }
}

impl Owned {
    /// # Safety
    /// The entry was armed. The caller holds the engine's ownership of it, and hands that to this
    /// value. It is in no list. Its memory lives for as long as this value, which stays with its
    /// engine and its shard.
    #[inline]
    pub(crate) unsafe fn new(entry: NonNull<Entry>) -> Self {
        Self::of(entry)
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
            EngineGone::Last => Ok(Some(self.becomes())),
            EngineGone::NotYet => Err(self),
        }
    }
}

impl Sole {
    /// # Safety
    /// The caller is the entry's only owner, and hands that to this value. The entry is in no list.
    /// Its memory lives for as long as this value, which stays with its engine.
    #[inline]
    pub(crate) unsafe fn new(entry: NonNull<Entry>) -> Self {
        Self::of(entry)
    }

    /// Makes a pending timeout of the entry. `owners` says who owns it besides the engine.
    #[inline]
    pub(crate) fn arm<W: Work>(self, home: Home<'_>, work: W, deadline: Subtick, owners: ArmFlags) -> Armed<W> {
        self.fill(Some(home), work);
        self.state.arm(deadline, owners.and(W::FLAGS));
        self.becomes()
    }
}

impl<W: Work> Armed<W> {
    /// Returns the address, for the handle of the timeout once it is pushed.
    #[inline]
    pub(crate) fn address(&self) -> NonNull<Entry> {
        NonNull::from(&**self)
    }

    /// Takes back [`Sole::arm`].
    pub(crate) fn take_back(self) -> (W, Sole) {
        self.state.disarm();
        // SAFETY: nobody else has seen the entry, so the task is in it. It is of `W::put`, as
        // this value's type says.
        (unsafe { W::of_task(self.take_task()) }, self.becomes())
    }
}
