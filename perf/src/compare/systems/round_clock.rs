//! The time as an event loop with much to do has it.

use std::time::Instant;

/// An event loop reads the clock once in so many operations.
const ROUND: u32 = 16;

/// A clock that is read once a round.
#[derive(Debug)]
pub(crate) struct RoundClock {
    now: Instant,
    operations: u32,
}

impl RoundClock {
    pub(crate) fn new() -> Self {
        Self { now: Instant::now(), operations: 0 }
    }

    /// Returns the time of this round, for one operation.
    #[inline]
    pub(crate) fn now(&mut self) -> Instant {
        if self.operations.is_multiple_of(ROUND) {
            self.now = Instant::now();
        }
        self.operations = self.operations.wrapping_add(1);
        self.now
    }
}
