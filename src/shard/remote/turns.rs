//! Turns that other threads ask for, and wait for: after a clock was moved, or goes on, or for the
//! earliest deadline.

use super::Remote;
use crate::sync::{Ordering, lock};
use crate::time::Subtick;

/// The newest turn that was completed.
#[derive(Debug, Default)]
pub(super) struct Completed {
    turn: u64,
    /// The earliest deadline at that turn, if a thread has asked for it.
    earliest: Option<Subtick>,
}

impl Remote {
    /// Returns the number of the newest turn that was requested. The worker reads it before the
    /// turn.
    pub(crate) fn turn_requested(&self) -> u64 {
        // Acquire: pairs with the release in `request_turn`, so that the turn sees the clock as the
        // requester has moved it.
        self.turn_requested.load(Ordering::Acquire)
    }

    pub(super) fn is_turn_requested(&self) -> bool {
        self.turn_requested() != lock(&self.completed).turn
    }

    /// Records that the worker has done all that was due when it read `requested` from
    /// [`turn_requested`](Self::turn_requested). `earliest` finds the earliest deadline; it is
    /// called only if a thread asked for that.
    pub(crate) fn complete_turn(&self, requested: u64, earliest: impl FnOnce() -> Subtick) {
        let mut completed = lock(&self.completed);
        if let Some(answer) = &mut completed.earliest {
            // The question stays: this may be the answer to an older request for a turn, while the
            // turn that the thread waits for is still to come.
            *answer = earliest();
        }
        if completed.turn != requested {
            completed.turn = requested;
            self.completed_changed.notify_all();
        }
    }

    /// Asks a running worker to look at the clock once more before it sleeps. Returns the number of
    /// this request.
    pub(crate) fn request_turn(&self) -> u64 {
        // Release: pairs with the Acquire in `turn_requested`.
        let mine = self.turn_requested.fetch_add(1, Ordering::Release) + 1;
        self.ring();
        mine
    }

    /// Asks a running worker to look at the clock, and blocks until it has done all that is due by
    /// it.
    pub(crate) fn request_turn_and_wait(&self) {
        let mine = self.request_turn();
        let mut completed = lock(&self.completed);
        while completed.turn < mine {
            completed = self.completed_changed.wait(completed).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Asks a running worker for the earliest deadline, and blocks until it answers. Returns
    /// [`Subtick::NEVER`] if nothing will ever be due. Two threads must not call this at the same
    /// time.
    pub(crate) fn request_earliest(&self) -> Subtick {
        lock(&self.completed).earliest = Some(Subtick::NEVER);
        self.request_turn_and_wait();
        lock(&self.completed).earliest.take().unwrap_or(Subtick::NEVER)
    }

    /// Releases all threads that wait for a turn, now or later: the shard is closed, so no turn
    /// will come.
    pub(crate) fn complete_all_turns(&self) {
        lock(&self.completed).turn = u64::MAX;
        self.completed_changed.notify_all();
    }
}
