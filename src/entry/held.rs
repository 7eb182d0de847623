//! Ownership of an entry, as values that each step takes over: first the values, then the steps
//! before a timeout is due, and then the steps of the thread that has the task.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use super::list::{Stacked, Token};
use super::task::Work;
use super::{ArmFlags, EngineGone, Entry, Home, Kind, Link, Linked, Snapshot, Task, TaskInPlace};
use crate::time::Subtick;

/// The engine's ownership of one entry, which is in no list, so its link `next` is the holder's.
/// `S` says what else holds for the entry, and so which steps may follow. The step that ends that
/// takes the value. There is never more than one for an entry.
#[must_use = "the entry is lost if no step takes it over"]
#[repr(transparent)]
pub(crate) struct Held<S>(NonNull<Entry>, PhantomData<S>);

/// The states of a [`Held`] entry, as marker types.
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
/// owner. If it was cancelled meanwhile, the cancelled queue or the moved queue brings it, or it is
/// a tombstone. It may go back into the wheel that it came out of.
///
/// No other value has this lifetime, so it can't be kept while the wheel goes on.
pub(crate) type FromSlot<'w> = Held<is::FromSlot<'w>>;

/// It becomes no tombstone, also when it is pushed again: it was due, and is marked; or it is a
/// periodic timeout's, armed again. It is pending, or was cancelled or put off since. It is
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

    /// Returns the link that it had in the list that it was in last.
    #[inline]
    pub(crate) fn next(&self) -> Link {
        self.next.get()
    }

    /// Sets the link by which it will be in a list.
    #[inline]
    pub(crate) fn set_next(&self, link: Link) {
        self.next.set(link);
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
            Some(deadline) => Ok((Linked(self.into_raw()), deadline)),
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
    /// Takes back [`Sole::arm`].
    pub(crate) fn take_back(self) -> (W, Sole) {
        self.state.disarm();
        // SAFETY: nobody else has seen the entry, so the task is in it. It is of `W::put`, as
        // this value's type says.
        (unsafe { W::of_task(self.take_task()) }, self.becomes())
    }
}

/// A timeout that a shutdown has withdrawn, or fires whatever its deadline.
pub(crate) enum EndedEarly<T> {
    /// It goes into the shutdown's answer, or runs in a batch.
    Task(T),
    /// Its waker is the holder's to call, or `None` if its future is awake, and needs nobody.
    Wake(Option<Won>),
}

impl Owned {
    /// Takes the timeout out of PENDING, for the answer of a shutdown. It is in no slot. Returns
    /// the entry as it was if a cancel was first.
    pub(crate) fn withdraw(self) -> Result<EndedEarly<Won>, Self> {
        let ended = self.state.withdraw();
        self.ended_early(ended)
    }

    /// Takes a timeout for a shutdown that runs what is left. It is in no slot. Returns it if it
    /// was cancelled.
    pub(crate) fn fire(self) -> Result<EndedEarly<Marked>, Self> {
        let ended = self.state.fire();
        self.ended_early(ended)
    }

    /// Returns whose a timeout is that a shutdown ends, by what a step of its word has just come
    /// to.
    fn ended_early<S>(self, ended: Option<Snapshot>) -> Result<EndedEarly<Held<S>>, Self> {
        match ended {
            Some(word) if word.kind() != Kind::Waker => Ok(EndedEarly::Task(self.becomes())),
            // If it is changing, the entry is the engine's no more.
            Some(word) => Ok(EndedEarly::Wake((!word.is_changing()).then(|| self.becomes()))),
            None => Err(self),
        }
    }
}

impl Won {
    /// Returns the deadline for which it has expired, or `None` if a shutdown has withdrawn it.
    #[inline]
    pub(crate) fn expired(&self) -> Option<Subtick> {
        let word = self.snapshot();
        (!word.is_cancelled()).then(|| word.deadline())
    }

    /// Moves the task out.
    #[inline]
    pub(crate) fn take_task(self) -> (Task, Owned) {
        // SAFETY: the task is this value's, which ends here.
        (unsafe { Entry::take_task(&self) }, self.becomes())
    }

    /// Calls `then` with the entry, and `run` with the task in the place of its copy.
    #[inline]
    pub(crate) fn run_in_place(self, then: impl FnOnce(Owned), run: impl FnOnce(TaskInPlace<'_>)) {
        // SAFETY: the task is this value's, which ends here. So the copy is the task.
        unsafe {
            let mut copy = self.copy_task();
            then(self.becomes());
            run(TaskInPlace::new(&mut copy));
        }
    }
}

impl Running {
    /// Takes the task out, to run it. Called once.
    pub(crate) fn take_task(self) -> (Task, Emptied) {
        // SAFETY: the run has begun, so the task is this value's, which ends here.
        (unsafe { Entry::take_task(&self) }, self.becomes())
    }
}

impl Emptied {
    /// Puts the task back, and makes the timeout pending again, for `next`, unless a reset has set
    /// another deadline. Returns the entry to be pushed, or, if the timeout was cancelled, the
    /// entry to be cleared away.
    pub(crate) fn rearm(self, task: Task, next: Subtick) -> Result<Marked, Won> {
        self.put_task(task);
        if self.state.rearm(next) { Ok(self.becomes()) } else { Err(self.becomes()) }
    }

    /// Ends the timeout, whose task is not put back: calls `finish` before others can see that, or
    /// not at all if it was cancelled meanwhile.
    pub(crate) fn end(self, finish: impl FnOnce()) -> Owned {
        if self.state.begin_end() {
            finish();
            self.state.end_series();
        }
        self.becomes()
    }
}
