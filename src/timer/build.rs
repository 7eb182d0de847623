//! Makes an engine from its options.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use super::Timer;
use super::builder::Builder;
use super::driver::{Bell, Driver, ring};
use super::engine::{Owner, Runner};
use super::error::{BuildError, check, check_count};
use crate::arena::Arena;
use crate::engine::{Core, SharedPlan, SharedRef};
use crate::executor::{Chosen, ThreadPool};
use crate::shard::{MOST_SHARDS, Number};
use crate::sync::Mutex;
use crate::sys::cores::allowed_cores;
use crate::time::{MOST_NS, Timeline};
use crate::wheel::Wheel;
use crate::worker::{Dispatch, Pinning, WorkerPlan, Workers};

const MAX_SHARDS: usize = 1024;
/// With shorter ticks the engine would run out of them within a hundred years.
const SHORTEST_TICK: Duration = Duration::from_micros(1);
const MAX_TICKS_PER_WHEEL: usize = 1 << 20;
/// 2^40 entries of 64 bytes are more than any machine has.
const MAX_CAPACITY: usize = 1 << (usize::BITS - 24);
/// The largest levels × log2(ticks_per_wheel). A tick has some bits more.
const MAX_TICK_BITS: u32 = 55;
/// The lowest level has no more slots than these, unless `ticks_per_wheel` is more. Each takes 32
/// bytes.
const MOST_SUBTICKS: usize = 1 << 16;
/// The default number of levels makes at least this long addressable.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
/// The default has one shard for this many cores.
const CORES_PER_SHARD: usize = 4;

impl Builder {
    /// Makes an engine with a worker thread for each shard.
    ///
    /// The call allocates the wheels and the reserved [`capacity`](Self::capacity). It neither
    /// blocks nor starts a thread: threads start with the first timeout.
    ///
    /// # Errors
    /// Returns a [`BuildError`] if an option makes no sense or cannot be had. The error names the
    /// option and says what would do.
    pub fn build(mut self) -> Result<Timer, BuildError> {
        let shards = self.shards.unwrap_or_else(default_shards);
        let (shared, made) = self.make_shared(shards)?;
        let cores = self.plan_cores(shards)?;
        let pool = || Chosen::new(ThreadPool::by_cores(&format!("{}-pool", self.thread_name)));
        let executor = self.executor.take().unwrap_or_else(pool);
        let plan = WorkerPlan { wait: self.wait, thread_name: self.thread_name.clone(), cores };
        let workers = Workers::new(plan, made, &shared, || Dispatch::new(executor.clone(), self.hooks.clone()));
        let doorbell = crate::sync::Arc::clone(&workers);
        shared.set_waker(move |remote| Workers::wake(&doorbell, remote));
        Ok(Timer { owner: Owner::new(shared, Runner::Workers(workers), Some(executor), self.ticks_per_wheel) })
    }

    /// Makes the global engine of the process, which [`Timer::global`] returns from then on. The
    /// free functions, such as [`sleep`](crate::sleep), and `compat` go by it, and so do futures
    /// whose own engine has been shut down.
    ///
    /// Call it once, at the start of `main`: an engine that is global stays so. A forked child may
    /// call it again, first thing after the fork. The call is otherwise [`build`](Self::build). The
    /// idea and the name are rayon's.
    ///
    /// ```standalone_crate
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Timer::builder().tick_duration(Duration::from_micros(100)).build_global()?;
    /// Timer::global().schedule_detached(Duration::from_millis(5), || println!("on that engine"))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`build`](Self::build), and [`BuildError::GlobalExists`] if there is a
    /// global engine already. A library should leave the choice to the program that it is part of.
    pub fn build_global(self) -> Result<&'static Timer, BuildError> {
        self.build()?.set_global().map_err(|_| BuildError::GlobalExists)
    }

    /// Makes an engine without threads, which the [`Driver`] turns.
    ///
    /// It does not use `executor`, `wait` and `pinning`. The call allocates as
    /// [`build`](Self::build) does, and does not block.
    ///
    /// # Errors
    /// The same as [`build`](Self::build).
    pub fn build_driven(mut self) -> Result<(Timer, Driver), BuildError> {
        let (shared, shards) = self.make_shared(self.shards.unwrap_or(1))?;
        let bell = Arc::new(Bell::default());
        let its = Arc::clone(&bell);
        shared.set_waker(move |remote| ring(&its, remote));
        let shards = Arc::new(Mutex::new(shards));
        let driver = Driver {
            shared: shared.clone(),
            shards: Arc::clone(&shards),
            bell,
            on_turn: self.hooks.on_turn.take(),
            expiry_limit: self.limits.expiry,
            wakes: Vec::new(),
        };
        Ok((Timer { owner: Owner::new(shared, Runner::Driver(shards), None, self.ticks_per_wheel) }, driver))
    }

    /// Checks the options that all kinds of engines have, and rounds the ticks up. Returns the
    /// number of levels.
    fn checked_options(&mut self) -> Result<usize, BuildError> {
        check("tick_duration", self.tick_duration.as_nanos(), SHORTEST_TICK.as_nanos(), MOST_NS.into())?;
        check_count("ticks_per_wheel", self.ticks_per_wheel, MAX_TICKS_PER_WHEEL)?;
        check_count("transfer_limit", self.limits.transfer, usize::MAX)?;
        check_count("expiry_limit", self.limits.expiry, usize::MAX)?;
        check_count("max_pending_timeouts", self.max_pending_timeouts.unwrap_or(usize::MAX), usize::MAX)?;
        if self.capacity > MAX_CAPACITY {
            return Err(BuildError::Capacity { timeouts: self.capacity });
        }
        self.ticks_per_wheel = self.ticks_per_wheel.next_power_of_two();
        self.checked_levels()
    }

    fn make_shared(&mut self, shards: usize) -> Result<(SharedRef, Vec<Core>), BuildError> {
        check_count("shards", shards, MAX_SHARDS)?;
        let levels = self.checked_options()?;
        let ticks_per_wheel = self.ticks_per_wheel;
        let no_memory = || BuildError::Wheels { shards, levels, ticks_per_wheel };
        let plan = SharedPlan {
            timeline: Timeline::new(self.clock.take(), self.tick_duration),
            arena: Arena::new(self.capacity).ok_or(BuildError::Capacity { timeouts: self.capacity })?,
            max_pending: self.max_pending_timeouts,
            max_wait: self.max_wait,
            on_panic: self.on_panic.take(),
        };
        let shared = SharedRef::create(plan, take_numbers(shards, no_memory)?).ok_or_else(no_memory)?;
        // A slot of the lowest level is a subtick.
        let lowest = self.ticks_per_wheel * shared.timeline().scale().subticks();
        let lowest = lowest.min(MOST_SUBTICKS.max(self.ticks_per_wheel));
        let shard = |index| {
            let mut wheel = Wheel::new(lowest, self.ticks_per_wheel, levels).ok_or_else(no_memory)?;
            wheel.spread_cascades(self.tick_duration);
            let has_room = wheel.reserve(self.capacity.div_ceil(shards));
            let shard = has_room.then(|| Core::new(&shared, index, wheel, self.limits));
            shard.ok_or(BuildError::Capacity { timeouts: self.capacity })
        };
        let shards = (0..shards).map(shard).collect::<Result<_, _>>()?;
        Ok((shared, shards))
    }

    fn checked_levels(&self) -> Result<usize, BuildError> {
        let bits = self.ticks_per_wheel.ilog2();
        // Wheels of one tick do not stack.
        let max = MAX_TICK_BITS.checked_div(bits).unwrap_or(1);
        let Some(levels) = self.levels else {
            let ticks = A_YEAR.as_nanos().div_ceil(self.tick_duration.as_nanos());
            let bits_of_a_year = ticks.next_power_of_two().ilog2();
            return Ok(bits_of_a_year.div_ceil(bits.max(1)).clamp(1, max) as usize);
        };
        check_count("levels", levels, usize::MAX)?;
        match max as usize {
            max if levels <= max => Ok(levels),
            1 => Err(BuildError::TooFewTicks { levels }),
            max => Err(BuildError::TooManyLevels { levels, ticks_per_wheel: self.ticks_per_wheel, max }),
        }
    }

    fn plan_cores(&self, shards: usize) -> Result<Vec<Option<usize>>, BuildError> {
        let allowed = allowed_cores();
        if let Pinning::Cores(cores) = &self.pinning {
            if cores.is_empty() {
                return Err(BuildError::Zero { option: "the number of cores in Pinning::Cores" });
            }
            if let Some(&core) = cores.iter().find(|core| !allowed.contains(core)) {
                return Err(BuildError::UnknownCore { core, allowed });
            }
        }
        Ok(self.pinning.plan(shards, &allowed))
    }
}

/// Takes a number for each shard.
fn take_numbers(shards: usize, no_memory: impl Fn() -> BuildError) -> Result<Vec<Number>, BuildError> {
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(shards).map_err(|_| no_memory())?;
    numbers.extend(Number::take().take(shards));
    let are_enough = numbers.len() == shards;
    are_enough.then_some(numbers).ok_or(BuildError::TooManyShards { shards, max: MOST_SHARDS })
}

fn default_shards() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    (cores / CORES_PER_SHARD).clamp(1, MAX_SHARDS)
}
