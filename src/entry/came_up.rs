//! An entry whose time has come up: a look at its word, and the claim.

use super::held::{FromSlot, Held, Marked, Owned, Running, Sole, Won, is};
use super::{EngineGone, Expire, Kind, Snapshot, TaskInPlace, TaskPlace};
use crate::time::Subtick;

/// An entry, and its word as the engine has seen it.
#[must_use = "the timeout is lost if no step takes it over"]
pub(crate) struct Seen<S> {
    entry: Held<S>,
    seen: Snapshot,
}

/// What came up, as the worker has seen it.
pub(crate) type CameUp<'w> = Seen<is::FromSlot<'w>>;

/// A timeout that was not taken.
pub(crate) enum Untaken<'w> {
    /// It goes back to its slot. Or a queue, or a producer, has it.
    InSlot(Option<FromSlot<'w>>),
    /// It is marked, and out of its slot.
    Marked(Marked, Expire),
}

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
}

impl Seen<is::Marked> {
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
    ) -> Result<Claimed<'_>, (Marked, Expire)> {
        let Self { entry, seen } = self;
        if seen.kind() != Kind::Once {
            return Self { entry, seen }.begin_run(now);
        }
        // SAFETY: 1. The entry is the engine's, and marked. 2. The timeout runs once, so the copy
        // is the task once this call has claimed the entry, after it made the copy.
        unsafe {
            *place = entry.copy_task();
            let deadline = match entry.state.claim(seen, now) {
                Expire::Done(deadline) => deadline,
                Expire::Alone(deadline) => {
                    give_back(entry.becomes());
                    deadline
                }
                Expire::Changed => return Self::claim_again(entry, now, place, give_back),
                other => return Err((entry, other)),
            };
            Ok(Claimed::Once(deadline, TaskInPlace::new(place)))
        }
    }

    #[cold]
    #[inline(never)]
    fn claim_again(
        entry: Marked,
        now: Subtick,
        place: &mut TaskPlace,
        give_back: impl FnOnce(Sole),
    ) -> Result<Claimed<'_>, (Marked, Expire)> {
        entry.look().claim(now, place, give_back)
    }

    #[inline(never)]
    fn begin_run<'a>(self, now: Subtick) -> Result<Claimed<'a>, (Marked, Expire)> {
        assert_eq!(self.kind(), Kind::Series, "a future is not claimed, but expired");
        match self.entry.state.begin_run(self.seen, now) {
            Expire::Done(deadline) | Expire::Alone(deadline) => Ok(Claimed::Run(deadline, self.entry.becomes())),
            Expire::Changed => self.entry.look().begin_run(now),
            other => Err((self.entry, other)),
        }
    }
}

/// A step that does not take the timeout returns the entry if it goes back, as it was reset to a
/// later deadline, or has just changed. If it was cancelled, a queue has it from here on, or the
/// producer whose tombstone it is.
impl<'w> CameUp<'w> {
    /// Marks the timeout if it is due by `now`, and then [claims](Seen::claim) it. While its task
    /// is copied, it must not become a tombstone, and then another timeout. It is not a sleeping
    /// future's.
    #[inline(always)]
    pub(crate) fn take<'p>(
        self,
        now: Subtick,
        place: &'p mut TaskPlace,
        give_back: impl FnOnce(Sole),
    ) -> Result<Claimed<'p>, Untaken<'w>> {
        let Self { entry, seen } = self;
        // Two calls, because the first needs no second look at what this one has seen.
        let claimed = match entry.state.mark(seen, now) {
            Expire::Alone(_) => Seen { entry: entry.becomes(), seen }.claim(now, place, give_back),
            Expire::Done(_) => Marked::look(entry.becomes()).claim(now, place, give_back),
            other => return Err(Untaken::InSlot(stays(entry, other))),
        };
        claimed.map_err(|(entry, found)| Untaken::Marked(entry, found))
    }

    /// Marks it for a batch if it is due. It stays pending. It is not a sleeping future's.
    #[inline]
    pub(crate) fn batch(self, now: Subtick) -> Result<Marked, Option<FromSlot<'w>>> {
        match self.entry.state.mark(self.seen, now) {
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
    (matches!(found, Expire::NotBefore(_) | Expire::Changed) || entry.is_revived()).then_some(entry)
}

impl FromSlot<'_> {
    /// Lets go of what is not pending, if it is a tombstone. Returns whether it is pending again,
    /// as its producer was faster.
    #[cold]
    #[inline(never)]
    fn is_revived(&self) -> bool {
        !self.snapshot().is_cancelled() && self.state.engine_lets_go() == EngineGone::NotYet
    }
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
