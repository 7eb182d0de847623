//! Timers as the loop of a server sees them: armed and moved by session and kind, and asked what is
//! due. A system does each operation in the cheapest way that it has.

pub(super) mod bare;
pub(super) mod delay_queue;
pub(super) mod driven;
mod due;
pub(super) mod tokio_sleeps;
mod wake_at;

use std::task::Context;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::protocol::{KINDS, Kind};

/// A timer of a session: the session's place, and the timer's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Of(u32);

const COUNT: u32 = 3;
const _: () = assert!(KINDS.len() == COUNT as usize, "each kind has its place");

impl Of {
    pub(super) fn new(place: u32, kind: Kind) -> Self {
        Self(place * COUNT + kind as u32)
    }

    pub(super) fn place(self) -> u32 {
        self.0 / COUNT
    }

    pub(super) fn kind(self) -> Kind {
        KINDS[self.0 as usize % KINDS.len()]
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The timers of all sessions of a server.
pub(super) trait Timers: Sized + Send + 'static {
    /// Whether the runtime needs its own timers.
    const OF_TOKIO: bool;

    /// Is called on the runtime's thread.
    fn start(sessions: usize) -> Result<Self>;

    /// Arms a timer, or moves it if it is armed. The system takes the delay or the deadline,
    /// whichever is cheaper for it.
    fn arm(&mut self, of: Of, delay: Duration, deadline: Instant);

    /// The timer need not come up any more. If it does, the session finds that it is not armed. So
    /// a system whose timers are cheap to move does nothing, and moves the timer when it is armed
    /// again.
    fn cancel(&mut self, _of: Of) {}

    /// The session has ended, and another may take its place.
    fn forget(&mut self, place: u32);

    /// Appends what has come up. The task is woken when there is more.
    fn come_up(&mut self, context: &mut Context<'_>, due: &mut Vec<Of>);
}

/// The entry of a timer in a table that grows as far as it has to.
fn slot<T>(table: &mut Vec<Option<T>>, of: Of) -> &mut Option<T> {
    let sessions = of.place() as usize + 1;
    if table.len() < sessions * KINDS.len() {
        table.resize_with(sessions * KINDS.len(), || None);
    }
    &mut table[of.index()]
}

/// Drops all entries of a session.
fn forget<T>(table: &mut [Option<T>], place: u32) {
    let entries = table.iter_mut().skip(place as usize * KINDS.len()).take(KINDS.len());
    entries.for_each(|entry| *entry = None);
}
