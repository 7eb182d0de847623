//! W1: schedule, into memory that was reserved.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tourbillon::Timeout;

use super::lap::{Lap, race};
use crate::engine_options::EngineOptions;

/// What a producer has prepared: delays, and room for the handles.
#[derive(Debug)]
struct Prepared {
    delays: Vec<Duration>,
    handles: Vec<Option<Timeout>>,
}

/// Schedules `each` timeouts per producer, due in 30 s to 60 s.
pub(crate) fn lap(options: &EngineOptions, producers: usize, each: usize) -> Result<Lap> {
    // Two more each: one warms up, one ends the race.
    let timer = options.build(producers * (each + 2))?;
    let prepare = |number: usize| {
        let mut random = fastrand::Rng::with_seed(number as u64);
        let delay = |_| Duration::from_micros(random.u64(30_000_000..60_000_000));
        let delays = (0..each).map(delay).collect();
        // Written to, so that the pages are there before the clock is read.
        let mut handles = Vec::new();
        handles.resize_with(each, || None);
        // Starts the worker, and whatever the engine keeps by thread.
        if let Ok(warm) = timer.schedule(Duration::from_secs(60), || ()) {
            warm.cancel();
        }
        Prepared { delays, handles }
    };
    let work = |prepared: &mut Prepared| {
        for (&delay, place) in prepared.delays.iter().zip(&mut prepared.handles) {
            let timeout = timer.schedule(delay, || ());
            *place = Some(timeout.map_err(|_| anyhow!("the engine refused a timeout"))?);
        }
        Ok(())
    };
    race(&timer, producers, each, prepare, work)
}
