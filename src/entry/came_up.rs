//! An entry whose time has come up: a look at its word, and the claim.

use std::marker::PhantomData;

use super::held::{Marked, Owned, Running, Sole, Won};
use super::{Expire, Kind, Linked, Snapshot, TaskInPlace, TaskPlace};
use crate::time::Subtick;

/// An entry, and its word as the engine has seen it. It can't become a tombstone, and then another
/// timeout, after that look.
#[must_use = "the entry is lost if no step takes it over"]
struct Seen {
    entry: Owned,
    seen: Snapshot,
}

/// A timeout that was claimed.
pub(crate) enum Claimed<'a> {
    /// It runs once, for this deadline.
    Once(Subtick, TaskInPlace<'a>),
    /// A run of a periodic timeout, for this deadline.
    Run(Subtick, Running),
}

impl Seen {
    #[inline]
    fn look(entry: Owned) -> Self {
        let seen = entry.state.load();
        Self { entry, seen }
    }

    /// Claims the timeout if it is due by `now`. Gives the entry to `give_back` if nobody else owns
    /// it any more. It is not a sleeping future's.
    ///
    /// The task stays in `place`, where it is copied to: to move it would cost a second copy.
    #[inline(always)]
    fn claim(
        self,
        now: Subtick,
        place: &mut TaskPlace,
        give_back: impl FnOnce(Sole),
    ) -> Result<Claimed<'_>, (Owned, Expire)> {
        let Self { entry, seen } = self;
        if seen.kind() != Kind::Once {
            return Self { entry, seen }.begin_run(now);
        }
        // SAFETY: 1. The entry is the engine's, and was taken out of the inbox. 2. The timeout runs
        // once, so the copy is the task once this call has claimed the entry, after it made the
        // copy. 3. The word says whether the engine was the last owner.
        unsafe {
            *place = entry.copy_task();
            let deadline = match entry.state.claim(seen, now) {
                Expire::Done(deadline) => deadline,
                Expire::Alone(deadline) => {
                    give_back(entry.becomes());
                    deadline
                }
                other => return Err((entry, other)),
            };
            Ok(Claimed::Once(deadline, TaskInPlace::new(place)))
        }
    }

    #[inline(never)]
    fn begin_run<'a>(self, now: Subtick) -> Result<Claimed<'a>, (Owned, Expire)> {
        assert_eq!(self.seen.kind(), Kind::Series, "a future is not claimed, but expired");
        match self.entry.state.begin_run(self.seen, now) {
            Expire::Done(deadline) | Expire::Alone(deadline) => Ok(Claimed::Run(deadline, self.entry.becomes())),
            other => Err((self.entry, other)),
        }
    }
}

/// An entry that the worker has taken out of its slot, because its time has come up. Whose it is,
/// its word says. If it was cancelled meanwhile, the cancelled queue or the moved queue brings it.
///
/// No other value has this lifetime, so it can't be kept while the wheel goes on.
#[must_use = "the timeout is lost if no step takes it over"]
pub(crate) struct CameUp<'w>(Seen, Only<'w>);

/// Fits this one lifetime, neither a longer one nor a shorter one.
type Only<'w> = PhantomData<fn(&'w ()) -> &'w ()>;

/// An entry that came up, and goes back into the wheel that it came out of.
#[must_use = "the timeout is lost if it does not go back"]
pub(crate) struct Stays<'w>(Only<'w>);

impl<'w> CameUp<'w> {
    /// # Safety
    /// The wheel has just taken the entry out of its slot. It does nothing else before the end of
    /// `'w`, a lifetime that no other value has, and has the entry again only if that
    /// [stays](Self::into_stays).
    #[inline]
    pub(crate) unsafe fn of(entry: Linked) -> Self {
        // SAFETY: the wheel has it no more. This looks, and what takes it over goes by that look.
        Self(Seen::look(unsafe { entry.into_owned() }), PhantomData)
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        self.0.seen.kind()
    }

    /// Leaves it as it is, to be linked again.
    pub(crate) fn into_stays(self) -> Stays<'w> {
        Stays(self.1)
    }

    /// Claims the timeout if it is due by `now`, as [`Looked::claim`] does.
    #[inline(always)]
    pub(crate) fn claim<'p>(
        self,
        now: Subtick,
        place: &'p mut TaskPlace,
        give_back: impl FnOnce(Sole),
    ) -> Result<Claimed<'p>, Still<'w>> {
        self.0.claim(now, place, give_back).map_err(|(_, found)| Still::of(found))
    }

    /// Marks it for a batch if it is due. It stays pending. It is not a sleeping future's.
    #[inline]
    pub(crate) fn batch(self, now: Subtick) -> Result<Marked, Still<'w>> {
        let Seen { entry, seen } = self.0;
        match entry.state.batch(seen, now) {
            Expire::Done(_) | Expire::Alone(_) => Ok(entry.becomes()),
            other => Err(Still::of(other)),
        }
    }

    /// Expires a sleeping future's if it is due. The waker is the caller's to call, or `None` if
    /// the future is changing it, and so is awake.
    #[inline]
    pub(crate) fn expire(self, now: Subtick) -> Result<Option<Won>, Still<'w>> {
        let Seen { entry, seen } = self.0;
        match entry.state.expire(seen, now) {
            // The entry is the engine's no more.
            Expire::Left => Ok(None),
            // This call has taken the entry out of PENDING, and the task is in it.
            Expire::Done(_) | Expire::Alone(_) => Ok(Some(entry.becomes())),
            other => Err(Still::of(other)),
        }
    }
}

/// Why a timeout that came up is not taken.
pub(crate) enum Still<'w> {
    /// It was reset to a later deadline, and stays in the wheel.
    Linked(Stays<'w>),
    /// It was cancelled.
    Cancelled,
}

impl Still<'_> {
    #[inline(always)]
    fn of(found: Expire) -> Self {
        match found {
            Expire::NotBefore(_) => Self::Linked(Stays(PhantomData)),
            // From here on the queue has it.
            Expire::Cancelled | Expire::Done(_) | Expire::Alone(_) | Expire::Left => Self::Cancelled,
        }
    }
}

impl Marked {
    #[inline]
    pub(crate) fn into_owned(self) -> Owned {
        self.becomes()
    }

    /// Looks at the word, for a step that depends on it.
    #[inline]
    pub(crate) fn look(self) -> Looked {
        Looked(Seen::look(self.becomes()))
    }
}

/// A timeout of a batch, and its word as the runner has seen it.
#[must_use = "the timeout is lost if no step takes it over"]
pub(crate) struct Looked(Seen);

impl Looked {
    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        self.0.seen.kind()
    }

    #[inline]
    pub(crate) fn into_owned(self) -> Owned {
        self.0.entry
    }

    /// Claims the timeout if it is due by `now`. Gives the entry to `give_back` if nobody else owns
    /// it any more. The task stays in `place`.
    #[inline(always)]
    pub(crate) fn claim(
        self,
        now: Subtick,
        place: &mut TaskPlace,
        give_back: impl FnOnce(Sole),
    ) -> Result<Claimed<'_>, (Marked, Expire)> {
        self.0.claim(now, place, give_back).map_err(|(entry, found)| (entry.becomes(), found))
    }
}
