//! The lease of this process.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::Micros;

/// Until when this process's rows are its own. The writer renews it; handlers' threads ask before a
/// run.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    granted: Mutex<Option<Granted>>,
}

#[derive(Clone, Copy, Debug)]
struct Granted {
    real: Instant,
    wall: Micros,
    length: Duration,
}

impl Lease {
    /// Notes a lease that was asked for at this time.
    pub(crate) fn grant(&self, real: Instant, wall: Micros, length: Duration) {
        *self.granted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Granted { real, wall, length });
    }

    /// Whether it is certain that the lease has not ended. A machine that is suspended stops the
    /// one clock, and not the other.
    pub(crate) fn holds(&self, wall: Micros) -> bool {
        self.age(wall).is_some_and(|(age, length)| age < length)
    }

    /// Whether half of the lease is over, or there is none.
    pub(crate) fn is_half_over(&self, wall: Micros) -> bool {
        self.age(wall).is_none_or(|(age, length)| age >= length / 2)
    }

    fn age(&self, wall: Micros) -> Option<(Duration, Duration)> {
        let granted = (*self.granted.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some((granted.real.elapsed().max(wall.since(granted.wall)), granted.length))
    }
}
