//! Turns that other threads ask for, and wait for: after a manual clock was moved, a suspend or a
//! pause has ended, or a command was given.

use super::Remote;
use crate::sync::{Ordering, lock};
use crate::time::Subtick;

impl Remote {
    /// Returns the number of the newest turn that was requested. The worker reads it before the
    /// turn.
    pub(crate) fn turn_requested(&self) -> u64 {
        // Acquire: pairs with the release in `request_turn`, so that the turn sees the clock as the
        // requester has moved it.
        self.turn_requested.load(Ordering::Acquire)
    }

    pub(super) fn is_turn_requested(&self) -> bool {
        self.turn_requested() != *lock(&self.turn_completed)
    }

    /// Records that the worker has done all that was due when it read `requested` from
    /// [`turn_requested`](Self::turn_requested). `earliest` finds the earliest deadline; it is
    /// called only if a thread asked for that.
    pub(crate) fn complete_turn(&self, requested: u64, earliest: impl FnOnce() -> Subtick) {
        // Acquire: pairs with the Release in `request_earliest`.
        if self.earliest_requested.load(Ordering::Acquire) != 0 {
            // Published by the lock. The request stays set: this may be the answer to an older
            // request for a turn, while the turn that the thread waits for is still to come.
            self.earliest.store(earliest().get(), Ordering::Relaxed);
        }
        let mut done = lock(&self.turn_completed);
        if *done != requested {
            *done = requested;
            self.turn_completed_changed.notify_all();
        }
    }

    /// Asks a running worker to look at the clock once more before it sleeps. Returns the number of
    /// this request.
    pub(crate) fn request_turn(&self) -> u64 {
        // Release: pairs with the Acquire in `turn_requested`.
        let mine = self.turn_requested.fetch_add(1, Ordering::AcqRel) + 1;
        self.ring();
        mine
    }

    /// Asks a running worker to look at the clock, and blocks until it has done all that is due by
    /// it.
    pub(crate) fn request_turn_and_wait(&self) {
        let mine = self.request_turn();
        let mut done = lock(&self.turn_completed);
        while *done < mine {
            done = self.turn_completed_changed.wait(done).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Asks a running worker for the earliest deadline, and blocks until it answers. Returns
    /// [`Subtick::NEVER`] if nothing will ever be due. Two threads must not call this at the same
    /// time.
    pub(crate) fn request_earliest(&self) -> Subtick {
        self.earliest.store(Subtick::NEVER.get(), Ordering::Relaxed);
        // Release: pairs with the Acquire in `complete_turn`.
        self.earliest_requested.store(1, Ordering::Release);
        self.request_turn_and_wait();
        self.earliest_requested.store(0, Ordering::Relaxed);
        Subtick::new(self.earliest.load(Ordering::Relaxed))
    }

    /// Releases all threads that wait for a turn, now or later: the shard is closed, so no turn
    /// will come.
    pub(crate) fn complete_all_turns(&self) {
        *lock(&self.turn_completed) = u64::MAX;
        self.turn_completed_changed.notify_all();
    }
}
