//! An entry whose time has come up: a look at its word, and the claim.

use super::held::{FromSlot, Held, Marked, Owned, Running, Sole, Won, is};
use super::{Expire, Kind, Snapshot, TaskInPlace, TaskPlace};
use crate::time::Subtick;

/// An entry, and its word as the engine has seen it. It can't become a tombstone, and then another
/// timeout, after that look.
#[must_use = "the timeout is lost if no step takes it over"]
pub(crate) struct Seen<S> {
    entry: Held<S>,
    seen: Snapshot,
}

/// What came up, as the worker has seen it.
pub(crate) type CameUp<'w> = Seen<is::FromSlot<'w>>;

/// A timeout that was claimed.
pub(crate) enum Claimed<'a> {
    /// It runs once, for this deadline.
    Once(Subtick, TaskInPlace<'a>),
    /// A run of a periodic timeout, for this deadline.
    Run(Subtick, Running),
}

impl<S> Seen<S> {
    #[inline]
    pub(super) fn look(entry: Held<S>) -> Self {
        let seen = entry.state.load();
        Self { entry, seen }
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        self.seen.kind()
    }

    /// Leaves it as it is.
    #[inline]
    pub(crate) fn into_held(self) -> Held<S> {
        self.entry
    }

    /// Claims the timeout if it is due by `now`. Gives the entry to `give_back` if nobody else owns
    /// it any more. It is not a sleeping future's.
    ///
    /// The task stays in `place`, where it is copied to: to move it would cost a second copy.
    #[inline(always)]
    pub(crate) fn claim(
        self,
        now: Subtick,
        place: &mut TaskPlace,
        give_back: impl FnOnce(Sole),
    ) -> Result<Claimed<'_>, (Held<S>, Expire)> {
        let Self { entry, seen } = self;
        if seen.kind() != Kind::Once {
            return Self { entry, seen }.begin_run(now);
        }
        // SAFETY: 1. The entry is the engine's, and was taken out of the inbox. 2. The timeout runs
        // once, so the copy is the task once this call has claimed the entry, after it made the
        // copy.
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
    fn begin_run<'a>(self, now: Subtick) -> Result<Claimed<'a>, (Held<S>, Expire)> {
        assert_eq!(self.kind(), Kind::Series, "a future is not claimed, but expired");
        match self.entry.state.begin_run(self.seen, now) {
            Expire::Done(deadline) | Expire::Alone(deadline) => Ok(Claimed::Run(deadline, self.entry.becomes())),
            other => Err((self.entry, other)),
        }
    }
}

/// A step that does not take the timeout returns the entry if it was reset to a later deadline, and
/// so goes back. If it was cancelled, a queue has it from here on.
impl<'w> CameUp<'w> {
    /// Claims the timeout if it is due by `now`, as [`claim`](Self::claim) does.
    #[inline(always)]
    pub(crate) fn take<'p>(
        self,
        now: Subtick,
        place: &'p mut TaskPlace,
        give_back: impl FnOnce(Sole),
    ) -> Result<Claimed<'p>, Option<FromSlot<'w>>> {
        self.claim(now, place, give_back).map_err(|(entry, found)| stays(entry, found))
    }

    /// Marks it for a batch if it is due. It stays pending. It is not a sleeping future's.
    #[inline]
    pub(crate) fn batch(self, now: Subtick) -> Result<Marked, Option<FromSlot<'w>>> {
        match self.entry.state.batch(self.seen, now) {
            Expire::Done(_) | Expire::Alone(_) => Ok(self.entry.becomes()),
            other => Err(stays(self.entry, other)),
        }
    }

    /// Expires a sleeping future's if it is due. The waker is the caller's to call, or `None` if
    /// the future is changing it, and so is awake.
    #[inline]
    pub(crate) fn expire(self, now: Subtick) -> Result<Option<Won>, Option<FromSlot<'w>>> {
        match self.entry.state.expire(self.seen, now) {
            // The entry is the engine's no more.
            Expire::Left => Ok(None),
            Expire::Done(_) | Expire::Alone(_) => Ok(Some(self.entry.becomes())),
            other => Err(stays(self.entry, other)),
        }
    }
}

#[inline(always)]
fn stays(entry: FromSlot<'_>, found: Expire) -> Option<FromSlot<'_>> {
    matches!(found, Expire::NotBefore(_)).then_some(entry)
}

impl Marked {
    #[inline]
    pub(crate) fn into_owned(self) -> Owned {
        self.becomes()
    }

    /// Looks at the word, for a step that depends on it.
    #[inline]
    pub(crate) fn look(self) -> Seen<is::Marked> {
        Seen::look(self)
    }
}
