//! What every system under test can do.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::patience::PATIENCE;
use super::plan::Plan;
use super::producer::Producer;
use crate::compare::recorder::Recorder;

/// A timer under test. There is one in the process, and it lives as long as the process.
pub(crate) trait System: Sync + Sized + 'static {
    type Producer: Producer;

    fn start(plan: &Plan) -> Result<Self>;

    /// Returns what a thread needs to schedule. The thread itself calls this.
    fn producer(&self) -> Result<Self::Producer>;

    /// Waits until the system has taken in all that was scheduled. By default it schedules one more
    /// timeout, due soon, and waits until that has run: queues are in order.
    fn settle(&self) -> Result<()> {
        let mut producer = self.producer()?;
        let marker = Recorder::counting(1);
        let delay = Duration::from_millis(1);
        let mut handle = Default::default();
        producer.fire(Instant::now() + delay, delay, marker.task(0), &mut handle)?;
        producer.wait(marker, Instant::now() + PATIENCE)
    }

    /// Notes for the reader of a result, such as settings.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
