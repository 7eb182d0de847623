//! W3: reset of keep-alives, as packets do.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tourbillon::Timeout;

use super::lap::{Lap, nudge, race, settle};
use crate::engine_options::EngineOptions;

const KEEP_ALIVES: usize = 100_000;
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Length of the random order, which is gone through again and again: 1 MiB.
const ORDER: usize = 1 << 18;

/// What a producer has prepared: its keep-alives, and in which order it resets them.
#[derive(Debug)]
struct Prepared {
    handles: Vec<Timeout>,
    order: Vec<u32>,
}

/// Resets `resets` random keep-alives per producer to now + 60 s. Each producer has 100,000.
pub(crate) fn lap(options: &EngineOptions, producers: usize, resets: usize) -> Result<Lap> {
    let timer = options.build(producers * KEEP_ALIVES)?;
    let prepare = |number: usize| -> Result<Prepared> {
        let handles = (0..KEEP_ALIVES)
            .map(|_| timer.schedule(KEEP_ALIVE, || ()).map_err(|_| anyhow!("refused")))
            .collect::<Result<Vec<Timeout>>>()?;
        // What is measured is a reset in the wheel, where it stays nearly always.
        nudge(&timer);
        settle(&timer)?;
        let mut random = fastrand::Rng::with_seed(number as u64);
        let last = u32::try_from(KEEP_ALIVES - 1)?;
        Ok(Prepared { handles, order: (0..ORDER).map(|_| random.u32(0..=last)).collect() })
    };
    let work = |prepared: &mut Result<Prepared>| {
        let prepared = prepared.as_mut().map_err(|why| anyhow!("{why}"))?;
        let mut too_late = 0;
        for &place in prepared.order.iter().cycle().take(resets) {
            too_late += u32::from(!prepared.handles[place as usize].reset(KEEP_ALIVE));
        }
        // Read, so that the loop is not for nothing; none of them can have fired.
        if too_late == 0 { Ok(()) } else { Err(anyhow!("{too_late} resets were refused")) }
    };
    race(&timer, producers, resets, prepare, work)
}
