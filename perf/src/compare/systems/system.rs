//! What every system under test can do.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::patience::PATIENCE;
use super::plan::Plan;
use super::producer::Producer;
use crate::compare::recorder::Recorder;

/// A timer under test: one in the process, as long as that lives.
pub(crate) trait System: Sync + Sized + 'static {
    type Producer: Producer;

    fn start(plan: &Plan) -> Result<Self>;

    /// What a thread needs to schedule; called on that thread.
    fn producer(&self) -> Result<Self::Producer>;

    /// Waits until what has been scheduled has been taken in by who keeps it. By default until a timeout that is scheduled
    /// last, and due soon, has run: queues are in order.
    fn settle(&self) -> Result<()> {
        let mut producer = self.producer()?;
        let marker = Recorder::counting(1);
        let delay = Duration::from_millis(1);
        let mut handle = Default::default();
        producer.fire(Instant::now() + delay, delay, marker.task(0), &mut handle)?;
        producer.wait(marker, Instant::now() + PATIENCE)
    }

    /// What else is to be known about it.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
