//! Timers on an engine of their own, whose test ends also if it fails.

use std::ops::Deref;
use std::thread;
use std::time::Duration;

use tourbillon::Timer;
use tourbillon_durable::{Builder, DurableTimer};

use super::until::PATIENCE;

/// The timers of a test.
pub(crate) struct Started(DurableTimer);

pub(crate) trait Start {
    /// Starts them. A call has its answer sometime, also on a disk that stalls.
    fn started(self) -> Started;

    /// Starts them. A call waits for so long at most.
    fn started_within(self, limit: Duration) -> Started;

    /// Starts them on this engine.
    fn started_on(self, timer: &Timer) -> Started;
}

impl Start for Builder {
    fn started(self) -> Started {
        self.started_on(&Timer::new().unwrap())
    }

    fn started_within(self, limit: Duration) -> Started {
        Started(self.commit_timeout(limit).start(&Timer::new().unwrap()).unwrap())
    }

    fn started_on(self, timer: &Timer) -> Started {
        Started(self.commit_timeout(PATIENCE).start(timer).unwrap())
    }
}

impl Deref for Started {
    type Target = DurableTimer;

    fn deref(&self) -> &DurableTimer {
        &self.0
    }
}

impl Drop for Started {
    /// The test's handlers may wait for what a test that has failed does no more.
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop_within(Duration::from_secs(1));
        }
    }
}
