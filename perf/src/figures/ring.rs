//! W2: schedule + cancel over a ring, as request deadlines do.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tourbillon::{Timeout, Timer};

use super::lap::{Lap, race};
use crate::engine_options::EngineOptions;

const RING: usize = 1_000;

/// Far enough that none expires.
const DELAY: Duration = Duration::from_secs(60);

/// Takes `steps` per producer: each cancels the oldest of its ring and schedules a new one.
pub(crate) fn lap(options: &EngineOptions, producers: usize, steps: usize) -> Result<Lap> {
    let timer = options.build(producers * RING * 4)?;
    let prepare = |_| -> Result<Vec<Timeout>> { (0..RING).map(|_| schedule(&timer)).collect() };
    let work = |ring: &mut Result<Vec<Timeout>>| {
        let ring = ring.as_mut().map_err(|why| anyhow!("{why}"))?;
        let mut left = steps;
        while left > 0 {
            for place in ring.iter_mut().take(left) {
                place.cancel();
                *place = schedule(&timer)?;
            }
            left = left.saturating_sub(RING);
        }
        Ok(())
    };
    race(&timer, producers, steps, prepare, work)
}

fn schedule(timer: &Timer) -> Result<Timeout> {
    timer.schedule(DELAY, || ()).map_err(|_| anyhow!("the engine refused a timeout"))
}
