//! The faults of a timeout, and the operations on it before.

use std::fmt;

/// A breach of the engine's promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is explained where it is displayed")]
pub enum Fault {
    Early,
    EarlyForReset,
    Twice,
    Overlapping,
    AfterCancel,
    AfterEnd,
    CancelledTwice,
    CancelledButRan,
    CancelledNotDropped,
    ResetAfterCancel,
    DroppedTwice,
    DroppedUnrun,
    Lost,
    /// The handle says something else than what it answered before.
    HandleDisagrees,
    /// The values that a closure had captured have changed.
    Spoilt,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Early => "ran before its deadline",
            Self::EarlyForReset => "ran before the deadline of a reset that returned true",
            Self::Twice => "ran twice",
            Self::Overlapping => "a run of a series began while another was under way",
            Self::AfterCancel => "ran after a cancel that returned true",
            Self::AfterEnd => "ran after its closure had been dropped",
            Self::CancelledTwice => "two cancels returned true",
            Self::CancelledButRan => "a cancel returned true, but it had run",
            Self::CancelledNotDropped => "a cancel returned true, but did not drop the closure",
            Self::ResetAfterCancel => "a reset returned true after a cancel that did",
            Self::DroppedTwice => "its closure was dropped twice",
            Self::DroppedUnrun => "its closure was dropped unrun, and nobody had cancelled it",
            Self::Lost => "lost: its closure was never dropped",
            Self::HandleDisagrees => "its handle says otherwise than before",
            Self::Spoilt => "what its closure had captured has changed",
        })
    }
}

/// An operation on a timeout, for its history.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    Scheduled,
    Reset,
    ResetTook,
    ResetTooLate,
    Cancel,
    CancelTook,
    CancelTooLate,
    Run,
    RunEnded,
    Dropped,
    HandleGone,
}

const EVENTS: usize = 12;

/// The last operations on a timeout.
#[derive(Debug, Clone, Copy, Default)]
pub struct History {
    ring: [Option<(Event, u64, u64)>; EVENTS],
    len: usize,
}

impl History {
    pub(crate) fn add(&mut self, event: Event, at: u64, deadline: u64) {
        self.ring[self.len % EVENTS] = Some((event, at, deadline));
        self.len += 1;
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.len.saturating_sub(EVENTS);
        if first > 0 {
            write!(f, "\n    ({first} before)")?;
        }
        for at in first..self.len {
            if let Some((event, at, deadline)) = self.ring[at % EVENTS] {
                write!(f, "\n    at {at} ns: {event:?}, not before {deadline}")?;
            }
        }
        Ok(())
    }
}
