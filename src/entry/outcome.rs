//! What came of a transition of the [state word](super::State), and so what the one who tried it has to do.

use crate::time::Tick;

/// What a caller has to do after its cancel won.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// It was no longer pending: nothing was changed.
    TooLate,
    /// The task is the caller's. The worker will come across the entry by itself: in the inbox or in the reset queue.
    Won,
    /// The task is the caller's, and the entry has to go on the cancelled queue.
    WonLinked,
    /// A series was stopped while a run was under way: task and entry are the runner's to clear away.
    WonRunning,
}

/// What a caller has to do after a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    /// It was no longer pending: nothing was changed.
    TooLate,
    /// Nothing: the worker finds the new deadline when the old one comes up.
    Later,
    /// Look whether the worker sleeps past the new deadline; it will find the entry by itself once awake.
    Earlier,
    /// Send the entry to the worker through the reset queue; RESET_QUEUED was set by this call.
    EarlierQueued,
    /// The worker has to be told, and nothing was changed: say how, see [`Tell`].
    NotYet,
}

/// How a caller is going to tell the worker of a reset to earlier, if that is what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    /// It has yet to see to that.
    NotYet,
    /// Through the reset queue: it has what that takes.
    ByQueue,
    /// By having it go through the whole wheel.
    ByRescan,
}

/// What the worker found when an entry's slot came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expire {
    /// The worker won: the task is the worker's to run.
    Fire,
    /// It was reset to this later tick meanwhile: link it again.
    NotBefore(Tick),
    /// It is on its way through the reset queue: link it again and decide when it arrives.
    ResetQueued,
    /// It was cancelled; the cancelled queue or the reset queue brings it.
    Cancelled,
}

/// What a handle that lets go leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleGone {
    /// The engine, or a group, still owns the entry and will give it back.
    OthersOwn,
    /// The handle is the last owner: it still owns the entry and has to give it back (see [`State::free`](super::State::free)).
    Last,
    /// The engine is gone and counted on this handle.
    Orphan,
}

/// What the engine finds when it lets go of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineGone {
    /// The handle, or a group, or the producer that keeps it, still owns the entry.
    OthersOwn,
    /// The engine was the last owner, who gives the entry back.
    Last,
    /// It is pending: it was kept, and has been armed again, since the engine found it cancelled. The engine owns it still.
    /// (Only of an entry that came out of the inbox, and is not linked.)
    NotYet,
}

/// What the runner of a series finds when the run's turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Run it, for this deadline.
    Run(Tick),
    /// It was reset after it had expired: arm it again, and don't run it now.
    Moved,
    /// It was cancelled: clear it away.
    Cancelled,
}

/// What became of the runner's wish to arm a series again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rearm {
    /// It is pending again; the entry has to go on the inbox.
    Pending,
    /// It was cancelled meanwhile: clear it away.
    Cancelled,
}

/// What the worker found when it took an entry out of the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// Still pending, to be linked at this tick.
    Pending(Tick),
    /// Cancelled while in the inbox: the worker lets go of it.
    Cancelled,
}
