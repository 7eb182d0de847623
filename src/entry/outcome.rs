//! The outcomes of the [state word](super::State)'s transitions. Each tells the caller what to do.

/// The outcome of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// The timeout was no longer pending: nothing was changed.
    TooLate,
    /// The task is the caller's. The worker, or the runner of its batch, will find the entry by
    /// itself.
    Won,
    /// The task is the caller's, and so is QUEUED: the caller has to push the entry to the
    /// cancelled queue.
    WonQueued,
    /// A periodic timeout was cancelled while a run was under way. The runner clears its task and
    /// its entry away.
    WonRunning,
}

/// The outcome of a reset, and so the caller's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    /// The timeout was no longer pending: nothing was changed.
    TooLate,
    /// Nothing: the worker finds the new deadline when the old one comes up.
    Later,
    /// Check whether the worker sleeps past the new deadline. Once awake, it finds the entry by
    /// itself.
    Earlier,
    /// The same, and QUEUED is the caller's, who has to push the entry to the moved queue before.
    EarlierQueued,
}

/// The kind of timeout that an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A closure that runs once.
    Once,
    /// A closure that runs again and again.
    Series,
    /// The waker of a sleeping future, which the worker calls itself, or has an executor call
    /// together with others.
    Waker,
}

/// The outcome when the worker sees an entry's slot come up, or a runner comes to the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expire {
    /// The caller won. The task is the caller's to run, or, of a timeout that was only marked for a
    /// batch, to hand over.
    Done,
    /// The same, and the engine was the only owner of the entry. If the step gives the entry up,
    /// the caller gives it back.
    Alone,
    /// The caller won, but the future is changing the waker, and keeps it. The engine has given the
    /// entry up.
    Left,
    /// The entry was reset to a later deadline meanwhile.
    NotYetDue,
    /// Another thread has changed the word since it was seen.
    Changed,
    /// The entry is not pending. If it was cancelled in its slot, the cancelled queue or the moved
    /// queue brings it to the worker. A runner gives it up.
    Cancelled,
}

/// The state of an entry that the worker has popped off a side queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Popped {
    /// It is pending, and in a slot: it goes to the slot of its deadline of now.
    Moved,
    /// It was cancelled in its slot, and may still be in it. QUEUED stays set until the entry is
    /// out of there, see [`State::queue_lets_go`](super::State::queue_lets_go).
    Cancelled,
    /// It is in a batch, in the inbox or running, or a handle holds it: others see to it.
    Elsewhere,
    /// Nobody else owns it any more.
    Last,
}

/// The outcome when a handle is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleGone {
    /// The engine still owns the entry and will give it back.
    OthersOwn,
    /// The handle is the last owner. It still owns the entry and has to give it back, see
    /// [`State::free`](super::State::free).
    Last,
    /// The engine is gone, and its final sweep counted this handle.
    Orphan,
}

/// The outcome when the engine gives an entry up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineGone {
    /// The handle, or the producer whose tombstone it is, still owns the entry.
    OthersOwn,
    /// The engine was the last owner, and gives the entry back.
    Last,
    /// The entry is pending: it became a tombstone and was revived after the engine found it
    /// cancelled. The engine still owns it.
    NotYet,
}
