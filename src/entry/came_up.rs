//! An entry whose time has come up: [`CameUp`] out of its slot, [`Looked`] after a look at its
//! word, and the claim.

use std::mem::MaybeUninit;

use super::owned::{Linkable, Owned, Sole};
use super::task_copy::TaskCopy;
use super::{Expire, Kind, Snapshot, TaskInPlace};
use crate::time::Subtick;

impl Owned {
    /// Looks at the word, for a step that depends on it.
    #[inline]
    pub(crate) fn look(self) -> Looked {
        let seen = self.state.load();
        Looked { entry: self, seen }
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
pub(crate) struct LookedOnce(Looked);

impl LookedOnce {
    #[inline]
    pub(crate) fn into_owned(self) -> Owned {
        self.0.entry
    }

    /// Claims the timeout if it is due. Returns its deadline and its task. Gives the entry to
    /// `give_back` if nobody else owns that any more.
    ///
    /// The task stays in `place`, where it is copied to: to move it would cost a second copy.
    #[inline(always)]
    pub(crate) fn claim(
        self,
        now: Subtick,
        place: &mut TaskPlace,
        give_back: impl FnOnce(Sole),
    ) -> Result<(Subtick, TaskInPlace<'_>), (Owned, Expire)> {
        let Looked { entry, seen } = self.0;
        // SAFETY: 1. The entry is the engine's, and its kind says that it has no sleeper. 2. The
        // copy is the task once this call has claimed the entry, after it made the copy. 3. The
        // word says whether the engine was the last owner.
        unsafe {
            let copy = place.0.write(entry.copy_task());
            match entry.state.claim(seen, now) {
                Expire::Fire => {}
                Expire::FireLast => give_back(Sole::new(entry.into_raw())),
                other => return Err((entry, other)),
            }
            Ok((seen.deadline(), copy.as_task()))
        }
    }
}

/// Where a thread keeps the task that it is about to claim.
pub(crate) struct TaskPlace(MaybeUninit<TaskCopy>);

impl TaskPlace {
    #[inline]
    pub(crate) fn new() -> Self {
        Self(MaybeUninit::uninit())
    }
}

/// An entry that the worker has taken out of its slot, because its time has come up. Whose it is,
/// its word says. If it was cancelled meanwhile, the cancelled queue or the reset queue brings it.
#[derive(Debug)]
#[must_use = "the timeout is lost if no step takes it over"]
pub(crate) struct CameUp(pub(super) Owned);

impl CameUp {
    /// For the wheel, which has just taken the entry out of its slot.
    #[inline]
    pub(crate) fn of(entry: Linkable) -> Self {
        Self(entry.0)
    }

    /// Looks at the word, which says whether it is due. Returns it as one that runs once, or as
    /// another one.
    #[inline]
    pub(crate) fn look(self) -> Result<OnceUp, OtherUp> {
        self.0.look().once().map(OnceUp).map_err(OtherUp)
    }
}

/// A timeout that runs once and has come up.
#[must_use = "the timeout is lost if no step takes it over"]
pub(crate) struct OnceUp(LookedOnce);

impl OnceUp {
    /// Claims it as [`LookedOnce::claim`] does.
    #[inline(always)]
    pub(crate) fn claim(
        self,
        now: Subtick,
        place: &mut TaskPlace,
        give_back: impl FnOnce(Sole),
    ) -> Result<(Subtick, TaskInPlace<'_>), Still> {
        self.0.claim(now, place, give_back).map_err(Still::of)
    }

    /// Marks it for a batch if it is due. It stays pending.
    #[inline]
    pub(crate) fn batch(self, now: Subtick) -> Result<Marked, Still> {
        let Looked { entry, seen } = self.0.0;
        match entry.state.batch(seen, now) {
            Expire::Fire | Expire::FireLast => Ok(Marked(entry)),
            other => Err(Still::of((entry, other))),
        }
    }
}

/// A periodic timeout, or a sleeping future, that has come up.
#[must_use = "the timeout is lost if no step takes it over"]
pub(crate) struct OtherUp(pub(super) Looked);

impl OtherUp {
    #[inline]
    pub(crate) fn is_periodic(&self) -> bool {
        self.0.kind() == Kind::Series
    }

    /// Leaves it as it is, to be linked again.
    pub(crate) fn into_linkable(self) -> Linkable {
        Linkable(self.0.entry)
    }
}

/// Why a timeout that came up is not taken.
pub(crate) enum Still {
    /// It was reset to this later deadline: it is linked again.
    NotBefore(Linkable, Subtick),
    /// It is on its way through the reset queue. It is linked again, and decided when it arrives.
    ResetQueued(Linkable),
    /// It was cancelled.
    Cancelled,
}

impl Still {
    #[inline(always)]
    pub(super) fn of((entry, found): (Owned, Expire)) -> Self {
        match found {
            Expire::NotBefore(deadline) => Self::NotBefore(Linkable(entry), deadline),
            Expire::ResetQueued => Self::ResetQueued(Linkable(entry)),
            // From here on the queue has it.
            Expire::Cancelled | Expire::Fire | Expire::FireLast => Self::Cancelled,
        }
    }
}

/// A timeout that is due and runs once, marked for a batch. It is pending.
#[must_use = "the timeout is lost if it goes into no batch"]
pub(crate) struct Marked(Owned);

impl Marked {
    #[inline]
    pub(crate) fn into_owned(self) -> Owned {
        self.0
    }
}
