//! Tokio's timers, on a multi-threaded runtime with a worker for each core.

use std::future::ready;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::time::{Sleep, sleep, sleep_until, timeout};

use super::futures::{Futures, Kind, is_ready_at_once};
use super::plan::Plan;

pub(crate) type Sleeps = Futures<SleepKind>;

/// Lives as long as the process.
fn runtime() -> Result<&'static Runtime> {
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
