//! A producer's ownership of an entry, as values: the handle of a timeout, and the tombstone that
//! its entry may become, which `thread/tombstones.rs` keeps. The step that ends one takes it.

use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::task::Waker;

use super::list::Token;
use super::task::Work;
use super::{ArmFlags, Armed, Cancel, Claiming, Entry, HandleGone, Home, Queued, Reset, Snapshot, Sole};
use crate::time::Subtick;

/// The ownership of the user whose timeout it is. It may look at the entry and cancel it.
#[derive(Debug)]
#[must_use = "the entry is lost if its handle does not let it go"]
#[repr(transparent)]
pub(crate) struct Handle(NonNull<Entry>);

// SAFETY: an owner reads and changes its entry only through the atomic state word, and does only
// what that word allows. Any thread may do that, and several at a time.
unsafe impl Send for Handle {}
// SAFETY: the state word is atomic, and what a cancel moves out goes to the one thread that wins.
unsafe impl Sync for Handle {}
// SAFETY: `repr(transparent)` around a `NonNull<Entry>`. It goes into no list.
unsafe impl Token for Handle {}

impl Handle {
    /// # Safety
    /// The entry was armed with a handle, and it is handed to this value.
    #[inline]
    pub(crate) unsafe fn new(entry: NonNull<Entry>) -> Self {
        Self(entry)
    }

    /// Returns where the entry is at home. An owner of it keeps the engine's memory.
    #[inline]
    pub(crate) fn home(&self) -> Home<'_> {
        // SAFETY: the entry was armed before this value was made, and so has a home.
        unsafe { Entry::home(self).unwrap_unchecked() }
    }

    /// Cancels the timeout. Returns its task, or `None` if it is too late. If QUEUED is the
    /// caller's then, `push` pushes the entry to the cancelled queue of its shard.
    #[inline]
    pub(crate) fn cancel<'h>(&'h self, push: impl FnOnce(Queued<'h>)) -> Option<CancelledTask<'h>> {
        match self.state.cancel() {
            Cancel::TooLate => return None,
            Cancel::WonRunning => return Some(CancelledTask(None)),
            Cancel::Won => {}
            // SAFETY: the cancel has set QUEUED. The value borrows the handle.
            Cancel::WonQueued => push(unsafe { Queued::new(self.0) }),
        }
        Some(CancelledTask(Some(self)))
    }

    /// Changes the deadline, see [`State::reset`](super::State::reset). If QUEUED is the caller's
    /// then, `push` pushes the entry to the moved queue of its shard.
    #[inline]
    pub(crate) fn reset<'h>(&'h self, deadline: Subtick, push: impl FnOnce(Queued<'h>)) -> Reset {
        let reset = self.state.reset(deadline);
        if reset == Reset::EarlierQueued {
            // SAFETY: the reset has set QUEUED. The value borrows the handle.
            push(unsafe { Queued::new(self.0) });
        }
        reset
    }

    /// Makes `waker` the one that a pending wake-up wakes, and no other. Returns false if it is not
    /// pending any more.
    ///
    /// # Safety
    /// The caller is the future of the timeout, whose task is a waker. One thread at a time polls
    /// it, and none cancels it meanwhile.
    #[inline]
    pub(crate) unsafe fn watch(&self, waker: &Waker) -> bool {
        // Read the state first. If it is pending now, the waker in the entry has not been dropped.
        // So it is not another waker that has since got the same address.
        // SAFETY: the captures are a waker, and only the future, which is the caller, writes them
        // before its handle goes. A thread that takes the waker out copies its bytes. A taken one
        // is only compared by its address.
        let is_the_same = || self.captures.with(|place| unsafe { &*place.cast::<Waker>() }.will_wake(waker));
        // SAFETY: the caller is the future, which one thread polls at a time, and holds this
        // handle.
        self.snapshot().is_pending() && (is_the_same() || unsafe { self.change(waker) })
    }

    /// # Safety
    /// As for [`watch`](Self::watch).
    #[inline(never)]
    unsafe fn change(&self, waker: &Waker) -> bool {
        // Cloning runs user code, which may panic, so it comes first.
        let waker = waker.clone();
        if !self.state.begin_change() {
            return false;
        }
        // SAFETY: a waker is there, and the caller is its future, which has begun to change it.
        // A thread that ends the wait now leaves the waker to the future.
        let before = self.captures.with_mut(|place| unsafe { ptr::replace(place.cast::<Waker>(), waker) });
        let is_pending = self.state.end_change();
        // SAFETY: the wait has ended during the change, so the waker was left to the future.
        let left = (!is_pending).then(|| unsafe { self.take_task() });
        // Dropping runs user code, too, so it comes last.
        drop((before, left));
        is_pending
    }

    /// Returns the entry's word if the handle may be [given up](Self::give_up) by one exchange, at
    /// this moment.
    #[inline]
    pub(crate) fn may_be_given_up(&self, cancels: bool) -> Option<Snapshot> {
        self.state.may_be_given_up(cancels)
    }

    /// Lets go of an entry, by one exchange, which `cancels` the timeout, or comes after its
    /// cancel. The entry becomes a tombstone if it `is_listed` as one. If this succeeds, it is the
    /// handle's last access to the engine's memory. Then it drops the task of what it has
    /// cancelled.
    ///
    /// # Safety
    /// `seen` is what [`may_be_given_up`](Self::may_be_given_up) has returned. If the entry
    /// `is_listed`, it is on the calling thread's list of tombstones. If this fails, the caller
    /// takes it off that.
    #[inline]
    pub(crate) unsafe fn give_up(self, seen: Snapshot, cancels: bool, is_listed: bool) -> Result<(), Self> {
        let entry = &*self;
        // SAFETY: 1. This is the handle. The word has said that the timeout is not periodic, which
        // does not change. 2. The exchange takes the entry out of PENDING after the copy was made.
        unsafe {
            let copy = cancels.then(|| entry.copy_task());
            if !entry.state.give_up(seen, is_listed) {
                return Err(self);
            }
            drop(copy.map(|copy| copy.assume_init()));
        }
        Ok(())
    }

    /// Gives the ownership up, unless it is the last.
    #[inline]
    pub(crate) fn let_go(&self) -> HandleGone {
        self.state.handle_lets_go()
    }

    /// Returns the entry, for a free list.
    ///
    /// # Safety
    /// The handle is the last owner: [`let_go`](Self::let_go) has said so. No other thread finds
    /// the entry before [`free`](Self::free) has marked it, and the caller calls that next. Nor
    /// does anybody use it afterwards if its engine may be gone.
    #[inline]
    pub(crate) unsafe fn to_sole(&self) -> Sole {
        // SAFETY: the caller says so, and uses only the new value from here on, but for the mark.
        unsafe { Sole::new(self.0) }
    }

    /// Gives the last ownership up, see [`State::free`](super::State::free). Returns the handle if
    /// the arena's final sweep has counted it.
    #[inline]
    pub(crate) fn free(self) -> Option<Self> {
        self.state.free().then_some(self)
    }
}

impl Deref for Handle {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        self.entry()
    }
}

/// The task of a timeout that a call has cancelled, which is that call's. Its drop drops the task.
/// There is none if a run was under way: the runner clears its task away.
#[derive(Debug)]
pub(crate) struct CancelledTask<'h>(Option<&'h Handle>);

impl Drop for CancelledTask<'_> {
    #[inline]
    fn drop(&mut self) {
        // It is not dropped where it is: another thread may be copying it, to find that it is too
        // late.
        // SAFETY: the call has won the cancel, and no run was under way, so the task is there. It
        // is taken here, once, and the handle, which is borrowed, keeps the entry as it is.
        drop(self.0.map(|handle| unsafe { handle.take_task() }));
    }
}

/// A tombstone, and the producer's ownership of it. Or the first of a list of them. Not `Send`: it
/// belongs to one thread.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the entry is lost if it is not revived"]
#[repr(transparent)]
pub(crate) struct Tomb(NonNull<Entry>);

// SAFETY: `repr(transparent)` around a `NonNull<Entry>`. The list of its thread is linked by
// `aside`, which is the producer's, also while the entry is about to become a tombstone.
unsafe impl Token for Tomb {}

impl Tomb {
    /// Makes the tombstone that the entry of a handle is about to become.
    ///
    /// # Safety
    /// The caller puts the tombstone on its thread's list. The handle's owner makes it a tombstone
    /// next, or takes it off the list again. Until then nobody uses the tombstone. The entry is in
    /// no side queue, and meanwhile nobody else uses the handle, which alone could put it there.
    #[inline]
    pub(crate) unsafe fn of(handle: &Handle) -> Self {
        Self(handle.address())
    }

    /// Returns it, unless it is in a slot that comes up after this deadline, or whose worker is
    /// claiming. Then `push` pushes the entry to the cancelled queue of its shard. It might be
    /// moved to an earlier slot, but would overtake there what its thread has scheduled before.
    #[inline]
    pub(crate) fn for_deadline(
        self,
        deadline: Subtick,
        claiming: &Claiming,
        push: impl FnOnce(Queued<'_>),
    ) -> Option<Self> {
        let state = &self.entry().state;
        if state.may_be_revived(deadline, || claiming.is_under_way()) || !state.abandon() {
            return Some(self);
        }
        #[cfg(loom)]
        self.entry().set_in_use(true);
        // SAFETY: the step has set QUEUED. There is no handle, and nobody frees the entry before
        // QUEUED has gone.
        push(unsafe { Queued::new(self.0) });
        None
    }

    /// Puts work in, and makes the entry pending again. It is [for this
    /// deadline](Self::for_deadline). Returns its address if it is still where it was, in the inbox
    /// or in a slot. Otherwise the engine has given the entry up: then it is armed, and the caller
    /// pushes it.
    #[inline]
    pub(crate) fn revive<W: Work>(
        self,
        work: W,
        deadline: Subtick,
        owners: ArmFlags,
    ) -> Result<NonNull<Entry>, Armed<W>> {
        let flags = owners.and(W::FLAGS);
        let entry = self.entry();
        entry.fill(None, work);
        if entry.state.revive(deadline, flags) {
            return Ok(self.0);
        }
        entry.state.arm(deadline, flags);
        // The engine has let go of it, so it was this thread's alone. It was just armed, and is in
        // no list.
        Err(Armed::of(self.0))
    }

    /// Puts it before others, through which a list of them is linked. It then stands for the list.
    #[inline]
    pub(crate) fn before(self, others: Option<Self>) -> Self {
        self.entry().aside.set(others.map_or(ptr::null_mut(), |next| next.0.as_ptr()));
        self
    }

    /// Takes it off the others of its list.
    #[inline]
    pub(crate) fn split(self) -> (Self, Option<Self>) {
        let others = NonNull::new(self.entry().aside.get()).map(Self);
        (self, others)
    }
}
