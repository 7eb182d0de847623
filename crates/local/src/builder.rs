//! The options of an engine.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use tourbillon::{BuildError, Clock};
use tourbillon_wheel::{Wheel, WheelError};

use crate::engine::Engine;
use crate::ticks::{MOST_NS, Ticks};
use crate::{LocalDriver, LocalTimer};

const SHORTEST_TICK: Duration = Duration::from_micros(1);
const MAX_TICKS_PER_WHEEL: usize = 1 << 20;
/// The largest levels × log2(ticks_per_wheel).
const MAX_TICK_BITS: u32 = 55;
/// The lowest level has no more slots than these, unless `ticks_per_wheel` is more.
const MOST_LOWEST: usize = 1 << 16;
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Makes an engine for one thread alone, whose tasks and futures need not be `Send`.
/// [`LocalTimer::builder`] makes it.
#[must_use = "a builder does nothing until it is built"]
pub struct LocalBuilder {
    tick: Duration,
    ticks_per_wheel: usize,
    levels: Option<usize>,
    expiry_limit: usize,
    clock: Option<Box<dyn Clock>>,
}

impl LocalBuilder {
    pub(crate) fn new() -> Self {
        let tick = Duration::from_millis(1);
        Self { tick, ticks_per_wheel: 512, levels: None, expiry_limit: 100_000, clock: None }
    }

    /// Sets the tick, 1 ms by default. Deadlines are rounded up to a sixteenth of it, but to no
    /// less than a microsecond. The loop comes back for each of these in which something is due: a
    /// server that has many timeouts a millisecond, and can be a millisecond late, takes 16 ms.
    pub fn tick_duration(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// Sets how many slots a level of the wheel has, 512 by default. They are rounded up to a power
    /// of two.
    pub fn ticks_per_wheel(mut self, ticks: usize) -> Self {
        self.ticks_per_wheel = ticks;
        self
    }

    /// Sets how many levels the wheel has, by default as many as reach a year. Each reaches as many
    /// times as far as the one below as it has slots. A deadline beyond the last one waits for
    /// rounds.
    pub fn levels(mut self, levels: usize) -> Self {
        self.levels = Some(levels);
        self
    }

    /// Sets how many timeouts a turn may handle, 100,000 by default.
    pub fn expiry_limit(mut self, timeouts: usize) -> Self {
        self.expiry_limit = timeouts;
        self
    }

    /// Sets the clock: a [`ManualClock`](tourbillon::ManualClock) for tests, say. By default it is
    /// [`Instant::now`](std::time::Instant::now).
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Makes the engine. The caller turns it by the [`LocalDriver`]. The call allocates, and does
    /// not block.
    ///
    /// # Errors
    /// If an option makes no sense, or if there is no memory for the wheel: see [`BuildError`].
    pub fn build(self) -> Result<(LocalTimer, LocalDriver), BuildError> {
        let Self { tick, ticks_per_wheel, levels, expiry_limit, clock } = self;
        within("tick_duration", tick.as_nanos(), SHORTEST_TICK.as_nanos(), MOST_NS.into())?;
        within("ticks_per_wheel", ticks_per_wheel as u128, 1, MAX_TICKS_PER_WHEEL as u128)?;
        within("expiry_limit", expiry_limit as u128, 1, usize::MAX as u128)?;
        within("levels", levels.unwrap_or(1) as u128, 1, usize::MAX as u128)?;
        let slots = ticks_per_wheel.next_power_of_two();
        let bits = slots.ilog2().max(1);
        let max = (MAX_TICK_BITS / bits) as usize;
        let ticks = Ticks::new(clock, tick);
        let a_year = if slots == 1 { 1 } else { (ticks.bits(A_YEAR).div_ceil(bits) as usize).clamp(1, max) };
        let levels = levels.unwrap_or(a_year);
        if levels > max {
            return Err(BuildError::TooManyLevels { levels, ticks_per_wheel: slots, max });
        }
        // A slot of the lowest level is a part of a tick.
        let lowest = (slots * ticks.parts()).min(MOST_LOWEST.max(slots));
        let wheel = Wheel::with_lowest(lowest, slots, levels).map_err(|why| match why {
            WheelError::OutOfMemory => BuildError::Wheels { shards: 1, levels, ticks_per_wheel: slots },
            _ => BuildError::TooFewTicks { levels },
        })?;
        let engine = Rc::new(Engine::new(ticks, wheel, expiry_limit));
        Ok((LocalTimer::new(Rc::clone(&engine)), LocalDriver::new(engine)))
    }
}

fn within(option: &'static str, value: u128, min: u128, max: u128) -> Result<(), BuildError> {
    match value {
        0 => Err(BuildError::Zero { option }),
        _ if value < min => Err(BuildError::TooSmall { option, value, min }),
        _ if value > max => Err(BuildError::TooLarge { option, value, max }),
        _ => Ok(()),
    }
}

impl fmt::Debug for LocalBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tick, ticks_per_wheel, levels, expiry_limit, .. } = self;
        let mut this = f.debug_struct("LocalBuilder");
        this.field("tick_duration", tick).field("ticks_per_wheel", ticks_per_wheel);
        this.field("levels", levels).field("expiry_limit", expiry_limit).finish_non_exhaustive()
    }
}
