//! Tourbillon without a thread: the loop turns the engine.

use std::task::Context;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tourbillon::{Driver, Timeout, Timer};

use super::due::{clear_here, push_here, take_here};
use super::wake_at::WakeAt;
use super::{Of, Timers, forget, slot};

#[derive(Debug)]
pub(in super::super) struct Driven {
    timer: Timer,
    driver: Driver,
    wake_at: WakeAt,
    next: Option<Instant>,
    timeouts: Vec<Option<Timeout>>,
}

impl Timers for Driven {
    const OF_TOKIO: bool = false;

    fn start(sessions: usize) -> Result<Self> {
        clear_here();
        let builder = Timer::builder().capacity(2 * sessions);
        let (timer, driver) = builder.build_driven().context("the engine refused its options")?;
        Ok(Self { timer, driver, wake_at: WakeAt::new()?, next: None, timeouts: Vec::new() })
    }

    fn arm(&mut self, of: Of, delay: Duration, _deadline: Instant) {
        let entry = slot(&mut self.timeouts, of);
        if !entry.as_ref().is_some_and(|timeout| timeout.reset(delay)) {
            // Only a shutdown or a limit could refuse it. Then it would be missing.
            *entry = self.timer.schedule(delay, move || push_here(of)).ok();
        }
    }

    fn forget(&mut self, place: u32) {
        forget(&mut self.timeouts, place);
    }

    fn come_up(&mut self, context: &mut Context<'_>, due: &mut Vec<Of>) {
        if self.next.is_some_and(|next| next <= Instant::now()) {
            self.driver.turn();
        }
        take_here(context, due);
        self.next = self.driver.next_wakeup();
        if self.wake_at.set(self.next, context) {
            context.waker().wake_by_ref();
        }
    }
}
