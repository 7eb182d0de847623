//! The clocks of engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tourbillon::{Clock, ManualClock};

use crate::duration::nanos;

/// Where an engine, and so its checker, reads the time.
#[derive(Clone)]
pub(crate) enum Time {
    Real,
    Jumping(Jumping),
    #[cfg_attr(not(test), expect(dead_code, reason = "the checker's tests step their clock"))]
    Manual(ManualClock),
}

impl Time {
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::Real => Instant::now(),
            Self::Jumping(clock) => clock.now(),
            Self::Manual(clock) => clock.now(),
        }
    }
}

/// The system's clock and a jump that grows.
#[derive(Clone, Default)]
pub(crate) struct Jumping(Arc<AtomicU64>);

impl Jumping {
    pub(crate) fn jump(&self, by: Duration) {
        self.0.fetch_add(nanos(by), Ordering::SeqCst);
    }
}

impl Clock for Jumping {
    fn now(&self) -> Instant {
        // The jump first: a clock must not go back.
        let jump = Duration::from_nanos(self.0.load(Ordering::SeqCst));
        Instant::now() + jump
    }
}
