//! Ownership of an entry, as values that each step takes over: [`Owned`] by the engine, and
//! [`Sole`] with nobody else.

use std::ops::Deref;
use std::ptr::NonNull;

use super::token::{Listable, Queued, Token};
use super::work::Work;
use super::{ArmFlags, EngineGone, Entry, Expire, Home, Kind, Link, Snapshot, Task, TaskInPlace, Transfer};
use crate::time::Subtick;

/// The engine's ownership of one entry that is in no list. The step that ends it takes it by value:
/// to [link](Self::link) the entry, to put it into a list or a queue, to
/// [claim](LookedOnce::claim) it, or to [let it go](Self::let_go). There is never more than one for
/// an entry. What came out of a slot or a queue is one only after a look.
#[derive(Debug)]
#[must_use = "the entry is lost if no step takes it over"]
#[repr(transparent)]
pub(crate) struct Owned(NonNull<Entry>);

// SAFETY: the engine's ownership may be passed on between threads, and tasks are `Send`.
unsafe impl Send for Owned {}
// SAFETY: transparent. An entry that somebody has in hand is in no list, so its `next` is free.
unsafe impl Token for Owned {}

impl Listable for Owned {}

impl Queued for Owned {
    const ASIDE: bool = false;
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

    /// Sets the link by which it will be in a list. It is in none, so the link is the holder's.
    #[inline]
    pub(crate) fn set_next(&self, link: Link) {
        Entry::set_next(self, link);
    }

    /// Takes back [`Sole::arm`].
    ///
    /// # Safety
    /// The entry was armed, and no other thread has seen it since.
    pub(crate) unsafe fn disarm(self) -> (Task, Sole) {
        self.state.disarm();
        // SAFETY: no other thread has seen the entry, so the task is in it.
        (unsafe { self.take_task() }, Sole(self))
    }

    /// Looks at the word, for a step that depends on it.
    #[inline]
    pub(crate) fn look(self) -> Looked {
        let seen = self.state.load();
        Looked { entry: self, seen }
    }

    /// Marks an entry out of the inbox as linked, if it is still pending.
    #[inline]
    pub(crate) fn link(self) -> Linking {
        match self.state.link() {
            Transfer::Pending(deadline) => Linking::Pending(Linkable(self), deadline),
            Transfer::Cancelled => Linking::Cancelled(self),
        }
    }

    /// Ends the engine's ownership of an entry that is not pending any more.
    #[inline]
    pub(crate) fn let_go(self) -> LetGo {
        match self.state.engine_lets_go() {
            EngineGone::OthersOwn => LetGo::OthersOwn,
            EngineGone::Last => LetGo::Last(Sole(self)),
            EngineGone::NotYet => LetGo::NotYet(self),
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

/// What the engine finds when it lets an entry go.
pub(crate) enum LetGo {
    /// The handle, or a group, or the producer whose tombstone it is, still owns the entry.
    OthersOwn,
    /// Nobody else does. The caller gives the entry back.
    Last(Sole),
    /// The entry is pending: see [`EngineGone::NotYet`].
    NotYet(Owned),
}

/// What the worker found when it took an entry out of the inbox.
pub(crate) enum Linking {
    /// It is pending, and goes into the wheel for this deadline.
    Pending(Linkable, Subtick),
    /// It was cancelled in the inbox: the worker lets it go.
    Cancelled(Owned),
}

/// An entry that is marked as linked, and is on its way into a slot of its shard's wheel.
#[derive(Debug)]
#[must_use = "the entry is lost if it goes into no slot"]
#[repr(transparent)]
pub(crate) struct Linkable(pub(super) Owned);

// SAFETY: as an `Owned`, around which it is.
unsafe impl Token for Linkable {}

impl Linkable {
    /// Returns an entry that does not go into a slot again.
    ///
    /// # Safety
    /// The entry is not on its way through a queue of its shard, or that is closed, and what is in
    /// it will not be looked at.
    #[inline]
    pub(crate) unsafe fn into_owned(self) -> Owned {
        self.0
    }
}

impl Deref for Linkable {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        &self.0
    }
}

/// An entry, and its word as the engine has seen it.
#[must_use = "the entry is lost if no step takes it over"]
pub(crate) struct Looked {
    pub(super) entry: Owned,
    pub(super) seen: Snapshot,
}

impl Looked {
    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        self.seen.kind()
    }

    #[inline]
    pub(crate) fn deadline(&self) -> Subtick {
        self.seen.deadline()
    }

    #[inline]
    pub(crate) fn into_owned(self) -> Owned {
        self.entry
    }

    /// Returns it as one that runs once, or as it is if it does not.
    #[inline]
    pub(crate) fn once(self) -> Result<LookedOnce, Self> {
        if self.kind() == Kind::Once { Ok(LookedOnce(self)) } else { Err(self) }
    }
}

/// A timeout that runs once.
#[must_use = "the entry is lost if no step takes it over"]
pub(crate) struct LookedOnce(pub(super) Looked);

impl LookedOnce {
    #[inline]
    pub(crate) fn into_owned(self) -> Owned {
        self.0.entry
    }

    /// Claims the timeout if it is due. Then calls `run` with its deadline, its task, and the entry
    /// if nobody else owns that any more.
    ///
    /// The task stays in the place of its copy: to move it would cost a second copy each time.
    #[inline(always)]
    pub(crate) fn claim(
        self,
        now: Subtick,
        run: impl FnOnce(Subtick, TaskInPlace<'_>, Option<Sole>),
    ) -> Result<(), (Owned, Expire)> {
        let Looked { entry, seen } = self.0;
        // SAFETY: 1. The entry is the engine's, and its kind says that it has no sleeper. 2. The
        // copy is the task once this call has claimed the entry, after it made the copy.
        unsafe {
            let mut copy = entry.copy_task();
            let last = match entry.state.claim(seen, now) {
                Expire::Fire => None,
                Expire::FireLast => Some(Sole(entry)),
                other => return Err((entry, other)),
            };
            run(seen.deadline(), copy.as_task(), last);
        }
        Ok(())
    }
}

/// An entry that nobody else owns, and that is in no list: a free one, a node of the reset queue,
/// or one that was never published.
#[derive(Debug)]
#[must_use = "the entry is lost if it is not given back"]
#[repr(transparent)]
pub(crate) struct Sole(Owned);

// SAFETY: as an `Owned`, around which it is.
unsafe impl Token for Sole {}

impl Listable for Sole {}

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
        self.0.set_next(link);
    }

    /// Makes a pending timeout of the entry. `owners` says who owns it besides the engine.
    #[inline]
    pub(crate) fn arm<W: Work>(self, home: Home<'_>, work: W, deadline: Subtick, owners: ArmFlags) -> Owned {
        self.fill(Some(home), work.into_task());
        self.state.arm(deadline, owners.of::<W>());
        self.0
    }
}

impl Deref for Sole {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        &self.0
    }
}
