//! An entry whose time has come up: a look at its word, and the claim.

use super::held::{FromSlot, Held, Marked, Owned, Running, Sole, Won, is};
use super::{EngineGone, Expire, Kind, Snapshot, TaskInPlace, TaskPlace};
use crate::sync::{AtomicU8, Ordering, fence_of_models};
use crate::time::Subtick;

/// Whether a worker is claiming timeouts of its slots. It copies the task of each before it knows
/// that it has the timeout. So until it ends, no tombstone in a slot is revived.
#[derive(Debug)]
pub(crate) struct Claiming(AtomicU8);

/// While it exists, the worker is claiming.
#[derive(Debug)]
pub(crate) struct Claims<'a>(&'a Claiming);

impl Claiming {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Is called before the worker looks at what comes up.
    pub(crate) fn begin(&self) -> Claims<'_> {
        // Sequentially consistent, as are the looks at words that follow (`State::load`), and, of a
        // producer, the exchange that leaves a tombstone (`State::give_up`) and the look at this
        // before it is revived. So the producer sees this, or the worker sees the tombstone.
        self.0.store(1, Ordering::SeqCst);
        fence_of_models();
        Claims(self)
    }

    /// Returns whether the worker may be copying the task of an entry that is a tombstone in a slot
    /// by now. Its producer calls this.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        fence_of_models();
        // See `begin`. Acquire: pairs with the end, so that all copies were made before.
        self.0.load(Ordering::SeqCst) != 0
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `is_under_way`.
        self.0.0.store(0, Ordering::Release);
    }
}

/// An entry, and its word as the engine has seen it.
#[must_use = "the timeout is lost if no step takes it over"]
pub(crate) struct Seen<S> {
    entry: Held<S>,
    seen: Snapshot,
}

/// An entry whose slot has come up, and its word as the worker has seen it.
pub(crate) type CameUp<'w> = Seen<is::FromSlot<'w>>;

/// A timeout that was claimed.
pub(crate) enum Claimed<'a> {
    /// It runs once, for this deadline.
    Once(Subtick, TaskInPlace<'a>),
    /// A run of a periodic timeout, for this deadline.
    Run(Subtick, Running),
}

impl<S> Held<S> {
    /// Looks at the word, for a step that depends on it.
    #[inline]
    pub(crate) fn look(self) -> Seen<S> {
        let seen = self.state.load();
        Seen { entry: self, seen }
    }
}

impl<S> Seen<S> {
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
    ///
    /// # Safety
    /// Since before this look at it the entry can't have become a tombstone and then another
    /// timeout: it is marked, or its worker is [claiming](Claiming).
    #[inline(always)]
    unsafe fn claim_in_place(
        self,
        now: Subtick,
        place: &mut TaskPlace,
        give_back: impl FnOnce(Sole),
    ) -> Result<Claimed<'_>, (Held<S>, Expire)> {
        let Self { entry, seen } = self;
        if seen.kind() != Kind::Once {
            return Self { entry, seen }.begin_run(now);
        }
        // SAFETY: 1. The entry is the engine's, and pending, and nobody puts another task in. 2.
        // The timeout runs once, so the copy is the task once this call has claimed the entry,
        // after it made the copy.
        unsafe {
            match entry.state.claim(seen, now, || *place = entry.copy_task()) {
                Expire::Done => {}
                Expire::Alone => give_back(entry.becomes()),
                other => return Err((entry, other)),
            }
            Ok(Claimed::Once(seen.deadline(), TaskInPlace::new(place)))
        }
    }

    #[inline(never)]
    fn begin_run<'a>(self, now: Subtick) -> Result<Claimed<'a>, (Held<S>, Expire)> {
        assert_eq!(self.kind(), Kind::Series, "a future is not claimed, but expired");
        match self.entry.state.begin_run(self.seen, now) {
            Expire::Done | Expire::Alone => Ok(Claimed::Run(self.seen.deadline(), self.entry.becomes())),
            other => Err((self.entry, other)),
        }
    }
}

impl Seen<is::Marked> {
    /// Claims the timeout if it is due by `now`. Gives the entry to `give_back` if nobody else owns
    /// it any more.
    #[inline(always)]
    pub(crate) fn claim(
        self,
        now: Subtick,
        place: &mut TaskPlace,
        give_back: impl FnOnce(Sole),
    ) -> Result<Claimed<'_>, (Marked, Expire)> {
        // SAFETY: it is marked.
        unsafe { self.claim_in_place(now, place, give_back) }
    }
}

/// A step that does not take the timeout returns the entry if it goes back, as it was reset to a
/// later deadline, or has just changed. If it was cancelled, a queue has it from here on, or the
/// producer whose tombstone it is.
impl<'w> CameUp<'w> {
    /// Claims the timeout if it is due by `now`, as [`claim`](Seen::claim) does. `_claims` are
    /// those of the worker, which began before the entry came up.
    #[inline(always)]
    pub(crate) fn take<'p>(
        self,
        _claims: &Claims<'_>,
        now: Subtick,
        place: &'p mut TaskPlace,
        give_back: impl FnOnce(Sole),
    ) -> Result<Claimed<'p>, Option<FromSlot<'w>>> {
        // SAFETY: the worker is claiming: `Due::run` begins before it asks its wheel.
        unsafe { self.claim_in_place(now, place, give_back) }.map_err(|(entry, found)| stays(entry, found))
    }

    /// Marks it for a batch if it is due. It stays pending. It is not a sleeping future's.
    #[inline]
    pub(crate) fn batch(self, now: Subtick) -> Result<Marked, Option<FromSlot<'w>>> {
        match self.entry.state.mark(self.seen, now) {
            Expire::Done | Expire::Alone => Ok(self.entry.becomes()),
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
            Expire::Done | Expire::Alone => Ok(Some(self.entry.becomes())),
            other => Err(stays(self.entry, other)),
        }
    }
}

#[inline(always)]
fn stays(entry: FromSlot<'_>, found: Expire) -> Option<FromSlot<'_>> {
    (matches!(found, Expire::NotYetDue | Expire::Changed) || entry.is_revived()).then_some(entry)
}

impl FromSlot<'_> {
    /// Lets go of an entry that is not pending, if it is a tombstone. Returns whether it is pending
    /// again, as its producer was faster.
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
}
