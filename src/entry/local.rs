//! Entries of an engine that lives on one thread: a [local](crate::local) one. The thread that
//! schedules also cancels, resets and turns. So each step is a load and a store of the state word,
//! a cancelled entry leaves its slot at once, and there are no queues and no tombstones.
//!
//! The task of such an entry need not be `Send`. The values below are not `Send` either, and the
//! engine that they belong to never leaves its thread.

use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::task::Waker;

use super::outcome::{LocalClaim, LocalEnd, LocalReset};
use super::owned::{Linkable, Owned, Sole};
use super::queued::MaybeLinked;
use super::token::{Listable, Token};
use super::{ArmFlags, CameUp, Entry, Kind, Task, entry_ref};
use crate::time::Subtick;

/// Keeps a value on its thread.
type OnThisThread = PhantomData<*const ()>;

impl Sole {
    /// Makes a pending timeout of the entry, for a slot of the wheel. [`LocalHandle::of`] makes its
    /// handle, if `owners` has one.
    #[inline]
    pub(crate) fn arm_local(self, task: Task, deadline: Subtick, owners: ArmFlags) -> Linkable {
        self.fill(None, task);
        self.state.arm_linked(deadline, owners);
        Linkable(self.0)
    }
}

impl ArmFlags {
    /// Of the waker of a future that sleeps, which holds the handle.
    pub(crate) const LOCAL_SLEEPER: ArmFlags = ArmFlags::HANDLE.and(ArmFlags::SLEEPER);
}

/// The handle's ownership of an entry. Whoever drops it has [let it go](Self::let_go) before.
#[derive(Debug)]
#[must_use = "the entry is lost if the handle is not let go"]
pub(crate) struct LocalHandle(NonNull<Entry>, OnThisThread);

/// As its engine is.
impl UnwindSafe for LocalHandle {}
impl RefUnwindSafe for LocalHandle {}

/// A timeout that was cancelled: its task, and the entry if it has to be taken out of its slot.
pub(crate) struct LocalCancelled {
    pub(crate) task: Task,
    pub(crate) linked: Option<MaybeLinked>,
}

impl LocalHandle {
    /// # Safety
    /// The entry was armed with [`ArmFlags::HANDLE`], and this is called once for it. Its memory
    /// lives for as long as this value.
    #[inline]
    pub(crate) unsafe fn of(armed: &Linkable) -> Self {
        Self(NonNull::from(&**armed), PhantomData)
    }

    #[inline]
    fn entry(&self) -> &Entry {
        // SAFETY: `of` was told that the memory lives as long as this value, which owns a part of
        // the entry until `let_go`.
        unsafe { entry_ref(self.0) }
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.entry().state.is_pending()
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.entry().state.is_expired()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.entry().state.is_cancelled()
    }

    pub(crate) fn deadline(&self) -> Subtick {
        self.entry().deadline()
    }

    /// Cancels the timeout. Returns `None` if it was not pending.
    #[inline]
    pub(crate) fn cancel(&self) -> Option<LocalCancelled> {
        let linked = match self.entry().state.cancel_here() {
            LocalEnd::TooLate => return None,
            // SAFETY: the entry was just cancelled, and it was in a slot, from which the caller
            // takes it. The task is moved out below, and the handle keeps the entry.
            LocalEnd::OutOfSlot => Some(unsafe { MaybeLinked::new(self.0) }),
            LocalEnd::InBatch => None,
        };
        // SAFETY: this call took the entry out of PENDING.
        Some(LocalCancelled { task: unsafe { self.entry().take_task() }, linked })
    }

    /// Moves the deadline. Returns `None` if the timeout is not pending. If the deadline is an
    /// earlier one, returns the entry, to be linked anew.
    #[inline]
    pub(crate) fn reset(&self, deadline: Subtick) -> Option<Option<MaybeLinked>> {
        match self.entry().state.reset_here(deadline) {
            LocalReset::TooLate => None,
            LocalReset::Later => Some(None),
            // SAFETY: the entry is in a slot, from which the caller takes it. It was not cancelled,
            // and nobody looks at the link that a queue would put in the task's place, because it
            // goes through no queue.
            LocalReset::Earlier => Some(Some(unsafe { MaybeLinked::new(self.0) })),
        }
    }

    /// Returns the waker of a future that sleeps.
    ///
    /// # Safety
    /// The entry was armed with a task of [`Task::waker`], and is pending. It stays so while the
    /// caller uses the reference.
    pub(crate) unsafe fn waker(&self) -> &Waker {
        // SAFETY: the captures are a `Waker`, which the entry's end alone moves out.
        self.entry().captures.with(|place| unsafe { &*place.cast::<Waker>() })
    }

    /// Puts another waker into the entry of a future that sleeps, and returns the one before.
    ///
    /// # Safety
    /// As for [`waker`](Self::waker).
    pub(crate) unsafe fn replace_waker(&self, waker: Waker) -> Task {
        // SAFETY: the entry is pending, so its task is in it. It is put in again below.
        let before = unsafe { self.entry().take_task() };
        self.entry().put_task(Task::waker(waker));
        before
    }

    /// Ends the handle. Returns the entry if nobody else owns it.
    #[inline]
    pub(crate) fn let_go(self) -> Option<Sole> {
        // SAFETY: if the engine has given the entry up, the handle was the last owner.
        self.entry().state.handle_lets_go_here().then(|| unsafe { Sole::new(self.0) })
    }
}

/// An entry that has come up and is due, on its way to be run in this turn.
#[derive(Debug)]
#[must_use = "the timeout is lost if no step takes it over"]
#[repr(transparent)]
pub(crate) struct LocalDue(Owned);

// SAFETY: `repr(transparent)` around an `Owned`: one address. The entry is in no slot, so its link
// is free.
unsafe impl Token for LocalDue {}

impl Listable for LocalDue {}

/// What a turn finds when it comes to an entry.
pub(crate) enum LocalRun {
    /// It is due: the task, and the entry if it is free now.
    Run(Task, Option<Sole>),
    /// It was reset: it is linked for this deadline.
    NotBefore(Linkable, Subtick),
    /// It was cancelled: the entry if it is free now.
    Cancelled(Option<Sole>),
}

impl CameUp {
    /// Marks the entry for the turn that runs it, if it is due by `now`. Otherwise it is linked
    /// again for the deadline that is returned.
    #[inline]
    pub(crate) fn due_here(self, now: Subtick) -> Result<LocalDue, (Linkable, Subtick)> {
        match self.0.state.batch_here(now) {
            Ok(()) => Ok(LocalDue(self.0)),
            Err(deadline) => Err((Linkable(self.0), deadline)),
        }
    }
}

impl LocalDue {
    /// Claims the timeout, unless it was cancelled or reset since it came up.
    #[inline]
    pub(crate) fn claim(self, now: Subtick) -> LocalRun {
        let entry = self.0;
        match entry.state.claim_here(now) {
            LocalClaim::NotBefore(deadline) => LocalRun::NotBefore(Linkable(entry), deadline),
            LocalClaim::Cancelled { is_held } => LocalRun::Cancelled(free(entry, is_held)),
            LocalClaim::Run { is_held } => {
                // SAFETY: this call took the entry out of PENDING.
                let task = unsafe { entry.take_task() };
                LocalRun::Run(task, free(entry, is_held))
            }
        }
    }
}

impl Linkable {
    /// Takes a pending entry, which has come out of its slot, for the end of its engine.
    pub(crate) fn set_aside(self) -> LocalDue {
        self.state.set_aside_here();
        LocalDue(self.0)
    }

    /// Gives back an entry that a cancel has taken out of its slot. Its handle holds it.
    #[inline]
    pub(crate) fn leave_to_handle(self) {
        debug_assert!(!self.state.is_pending());
    }
}

impl LocalDue {
    /// Ends the timeout because its engine ends, unless it was cancelled since it was set aside.
    /// Returns its kind and its task, and the entry if it is free now.
    pub(crate) fn end(self) -> (Option<(Kind, Task)>, Option<Sole>) {
        let entry = self.0;
        let kind = entry.snapshot().kind();
        let (was_pending, is_held) = entry.state.end_here();
        // SAFETY: this call took the entry out of PENDING.
        let task = was_pending.then(|| (kind, unsafe { entry.take_task() }));
        (task, free(entry, is_held))
    }
}

/// Returns the entry, which the engine has given up, if no handle holds it.
#[inline]
fn free(entry: Owned, is_held: bool) -> Option<Sole> {
    // SAFETY: the engine has given the entry up, and there is no other owner.
    (!is_held).then(|| unsafe { Sole::new(entry.into_raw()) })
}
