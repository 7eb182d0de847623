//! Ownership of an entry, as values that each step takes over: [`Owned`] by the engine, [`Won`]
//! with its task, [`Sole`] with nobody else.

use std::ops::Deref;
use std::ptr::NonNull;

use super::{ArmFlags, EngineGone, Entry, Home, Link, Task};
use crate::time::Subtick;

/// The engine's ownership of one entry that is in no list. The worker takes it out of a queue or a
/// slot, and the step that ends it takes it by value: to link the entry, to put it into a batch, to
/// push it again, or to [let it go](Self::let_go).
///
/// There is one case in which two of these name one entry. A linked entry that is cancelled is in
/// its slot and in the cancelled queue. Both are the worker's, so one thread has both. What came
/// out of the slot it [leaves to the queue](Self::leave_to_its_queue).
#[derive(Debug)]
#[must_use = "the entry is lost if no step takes it over"]
#[repr(transparent)]
pub(crate) struct Owned(NonNull<Entry>);

// SAFETY: the engine's ownership may be passed on between threads, and tasks are `Send`.
unsafe impl Send for Owned {}

impl Owned {
    /// # Safety
    /// The caller holds the engine's ownership of the entry, which is in no list, and hands it to
    /// this value. The entry's memory lives for as long as this value.
    #[inline]
    pub(crate) unsafe fn new(entry: NonNull<Entry>) -> Self {
        Self(entry)
    }

    /// Returns the address, for a list that the entry goes into, or for the entry's next owner.
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<Entry> {
        self.0
    }

    #[inline]
    pub(crate) fn as_link(&self) -> Link {
        self.0.as_ptr()
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

    /// Says that a queue has the engine's ownership of the entry, which was cancelled, or reset to
    /// an earlier deadline.
    #[inline]
    pub(crate) fn leave_to_its_queue(self) {}

    /// # Safety
    /// The engine was the entry's last owner.
    #[inline]
    pub(crate) unsafe fn into_sole(self) -> Sole {
        Sole(self)
    }

    /// Takes the timeout out of PENDING, for the answer of a shutdown. Returns the entry as it was
    /// if a cancel was first.
    pub(crate) fn withdraw(self) -> Result<Won, Self> {
        if self.state.withdraw() { Ok(Won(self)) } else { Err(self) }
    }

    /// Takes the timeout out of PENDING to run it, whatever its deadline. Returns the entry as it
    /// was if a cancel was first.
    pub(crate) fn expire_early(self) -> Result<Won, Self> {
        if self.state.expire_early() { Ok(Won(self)) } else { Err(self) }
    }
}

impl Deref for Owned {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        // SAFETY: this value holds the engine's ownership, which keeps the entry alive. All fields
        // have interior mutability, so shared references never conflict.
        unsafe { self.0.as_ref() }
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

/// An entry that its holder took out of PENDING, with the task in it. The task is the holder's, and
/// so is the engine's ownership.
#[derive(Debug)]
#[must_use = "the task is lost if no step takes it over"]
#[repr(transparent)]
pub(crate) struct Won(Owned);

impl Won {
    /// # Safety
    /// The caller took the entry out of PENDING, or got it from the thread that did. The task is in
    /// it, and the caller's.
    #[inline]
    pub(crate) unsafe fn new(entry: Owned) -> Self {
        Self(entry)
    }

    /// Returns the entry, for a list of such entries.
    #[inline]
    pub(crate) fn into_owned(self) -> Owned {
        self.0
    }

    /// Moves the task out.
    #[inline]
    pub(crate) fn take_task(self) -> (Task, Owned) {
        // SAFETY: the task is this value's, which ends here.
        (unsafe { self.0.take_task() }, self.0)
    }

    /// Puts a task back, after its run.
    pub(crate) fn put_back(task: Task, entry: Owned) -> Self {
        entry.put_task(task);
        Self(entry)
    }
}

impl Deref for Won {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        &self.0
    }
}

/// An entry that nobody else owns, and that is in no list: a free one, a node of the reset queue,
/// or one that was never published.
#[derive(Debug)]
#[must_use = "the entry is lost if it is not given back"]
#[repr(transparent)]
pub(crate) struct Sole(Owned);

impl Sole {
    /// # Safety
    /// The caller is the entry's only owner, and hands that to this value. The entry is in no list,
    /// and its memory lives for as long as this value.
    #[inline]
    pub(crate) unsafe fn new(entry: NonNull<Entry>) -> Self {
        Self(Owned(entry))
    }

    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<Entry> {
        self.0.into_raw()
    }

    /// Makes a pending timeout of the entry. `flags` says who owns it besides the engine.
    #[inline]
    pub(crate) fn arm(self, home: Home<'_>, task: Task, deadline: Subtick, flags: ArmFlags) -> Owned {
        self.fill(Some(home), task);
        self.state.arm(deadline, flags);
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
