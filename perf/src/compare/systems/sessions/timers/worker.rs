//! Tourbillon with its worker, which runs what expires: it hands that to the loop, and wakes it.

use std::task::Context;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tourbillon::{Inline, Timeout, Timer};

use super::due::Shared;
use super::{Of, Timers, forget, slot};

#[derive(Debug)]
pub(in super::super) struct Worker {
    timer: Timer,
    shared: Shared,
    timeouts: Vec<Option<Timeout>>,
}

impl Timers for Worker {
    const OF_TOKIO: bool = false;

    fn start(sessions: usize) -> Result<Self> {
        let timer = Timer::builder().executor(Inline).capacity(2 * sessions).build();
        let timer = timer.context("the engine refused its options")?;
        Ok(Self { timer, shared: Shared::default(), timeouts: Vec::new() })
    }

    fn arm(&mut self, of: Of, delay: Duration, _deadline: Instant) {
        let entry = slot(&mut self.timeouts, of);
        if !entry.as_ref().is_some_and(|timeout| timeout.reset(delay)) {
            let shared = self.shared.clone();
            // Only a shutdown or a limit could refuse it. Then it would be missing.
            *entry = self.timer.schedule(delay, move || shared.push(of)).ok();
        }
    }

    fn forget(&mut self, place: u32) {
        forget(&mut self.timeouts, place);
    }

    fn come_up(&mut self, context: &mut Context<'_>, due: &mut Vec<Of>) {
        self.shared.take(context, due);
    }
}
