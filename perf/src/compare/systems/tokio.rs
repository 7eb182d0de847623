//! Tokio's timers, on a multi-threaded runtime with a worker for each core.

use std::future::{Pending, pending, ready};
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Sleep, Timeout, sleep, sleep_until, timeout};

use super::futures::{Futures, Kind, is_ready_at_once};
use super::patience::PATIENCE;
use super::plan::Plan;
use super::producer::Producer;
use super::system::System;
use crate::compare::recorder::Task;

pub(crate) type Sleeps = Futures<SleepKind>;
pub(crate) type Timeouts = Futures<TimeoutKind>;

/// Lives as long as the process.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    let runtime = Builder::new_multi_thread().enable_time().build().context("no tokio runtime")?;
    Ok(Box::leak(Box::new(runtime)))
}

#[derive(Debug)]
pub(crate) struct SleepKind(&'static Runtime);

impl Kind for SleepKind {
    type Future = Sleep;
    type Entered = EnterGuard<'static>;

    fn start(_plan: &Plan) -> Result<Self> {
        runtime().map(Self)
    }

    fn enter(&self) -> EnterGuard<'static> {
        self.0.enter()
    }

    fn after(delay: Duration) -> Sleep {
        sleep(delay)
    }

    fn at(deadline: Instant, _delay: Duration) -> Sleep {
        sleep_until(deadline.into())
    }

    fn limit_ready(limit: Duration) -> bool {
        is_ready_at_once(timeout(limit, ready(())))
    }

    fn reset(place: Pin<&mut Option<Sleep>>, delay: Duration) -> bool {
        let Some(sleep) = place.as_pin_mut() else { return false };
        sleep.reset(tokio::time::Instant::now() + delay);
        true
    }
}

#[derive(Debug)]
pub(crate) struct TimeoutKind(&'static Runtime);

impl Kind for TimeoutKind {
    type Future = Timeout<Pending<()>>;
    type Entered = EnterGuard<'static>;

    fn start(_plan: &Plan) -> Result<Self> {
        runtime().map(Self)
    }

    fn enter(&self) -> EnterGuard<'static> {
        self.0.enter()
    }

    fn after(delay: Duration) -> Self::Future {
        timeout(delay, pending())
    }
}

/// A task for each timeout.
#[derive(Debug)]
pub(crate) struct Tasks(&'static Runtime);

impl System for Tasks {
    type Producer = Spawner;

    fn start(_plan: &Plan) -> Result<Self> {
        runtime().map(Self)
    }

    fn producer(&self) -> Result<Spawner> {
        Ok(Spawner(self.0))
    }

    fn settle(&self) -> Result<()> {
        // The workers steal from each other, so a last task says nothing about those before it;
        // asleep they say it all.
        let limit = Instant::now() + PATIENCE;
        let mut quiet = 0;
        let mut before = 0;
        while quiet < 3 {
            ensure!(Instant::now() < limit, "the runtime does not come to rest");
            std::thread::sleep(Duration::from_millis(10));
            let metrics = self.0.metrics();
            let polled =
                (0..metrics.num_workers()).map(|worker| metrics.worker_total_busy_duration(worker).as_nanos()).sum();
            quiet = if polled == before && metrics.global_queue_depth() == 0 { quiet + 1 } else { 0 };
            before = polled;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Spawner(&'static Runtime);

impl Producer for Spawner {
    type Handle = Option<JoinHandle<()>>;

    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        self.fire(Instant::now() + delay, delay, task, handle)
    }

    fn fire(&mut self, deadline: Instant, _delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        *handle = Some(self.0.spawn(async move {
            sleep_until(deadline.into()).await;
            task.run();
        }));
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        handle.take().inspect(JoinHandle::abort).is_some()
    }

    fn reset(&mut self, _delay: Duration, _deadline: Instant, _handle: &mut Self::Handle) -> bool {
        false
    }
}
