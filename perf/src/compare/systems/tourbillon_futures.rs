//! Tourbillon's futures. A sleep may be polled where it lies, so that the handle is the future
//! itself.

use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tourbillon::{Sleep, Timer};

use super::plan::Plan;
use super::producer::Producer;
use super::system::System;
use crate::compare::recorder::Task;

#[derive(Debug)]
pub(crate) struct Engine(Timer);

impl System for Engine {
    type Producer = Poller;

    fn start(plan: &Plan) -> Result<Self> {
        let capacity = plan.capacity.unwrap_or(0) + 256 * (plan.producers + 1);
        Ok(Self(
            Timer::builder().tick_duration(plan.tick).capacity(capacity).build().context("the options make sense")?,
        ))
    }

    fn producer(&self) -> Result<Poller> {
        Ok(Poller(self.0.clone()))
    }

    fn settle(&self) -> Result<()> {
        // Nothing but what was dropped waits for the worker.
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Poller(Timer);

impl Producer for Poller {
    type Handle = Option<Sleep>;

    fn schedule(&mut self, delay: Duration, _task: Task, handle: &mut Self::Handle) -> Result<()> {
        let sleep = handle.insert(self.0.sleep(delay));
        let pending = Pin::new(sleep).poll(&mut Context::from_waker(Waker::noop())).is_pending();
        ensure!(pending, "a sleep of {delay:?} is over at once");
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        handle.take().is_some()
    }

    fn reset(&mut self, _delay: Duration, deadline: Instant, handle: &mut Self::Handle) -> bool {
        let Some(sleep) = handle else { return false };
        sleep.reset_at(deadline);
        true
    }

    fn limit_ready(&mut self, limit: Duration) -> bool {
        pin!(self.0.timeout(limit, ready(()))).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}
